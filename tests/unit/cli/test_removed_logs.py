"""Why a Job whose pods ran has no log."""

from __future__ import annotations

import msgspec
import pytest

from job_controller.model import Job, JobSpec, JobStatus, ObjectMeta
from queue_manager.accounting.record_types import PodRecord
from queue_manager.api.types import Attempt, RequeueHistory, Workload, WorkloadStatus
from queue_manager.cli.removed_logs import Chosen, removal
from queue_manager.visibility.wire_types import Pod, PodStatus
from tests.unit.accounting.history_samples import at, pod

LOST = Attempt(start=at(10), end=at(100), reason="Deactivated", ran_seconds=90)
EVICTED = Workload(status=WorkloadStatus(requeue_history=RequeueHistory(attempts=(LOST,))))
REFUSED = msgspec.structs.replace(LOST, pod_cause="no pod can be created: exceeded quota")
WITHOUT_PODS = Workload(status=WorkloadStatus(requeue_history=RequeueHistory(attempts=(REFUSED,))))
RAN = pod("j-1", seconds=99, exit_code=143, reason="Error", phase="Deleted")
DELETED = "were deleted when attempt 1 ended 3m20s ago (Deactivated), and their logs with them"


@pytest.mark.parametrize(
    ("workload", "ended", "failed", "clause"),
    [
        (EVICTED, [RAN], 0, f"its pods {DELETED}; the last one, j-1, ended 3m21s ago: exit 143 (Error)"),
        (EVICTED, [msgspec.structs.replace(RAN, exit_code=None)], 0, ""),
        (EVICTED, [], 0, f"its pods, if any had started, {DELETED}"),
        (EVICTED, None, 0, f"its pods, if any had started, {DELETED}"),
        (EVICTED, None, 1, f"its pods {DELETED}"),
        (WITHOUT_PODS, [], 0, ""),
        (None, None, 1, "its pods were deleted, and their logs with them"),
        (None, None, 0, ""),
    ],
    ids=[
        "a pod ran",
        "no pod ran",
        "the history lags",
        "of another cluster",
        "a pod failed there",
        "the API server refused its pods",
        "of an ended Job",
        "nothing happened",
    ],
)
def test_deleted_pods_are_named_with_the_end_of_their_attempt(
    workload: Workload | None, ended: list[PodRecord] | None, failed: int, clause: str
) -> None:
    assert removal(Job(status=JobStatus(failed=failed)), workload, ended, at(300)) == clause


FAILED = pod("j-0-aaaaa", seconds=50, exit_code=3, phase="Failed", message="exit 3: boom")
SUCCEEDED = pod("j-1-bbbbb", seconds=60, exit_code=0, phase="Succeeded")
ENDED = (FAILED, SUCCEEDED)
INDEXED = JobSpec(completions=3, completion_mode="Indexed")


@pytest.mark.parametrize(
    ("chosen", "clause"),
    [
        (Chosen(failed=True), f"its failed pods {DELETED}; the last one, j-0-aaaaa, ended 4m10s ago: exit 3: boom"),
        (Chosen(earlier=True), f"its earlier pods {DELETED}; the last one, j-1-bbbbb, ended 4m00s ago: exit 0"),
        (Chosen(index=0), f"its pods {DELETED}; the last one, j-0-aaaaa, ended 4m10s ago: exit 3: boom"),
        (Chosen(index=1, failed=True), ""),
        (Chosen(index=2), ""),
    ],
)
def test_of_chosen_pods_those_are_named_that_were_deleted(chosen: Chosen, clause: str) -> None:
    assert removal(Job(spec=INDEXED), EVICTED, ENDED, at(300), chosen) == clause


def test_a_failed_pod_that_exists_was_not_deleted() -> None:
    stays = Pod(metadata=ObjectMeta(name=FAILED.name, uid=FAILED.uid), status=PodStatus(phase="Failed"))
    job = Job(status=JobStatus(failed=1))
    assert removal(job, None, ENDED, at(300), Chosen(failed=True), [stays]) == ""
    assert removal(job, None, None, at(300), Chosen(failed=True), [stays]) == ""
    assert removal(job, None, None, at(300), Chosen(failed=True)) == (
        "its failed pods were deleted, and their logs with them"
    )


def test_an_index_that_ended_on_another_cluster_has_had_a_pod() -> None:
    job = Job(spec=INDEXED, status=JobStatus(failed=1, completed_indexes="1", failed_indexes="0"))
    every = [Chosen(index, failed) for index in range(3) for failed in (False, True)]
    assert [bool(removal(job, None, None, at(300), chosen)) for chosen in every] == [True] * 3 + [False] * 3


def test_the_attempt_is_that_of_the_pod_though_a_later_one_had_none() -> None:
    attempts = (LOST, Attempt(start=at(120), end=at(121), reason="Deactivated", ran_seconds=1))
    twice = Workload(status=WorkloadStatus(requeue_history=RequeueHistory(attempts=attempts)))
    assert removal(Job(), twice, [RAN], at(300)).startswith(f"its pods {DELETED}; the last one, j-1,")
    assert "when attempt 2 ended 2m59s ago" in removal(Job(), twice, None, at(300))


def test_a_pod_that_an_eviction_deleted_after_its_error_has_failed() -> None:
    broken = msgspec.structs.replace(RAN, exit_code=4, message="exit 4: db is gone")
    assert removal(Job(), EVICTED, [broken], at(300), Chosen(failed=True)).endswith("exit 4: db is gone")
    assert removal(Job(), EVICTED, [RAN], at(300), Chosen(failed=True)) == ""

"""Why a Job whose pods ran has no log."""

from __future__ import annotations

import msgspec
import pytest

from job_controller.model import Job, JobStatus
from queue_manager.accounting.record_types import PodRecord
from queue_manager.api.types import Attempt, RequeueHistory, Workload, WorkloadStatus
from queue_manager.cli.removed_logs import removal
from tests.unit.accounting.history_samples import at, pod

LOST = Attempt(start=at(10), end=at(100), reason="Deactivated", ran_seconds=90)
EVICTED = Workload(status=WorkloadStatus(requeue_history=RequeueHistory(attempts=(LOST,))))
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
        (None, None, 1, "its pods were deleted, and their logs with them"),
        (None, None, 0, ""),
    ],
    ids=[
        "a pod ran",
        "no pod ran",
        "the history lags",
        "of another cluster",
        "a pod failed there",
        "of an ended Job",
        "nothing happened",
    ],
)
def test_deleted_pods_are_named_with_the_end_of_their_attempt(
    workload: Workload | None, ended: list[PodRecord] | None, failed: int, clause: str
) -> None:
    assert removal(Job(status=JobStatus(failed=failed)), workload, ended, at(300)) == clause

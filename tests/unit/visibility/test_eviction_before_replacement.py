"""What is announced of a Job between two tries that waitForPodsReady may end first."""

from __future__ import annotations

import pytest

from job_controller.options import JobControllerOptions
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.visibility.eviction_before_replacement import UnusedRetries, unused_retries, without_vain_retries
from queue_manager.visibility.job_states import JobState, job_row
from queue_manager.visibility.predictions import PredictionContext, predict
from tests.unit.visibility.build import admitted, at, cond, job, pod, wire, workload

REPLACED = "a pod is created in place of a failed one"
RETRIED = job(suspend=False, backoffLimit=3, status={"failed": 1})
FAILED = [pod("j-a", "Failed", exit=3, ended=50)]  # is replaced at 60


@pytest.mark.parametrize(("timeout", "retries"), [(15, False), (20, False), (21, True), (None, True)])
def test_no_next_pod_is_announced_after_the_eviction(timeout: int | None, retries: bool) -> None:
    waits = cond("PodsReady", "False", "WaitForStart", seconds=40)
    its = workload(conditions=[*admitted(40), waits])
    ready = PodsReadySettings(timeout=timeout) if timeout is not None else None
    settings = WorkloadSettings(pods_ready=ready)
    row = job_row(RETRIED, its, at(52), pods=FAILED)
    (shown,) = without_vain_retries([row], {RETRIED.metadata.key: its}, settings, at(52))
    assert shown.retry_at == (at(60) if retries else None)
    context = PredictionContext(settings=settings)
    found = predict(RETRIED, its, FAILED, None, JobState.BACKOFF, context, at(52))
    assert (REPLACED in [step.what for step in found]) == retries


def test_the_end_of_a_requeue_backoff_is_still_announced() -> None:
    status = {"requeueState": {"count": 1, "requeueAt": wire(90)}}
    its = workload(conditions=admitted(40), status=status)
    row = job_row(job(), its, at(52))
    settings = WorkloadSettings(pods_ready=PodsReadySettings(timeout=15))
    (shown,) = without_vain_retries([row], {RETRIED.metadata.key: its}, settings, at(52))
    assert (shown.state, shown.retry_at) == ("Backoff", at(90))


@pytest.mark.parametrize(
    ("retries", "timeout", "recovery", "limit", "found"),
    [
        (5, 60, 15, 1, UnusedRetries(2, 2, 20, 15)),
        (5, 8, 8, 1, UnusedRetries(1, 1, 10, 8, since_first=True)),
        (5, 60, None, 0, UnusedRetries(2, 3, 70, 60, since_first=True)),
        (5, 60, 15, 3, UnusedRetries(4, 2, 20, 15)),
        (5, 60, 15, 4, None),
        (1, 60, 15, 0, None),
        (5, 60, 15, None, None),
        (5, 1800, 1800, 0, None),
        (0, 1, 1, 0, None),
    ],
    ids=["recovery", "first", "start", "some", "enough", "in time", "no limit", "defaults", "no retries"],
)
def test_retries_that_come_later_than_the_pods_may_be_unready_are_counted(
    retries: int, timeout: float, recovery: float | None, limit: int | None, found: UnusedRetries | None
) -> None:
    """The waits between pods are 10, 20, 40, 80 and 160 s; the requeue backoff is 60, 120, 240 and 480 s."""
    own = PodsReadySettings(timeout=timeout, recovery_timeout=recovery, limit=limit)
    assert unused_retries(retries, own, JobControllerOptions()) == found
    assert unused_retries(retries, None, JobControllerOptions()) is None

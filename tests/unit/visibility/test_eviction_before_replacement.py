"""What is announced of a Job between two tries that waitForPodsReady may end first."""

from __future__ import annotations

import pytest

from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.visibility.eviction_before_replacement import without_vain_retries
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

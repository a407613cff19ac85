"""Distinguishes Running from Starting, and says why a Job that ran is Starting again. Pure.

Within one attempt the state of a Job goes from Starting to Running to its end. The numbers in its status do not: a pod
that ends is no longer ready, and becomes part of a counter only one write later, the write that ends the Job. So these
count as Running as well:

    status.uncountedTerminatedPods has a pod that succeeded
    condition FailureTarget or SuccessCriteriaMet: the end of the Job is decided, and its pods are being ended

Between two tries the state is Backoff: all pods have failed, and the Job controller creates the next one later.

One way back is real: no pod is ready any more, and the Job continues. The state is then Starting with the reason
WaitForRecovery. Some of these losses leave no trace in the Job or its Workload (a readiness probe that fails, a failed
index before its replacement is created); only a reader that follows the Job knows them (`followed_states.continued`).
"""

from __future__ import annotations

from job_controller import conditions
from job_controller.condition_types import FAILURE_TARGET, SUCCESS_CRITERIA_MET
from job_controller.model import Condition, Job, JobStatus
from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Workload

NO_LONGER_READY = "no pod is ready any more"


def is_running(status: JobStatus) -> bool:
    """Whether a pod is ready or has succeeded, or the end of the Job is decided."""
    uncounted = status.uncounted_terminated_pods
    return bool(
        status.ready
        or status.succeeded
        or (uncounted is not None and uncounted.succeeded)
        or conditions.is_true(status.conditions, FAILURE_TARGET)
        or conditions.is_true(status.conditions, SUCCESS_CRITERIA_MET)
    )


def is_between_tries(status: JobStatus) -> bool:
    """Whether no pod is left of a Job that continues after failures: the next one is created when a backoff ends."""
    return bool(failed_pods(status)) and not status.active and not status.terminating and not is_running(status)


def explain_running(job: Job) -> tuple[str, str]:
    """Return (reason, message) of a running Job whose failure is decided (FailureTarget); "" and "" otherwise."""
    target = conditions.find(job.status.conditions, FAILURE_TARGET)
    return (target.reason, target.message) if target is not None and target.is_true else ("", "")


def explain_starting(job: Job, workload: Workload | None) -> tuple[str, str]:
    """Return (reason, message) of a Job without a ready pod.

    It is the reason of a PodsReady condition that is False; without one WaitForRecovery if the Job has lost pods.
    """
    ready = workload.condition(condition_types.PODS_READY) if workload is not None else None
    if ready is not None and not ready.is_true:
        failed = _failed(job.status) if ready.reason != reasons.WAIT_FOR_RECOVERY else ""
        return ready.reason, failed or ready.message
    if lost := _lost(job.status, ready):
        return reasons.WAIT_FOR_RECOVERY, lost
    return (ready.reason, ready.message) if ready is not None else ("", "")


def _lost(status: JobStatus, ready: Condition | None) -> str:
    """Which pods were lost, as text; "" if none is known to be."""
    if failed := _failed(status):
        return failed
    return NO_LONGER_READY if status.terminating or (ready is not None and ready.is_true) else ""


def failed_pods(status: JobStatus) -> int:
    """Return how many pods have failed, with those that are not counted in `failed` yet."""
    uncounted = status.uncounted_terminated_pods
    return status.failed + (len(uncounted.failed) if uncounted is not None else 0)


def _failed(status: JobStatus) -> str:
    failed = failed_pods(status)
    return f"{failed} {'pod has' if failed == 1 else 'pods have'} failed so far, none is ready yet" if failed else ""

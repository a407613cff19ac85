"""The failures that determine the backoff of a Job, from the memory of earlier syncs or, without it, from the API.

A controller that has just started has no memory. It starts from all finished pods that exist and from the number of
counted failures whose pods are gone, and so does a reader of the API that shows when the backoff ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from job_controller import backoff
from job_controller.backoff import FailureHistory
from job_controller.model import Job, Pod
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import finish_time
from job_controller.pod_failure_policy import evaluate
from job_controller.situation import Situation, assess


def failure_history(s: Situation, pods: Sequence[Pod], before: FailureHistory | None) -> FailureHistory:
    """The history with the pods of this sync. `before`: that of the previous sync; None at the first."""
    history = before if before is not None else FailureHistory(deleted_failures=_deleted_failures(s, pods))
    if s.per_index:
        return backoff.with_future_finishes(history, s.waiting.values(), s.now)
    return backoff.without_future_times(_extended(history, s, pods, first=before is None), s.now)


def backoff_end(job: Job, pods: Iterable[Pod], now: datetime, options: JobControllerOptions) -> datetime | None:
    """When the backoff of the whole Job ends for a controller that starts `now`; None if that controller does not wait.

    `pods`: those that exist. If no failed pod exists any more, it is unknown when the last one failed.
    """
    known = tuple(pods)
    history = failure_history(assess(job, known, now, options), known, None)
    if history.last_failure is None:
        return None
    return history.last_failure + backoff.delay(history.number, backoff.base_of(job, options), options.backoff_max)


def _extended(history: FailureHistory, s: Situation, pods: Sequence[Pod], *, first: bool) -> FailureHistory:
    """The history with the new finished pods, and at the `first` sync with all finished pods that exist."""
    succeeded, failed = s.succeeded, s.failed
    if first:
        kept = _not_deleted(pods)
        failed = (*failed, *(pod for pod in kept if pod.status.has_failed))
        if failed:
            succeeded = (*succeeded, *(pod for pod in kept if pod.status.has_succeeded))
    if not failed and not history.failures:
        # A success only resets earlier failures. Later failures are still to be added, and their pods exist.
        return history if not succeeded else backoff.extend(history, _last(succeeded), ())
    return backoff.extend(history, succeeded, failed)


def _deleted_failures(s: Situation, pods: Sequence[Pod]) -> int:
    """The number of counted failures whose pods are gone.

    0 after a success, because it is unknown which failures came later.
    """
    counted = s.job.status.failed + len(s.uncounted.failed)
    if s.per_index or s.succeeded_count or not counted:
        return 0
    policy, new = s.job.spec.pod_failure_policy, s.outcomes
    old = [pod for pod in _not_deleted(pods) if pod.status.has_failed and pod.metadata.uid not in new]
    return max(0, counted - sum(evaluate(policy, pod).counts for pod in old))


def _not_deleted(pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]


def _last(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """The pod that finished last."""
    return (max(pods, key=finish_time),)

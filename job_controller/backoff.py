"""Backoff: how long the replacement of a failed pod is delayed (upstream backoff_utils.go, BEHAVIOUR.md#b28-backoff).

The delay after n failures is base * 2^(n-1), at most a maximum, counted from the finish time of the latest failure.

With backoffLimitPerIndex, n comes from annotations of the failed pod that is replaced, so it survives restarts.

Otherwise n is the number of failures of the Job since its latest success. The API does not store it: it is kept in a
FailureHistory, as finish times by pod UID. Each sync adds all finished pods that exist, counted or not. Adding a pod
twice changes nothing and the order does not matter, so a repeated sync does not lengthen the delay. After a restart the
history is rebuilt from the finished pods; they exist until the Job ends unless sluice/failed-pods-limit removes them.
Failures whose pods are deleted are still counted in status.failed: while nothing has succeeded, all of them are
consecutive failures. Their finish times are lost, so pruning always keeps the latest failed pod until it is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from job_controller.annotations import whole_number
from job_controller.labels import BACKOFF_SECONDS, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT
from job_controller.model import Job, Pod, Record
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import count_annotation, finish_time
from job_controller.times import CLOCK_SKEW, earlier, effective_start

ZERO = timedelta(0)


class FailureHistory(Record):
    """Finish times, by pod UID, of the failed pods that finished after the latest success.

    `deleted_failures`: the number of earlier consecutive failures whose pods were gone when this history was built.
    `future_finishes`: for failed pods of single indexes that finished in the future, by UID, when their backoff starts.
    """

    failures: Mapping[str, datetime] = {}
    last_success: datetime | None = None
    deleted_failures: int = 0
    future_finishes: Mapping[str, datetime] = {}

    @property
    def number(self) -> int:
        """The number of consecutive failures."""
        return len(self.failures) + self.deleted_failures

    @property
    def last_failure(self) -> datetime | None:
        """When the last failed pod finished; None if no failed pod was seen."""
        return max(self.failures.values(), default=None)


def extend(history: FailureHistory, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> FailureHistory:
    """The history with these finished pods added.

    The first finish time seen for a pod is kept. If a failure and the latest success have the same time, the success is
    the later one (upstream newBackoffRecord).
    """
    last_success, deleted_failures = history.last_success, history.deleted_failures
    for pod in succeeded:
        deleted_failures = 0
        ended = finish_time(pod)
        if last_success is None or ended > last_success:
            last_success = ended
    failures = dict(history.failures)
    for pod in failed:
        if pod.metadata.uid not in failures:
            failures[pod.metadata.uid] = finish_time(pod)
    if last_success is not None:
        failures = {uid: ended for uid, ended in failures.items() if ended > last_success}
    return FailureHistory(failures=failures, last_success=last_success, deleted_failures=deleted_failures)


def without_future_times(history: FailureHistory, now: datetime) -> FailureHistory:
    """The history without times in the future: if the latest is after `now`, all are moved back by the difference.

    See BEHAVIOUR.md#b41-clock. Times up to times.CLOCK_SKEW ahead are not changed.
    """
    known = [*history.failures.values(), *([history.last_success] if history.last_success is not None else [])]
    latest = max(known, default=now)
    ahead = latest - effective_start(latest, None, now)
    if not ahead:
        return history
    failures = {uid: earlier(ended, ahead) for uid, ended in history.failures.items()}
    success = earlier(history.last_success, ahead) if history.last_success is not None else None
    return FailureHistory(failures=failures, last_success=success, deleted_failures=history.deleted_failures)


def with_future_finishes(history: FailureHistory, waiting: Iterable[Pod], now: datetime) -> FailureHistory:
    """The history of a Job with backoffLimitPerIndex: when the backoff starts for `waiting` pods that finished in the
    future.

    See BEHAVIOUR.md#b41-clock. Nothing else is kept, because the failure counts are on the pods.
    """
    known = history.future_finishes
    future_finishes = {
        pod.metadata.uid: effective_start(finish_time(pod), known.get(pod.metadata.uid), now)
        for pod in waiting
        if pod.metadata.uid in known or finish_time(pod) > now + CLOCK_SKEW
    }
    return history if future_finishes == known else FailureHistory(future_finishes=future_finishes)


def base_of(job: Job, options: JobControllerOptions) -> float:
    """Seconds of delay after the first failure: the annotation sluice/backoff-seconds, or options.backoff_base."""
    seconds = whole_number(job, BACKOFF_SECONDS)
    return float(seconds) if seconds is not None else options.backoff_base


# Cached: with backoffLimitPerIndex many indexes have the same number of failures.
@lru_cache(maxsize=256)
def delay(failures: int, base: float, maximum: float) -> timedelta:
    """The delay after so many failures, with `base` and `maximum` in seconds; zero without a failure."""
    if failures <= 0:
        return ZERO
    return timedelta(seconds=min(base * 2.0 ** min(failures - 1, 62), maximum))


def remaining(history: FailureHistory, now: datetime, base: float, maximum: float) -> timedelta:
    """How long the whole Job still delays new pods; `base` and `maximum` in seconds."""
    last = history.last_failure
    if last is None:
        return ZERO
    return max(ZERO, last - now + delay(history.number, base, maximum))


def remaining_of_index(history: FailureHistory, replaced: Pod, now: datetime, base: float, maximum: float) -> timedelta:
    """How long the index of this failed pod still delays its replacement; `base` and `maximum` in seconds.

    Failures that the pod failure policy ignored lengthen the delay too (upstream getRemainingTimePerIndex).
    """
    failures = failure_count(replaced) + ignored_count(replaced) + 1
    began = history.future_finishes.get(replaced.metadata.uid) or finish_time(replaced)
    left = began - now + delay(failures, base, maximum)
    return left if left > ZERO else ZERO


def failure_count(pod: Pod) -> int:
    """Counted failures of the index before this pod: its annotation job-index-failure-count."""
    return count_annotation(pod, INDEX_FAILURE_COUNT)


def ignored_count(pod: Pod) -> int:
    """Failures of the index before this pod that the pod failure policy ignored (job-index-ignored-failure-count)."""
    return count_annotation(pod, INDEX_IGNORED_FAILURE_COUNT)

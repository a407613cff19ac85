"""How long a failed pod is not replaced.

The delay after n failures is base * 2^(n-1) up to a maximum, measured from the finish time of the last of them.

Per index, n stands on the failed pod that is replaced, so it survives everything.

For the whole Job, n is the number of failures after the newest success. Nothing in the API stores it, so it is
a History: finish times keyed by pod UID. Each sync adds to it all finished pods that still exist, whether they are
already counted or not. Adding is idempotent and has no order, so a sync that crashes and runs again changes
nothing, and after a restart the History is rebuilt from the finished pods, which nobody deletes before the
Job ends unless asked to (sluice/failed-pods-limit). Failures whose pods are deleted are still counted in status: as
long as nothing has succeeded, all of them are failures in a row. When they were is lost, so that the last of
them is kept, whatever the limit, until it is replaced.
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
from job_controller.times import SKEW, counted_from, earlier

ZERO = timedelta(0)


class FailureHistory(Record):
    """Finish times of the failed pods that are newer than the newest success, by pod UID.

    lost: how many failures came before them in a row, whose pods were gone when this History began.
    noticed: where the waits of single indexes begin whose failed pods, by UID, finished ahead of the clock.
    """

    failures: Mapping[str, datetime] = {}
    last_success: datetime | None = None
    lost: int = 0
    noticed: Mapping[str, datetime] = {}

    @property
    def number(self) -> int:
        """How many failures there were in a row."""
        return len(self.failures) + self.lost

    @property
    def last_failure(self) -> datetime | None:
        return max(self.failures.values(), default=None)


def extend(history: FailureHistory, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> FailureHistory:
    """The history with these finished pods in it. A finish time once known stays; on a tie success wins."""
    last_success, lost = history.last_success, history.lost
    for pod in succeeded:
        lost = 0
        ended = finish_time(pod)
        if last_success is None or ended > last_success:
            last_success = ended
    failures = dict(history.failures)
    for pod in failed:
        if pod.metadata.uid not in failures:
            failures[pod.metadata.uid] = finish_time(pod)
    if last_success is not None:
        failures = {uid: ended for uid, ended in failures.items() if ended > last_success}
    return FailureHistory(failures=failures, last_success=last_success, lost=lost)


def not_ahead(history: FailureHistory, now: datetime) -> FailureHistory:
    """The history with all its times moved back alike, if the latest lies ahead of the clock: to now."""
    known = [*history.failures.values(), *([history.last_success] if history.last_success is not None else [])]
    latest = max(known, default=now)
    ahead = latest - counted_from(latest, None, now)
    if not ahead:
        return history
    failures = {uid: earlier(ended, ahead) for uid, ended in history.failures.items()}
    success = earlier(history.last_success, ahead) if history.last_success is not None else None
    return FailureHistory(failures=failures, last_success=success, lost=history.lost)


def noticing(history: FailureHistory, waiting: Iterable[Pod], now: datetime) -> FailureHistory:
    """The history with those of the failed pods of single indexes that finished ahead of the clock."""
    known = history.noticed
    noticed = {
        pod.metadata.uid: counted_from(finish_time(pod), known.get(pod.metadata.uid), now)
        for pod in waiting
        if pod.metadata.uid in known or finish_time(pod) > now + SKEW
    }
    return history if noticed == known else FailureHistory(noticed=noticed)


def base_of(job: Job, options: JobControllerOptions) -> float:
    """Seconds of the first delay: the Job's own annotation, or the controller's option."""
    seconds = whole_number(job, BACKOFF_SECONDS)
    return float(seconds) if seconds is not None else options.backoff_base


# A thousand indexes that failed at once share one delay.
@lru_cache(maxsize=256)
def delay(failures: int, base: float, maximum: float) -> timedelta:
    """The delay after this many failures; none after none."""
    if failures <= 0:
        return ZERO
    return timedelta(seconds=min(base * 2.0 ** min(failures - 1, 62), maximum))


def remaining(history: FailureHistory, now: datetime, base: float, maximum: float) -> timedelta:
    """How long the Job still has to wait with new pods."""
    last = history.last_failure
    if last is None:
        return ZERO
    return max(ZERO, last - now + delay(history.number, base, maximum))


def remaining_of_index(history: FailureHistory, replaced: Pod, now: datetime, base: float, maximum: float) -> timedelta:
    """How long the index of this failed pod still has to wait. Ignored failures lengthen the wait too."""
    failures = failure_count(replaced) + ignored_count(replaced) + 1
    began = history.noticed.get(replaced.metadata.uid) or finish_time(replaced)
    left = began - now + delay(failures, base, maximum)
    return left if left > ZERO else ZERO


def failure_count(pod: Pod) -> int:
    """Counted failures of the pod's index before this pod."""
    return count_annotation(pod, INDEX_FAILURE_COUNT)


def ignored_count(pod: Pod) -> int:
    """Failures of the pod's index before this pod that the pod failure policy ignored."""
    return count_annotation(pod, INDEX_IGNORED_FAILURE_COUNT)

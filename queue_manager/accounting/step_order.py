"""The order of the steps and pods of a Job within one second, since conditions have whole seconds, and the numbers of
attempts that lists show. Pure.

within a second                        order
steps of different attempts            by attempt; those of the Job as a whole last
steps of an attempt                    as StepKind lists them, except for a hold after the end of the attempt
a hold after the end of an attempt     after the release and the requeue, and after an earlier reactivation
a pod that ended by itself, or a       before what ended its attempt or its Job
container that failed and restarted
a pod that was deleted                 after the eviction, before the release of the quota
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from queue_manager.accounting.record_types import (
    DELETED_POD,
    ENDS_OF_ATTEMPT,
    ENDS_OF_JOB,
    PodRecord,
    StepKind,
    StepRecord,
)

_LAST = 1 << 30  # in place of attempt 0
_KINDS = list(StepKind)
_HOLDS = (StepKind.HELD, StepKind.RESUMED)
_STOPPED = (StepKind.RELEASED, *ENDS_OF_JOB)  # by then the pods have ended


def in_order(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """Steps by time; within a second in the order in which they follow from each other."""
    known = list(steps)
    ends = {(step.uid, step.attempt): step for step in known if step.kind in ENDS_OF_ATTEMPT}
    activations = {(step.uid, step.at): step.occurrence for step in known if step.kind is StepKind.REACTIVATED}

    def rank(step: StepRecord) -> float:
        return _rank(step, ends, activations.get((step.uid, step.at)))

    return sorted(known, key=lambda step: (step.at, step.attempt or _LAST, rank(step), step.occurrence))


def _rank(step: StepRecord, ends: Mapping[tuple[str, int], StepRecord], reactivated: int | None) -> float:
    """Sort key of a step among those of its attempt in one second: the order of StepKind.

    A queue can be stopped before an admission and after an eviction: Held and Resumed after the end of the attempt come
    after Requeued, or after an earlier Reactivated. Nothing holds a deactivated Workload: without a reactivation they
    come before Deactivated. `ends`: of each attempt of a Workload. `reactivated`: the occurrence of a reactivation in
    the same second, None without one.
    """
    if step.kind not in _HOLDS:
        return _KINDS.index(step.kind)
    end = ends.get((step.uid, step.attempt))
    is_after = reactivated is not None and reactivated < step.occurrence
    is_held_until_end = end is not None and end.kind is StepKind.DEACTIVATED and end.at == step.at and not is_after
    if end is None or end.at > step.at or is_held_until_end:
        return _KINDS.index(StepKind.HELD)
    return _KINDS.index(StepKind.REACTIVATED if is_after else StepKind.REQUEUED) + 0.5


def shown_attempts(entries: Iterable[StepRecord | PodRecord]) -> list[int]:
    """The number of the attempt that a list shows for each entry of a `timeline`; 0: none.

    The n-th admission begins attempt n. A step between two attempts has the number of the one before it. Pods, and
    steps of the Job as a whole, have none. (Stored numbers count evictions, also those of a Job that was not admitted.)
    """
    found, attempt = [], 0
    for entry in entries:
        attempt += isinstance(entry, StepRecord) and entry.kind is StepKind.ADMITTED
        found.append(attempt if isinstance(entry, StepRecord) and entry.attempt else 0)
    return found


def timeline(steps: Iterable[StepRecord], pods: Iterable[PodRecord]) -> list[StepRecord | PodRecord]:
    """Return steps and ended pods in one list, by time; within a second in the order of their causes."""
    seconds: dict[datetime, list[StepRecord | PodRecord]] = {}
    failures = []
    for step in in_order(steps):
        if step.kind is StepKind.CONTAINER_FAILED:
            failures.append(step)
        else:
            seconds.setdefault(step.at.replace(microsecond=0), []).append(step)
    for failure in failures:
        same = seconds.setdefault(failure.at.replace(microsecond=0), [])
        same.insert(_place(same, was_deleted=False), failure)
    for pod in sorted(pods, key=lambda pod: (pod.ended_at, pod.name, pod.uid)):
        same = seconds.setdefault(pod.ended_at.replace(microsecond=0), [])
        same.insert(_place(same, was_deleted=pod.phase == DELETED_POD), pod)
    return [entry for second in sorted(seconds) for entry in seconds[second]]


def _place(same: Sequence[StepRecord | PodRecord], *, was_deleted: bool) -> int:
    """The index at which the end of a pod or container is inserted into `same`, the steps and pods of its second."""
    kinds = [entry.kind if isinstance(entry, StepRecord) else None for entry in same]
    if was_deleted:
        return next((i for i, kind in enumerate(kinds) if kind in _STOPPED), len(kinds))
    admitted = max((i for i, kind in enumerate(kinds) if kind is StepKind.ADMITTED), default=-1)
    ends = (i for i, kind in enumerate(kinds) if i > admitted and kind in (*ENDS_OF_ATTEMPT, *_STOPPED))
    return next(ends, len(kinds))

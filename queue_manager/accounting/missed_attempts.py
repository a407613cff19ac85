"""Finds the steps of past attempts that no process recorded, from the attempts that the Workload lists. Pure.

Conditions show the present attempt only, and `step_reading` reads that again after each start. What came before is in
status.requeueHistory: start, end, reason and duration of the last ten attempts that an eviction ended. If a process was
killed before the history had them, or could not write for a while, the next one adds what is missing:

    step           time
    Admitted       start of the attempt
    its end        end of the attempt: Evicted, Preempted or Deactivated, by the reason
    Released       start of the attempt plus the time for which it held quota; missing while the Job is stopping
    Requeued       release of the quota, or end of the backoff, if the Workload was pending again
    Reactivated    start of the next attempt, in place of Requeued after a deactivation

An attempt is identified by the number of evictions until its end (`record_types.StepRecord`), which the list lacks. It
is that of a step in the store with a time of the attempt; else the highest one, below that of the next attempt, that no
other step in the store has. The quota of an attempt is assumed to be that of another admission of the Workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from queue_manager.accounting.missed_steps import MISSED
from queue_manager.accounting.record_types import ENDS_OF_ATTEMPT, StepKind, StepRecord
from queue_manager.accounting.step_reading import MAX_TEXT, attempt_number, by_user, workload_records
from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Attempt, Workload
from queue_manager.visibility.short_messages import TAKEN_BACK
from queue_manager.visibility.shown_causes import with_error_before

_OF_ATTEMPT = (StepKind.ADMITTED, StepKind.PODS_READY, *ENDS_OF_ATTEMPT, StepKind.RELEASED, StepKind.REQUEUED)


def missed_attempts(first: Workload, stored: Sequence[StepRecord], now: datetime) -> Iterator[StepRecord]:
    """The steps of past attempts that are missing in `stored`, the steps of the Job in the store.

    `first`: the state in which this process first saw the Workload. The steps of that state are not missing.
    """
    listed = first.status.requeue_history.attempts if first.status.requeue_history is not None else ()
    if not (first.job_uid and listed):
        return
    state = [record for record in workload_records(None, first, now) if isinstance(record, StepRecord)]
    own = [step for step in (*stored, *state) if step.uid == first.metadata.uid]
    admissions = [step for step in own if step.kind is StepKind.ADMITTED]
    is_evicted = first.is_true(condition_types.EVICTED)  # whether it was requeued then, the state says
    for place, (number, attempt) in enumerate(numbers := _numbers(first, listed, own)):
        following = numbers[place + 1][1] if place + 1 < len(numbers) else None
        known = {_class_of(step) for step in own if step.attempt == number and _is_identified(step)}
        for step in _steps(first, number, attempt, following, is_over=following is not None or not is_evicted):
            if _class_of(step) not in known:
                yield _with_quota(step, admissions) if step.kind is StepKind.ADMITTED else step


def _numbers(workload: Workload, listed: Sequence[Attempt], own: Sequence[StepRecord]) -> list[tuple[int, Attempt]]:
    """The attempts with their numbers, the oldest first. One for which no number is left is left out."""
    is_evicted = workload.is_true(condition_types.EVICTED)
    above = attempt_number(workload) + is_evicted  # the number of the present or next attempt
    found: list[tuple[int, Attempt]] = []
    next_start = None
    for place, attempt in reversed(list(enumerate(listed, 1))):
        possible = range(above - 1, place - 1, -1)  # each attempt before has a number too
        matching = {step.attempt for step in own if _is_of(step, attempt, next_start)}
        others = {step.attempt for step in own if step.kind in _OF_ATTEMPT and _is_identified(step)} - matching
        number = next((n for n in possible if n in matching), None) or next((n for n in possible if n not in others), 0)
        if number:
            found.insert(0, (number, attempt))
            above = number
        next_start = attempt.start
    return found


def _is_of(step: StepRecord, attempt: Attempt, next_start: datetime | None) -> bool:
    """Whether the step has a time of the attempt. Holds, and changes of spec.active, have other numbers."""
    start, end = attempt.start, attempt.end
    if start is None or end is None or not _is_identified(step):
        return False
    match step.kind:
        case StepKind.ADMITTED:
            return step.at == start
        case StepKind.EVICTED | StepKind.PREEMPTED | StepKind.DEACTIVATED:
            return step.at == end
        case StepKind.PODS_READY:
            return start <= step.at <= end
        case StepKind.RELEASED:
            return step.at == _released(attempt)
        case StepKind.REQUEUED:
            return end <= step.at and (next_start is None or step.at <= next_start)
        case _:
            return False


def _is_identified(step: StepRecord) -> bool:
    """Whether the number identifies the step: of a change of spec.active, the resourceVersion does."""
    return step.occurrence == 0 or step.kind is not StepKind.DEACTIVATED


def _class_of(step: StepRecord) -> StepKind:
    """The kind; the same one for all ends of an attempt."""
    return StepKind.EVICTED if step.kind in ENDS_OF_ATTEMPT else step.kind


def _steps(
    workload: Workload, number: int, attempt: Attempt, following: Attempt | None, *, is_over: bool
) -> Iterator[StepRecord]:
    """All steps of an attempt, by its entry in the list. `is_over`: whether the Workload was pending again."""
    start, end, released = attempt.start, attempt.end, _released(attempt)
    if start is None or end is None:
        return

    def step(kind: StepKind, at: datetime, reason: str = "", message: str = MISSED) -> StepRecord:
        uid, message = workload.metadata.uid, message[:MAX_TEXT]
        return StepRecord(
            job_uid=workload.job_uid, uid=uid, attempt=number, kind=kind, at=at, reason=reason, message=message
        )

    yield step(StepKind.ADMITTED, start)
    kind, reason = _end(attempt.reason)
    yield step(kind, end, reason, _message(attempt))
    if released is not None:
        yield step(StepKind.RELEASED, released)
    if kind is not StepKind.DEACTIVATED and is_over:
        at = max(filter(None, (end, released, attempt.retry_at)))
        yield step(StepKind.REQUEUED, min(at, following.start) if following and following.start else at)
    elif following is not None and following.start is not None and is_over:
        # Not 0, so that it follows a deactivation of the same second.
        yield msgspec.structs.replace(step(StepKind.REACTIVATED, following.start), occurrence=1)


def _message(attempt: Attempt) -> str:
    if attempt.reason == reasons.DEACTIVATED:
        return by_user(MISSED, attempt.pod_cause)
    if attempt.reason in TAKEN_BACK:
        return with_error_before(attempt.cause or MISSED, attempt.pod_cause)
    return attempt.pod_cause or MISSED


def _end(reason: str) -> tuple[StepKind, str]:
    """Kind and reason of the end, as `step_reading` reads them from the condition Evicted."""
    if reason == reasons.PREEMPTED:
        return StepKind.PREEMPTED, ""
    if reason.startswith(reasons.DEACTIVATED):
        return StepKind.DEACTIVATED, reason.removeprefix(reasons.DEACTIVATED_DUE_TO)
    return StepKind.EVICTED, reason


def _released(attempt: Attempt) -> datetime | None:
    if attempt.start is None or attempt.ran_seconds is None:
        return None
    return attempt.start + timedelta(seconds=attempt.ran_seconds)


def _with_quota(step: StepRecord, admissions: Sequence[StepRecord]) -> StepRecord:
    """An admission with the quota of the one in the store that is nearest in time; without one, that is unknown."""
    nearest = min(admissions, key=lambda one: abs(one.at - step.at), default=None)
    if nearest is None:
        return step
    return msgspec.structs.replace(nearest, attempt=step.attempt, at=step.at, reason=step.reason, message=step.message)

"""Lists a Workload's attempts: each period with quota, how it ended, and when the next retry is due. Pure.

status.requeueHistory (an extension of Sluice) records the last ten attempts that ended; the conditions describe the
current one. A Workload managed by Kueue or by an older Sluice has no such record. Its attempts are reconstructed from
Events, which expire, so the oldest attempts may be missing. Attempts are numbered backwards from the newest, whose
number follows from the count of all evictions.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from queue_manager.api import condition_types, reasons
from queue_manager.api.events import Event
from queue_manager.api.types import Attempt, Workload
from queue_manager.lifecycle.requeue_history import MAX_ATTEMPTS
from queue_manager.visibility.attempt_counts import count_lost_attempts, is_in_attempt

_EVENT_DELAY = timedelta(seconds=2)  # an Event may be this much later than the condition that it reports


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One period with quota. `ended`: when the quota was released; None before, also while an
    eviction stops the Job, which has a `cause` then. `next_retry`: when the Workload is requeued.

    `number` counts all attempts, `of_budget` those since the Workload was last activated. `pod_cause`: why the pods
    were not ready.
    """

    number: int
    of_budget: int = 0
    admitted: datetime | None
    ended: datetime | None
    cause: str
    next_retry: datetime | None
    pod_cause: str = ""


def attempt_rows(workload: Workload, events: Iterable[Event]) -> list[AttemptRow]:
    """Return the recorded attempts, oldest first; empty if the Workload never held quota."""
    rows = _recorded(workload) or _from_events(workload, events)
    if not rows:
        return []
    is_open = rows[-1].ended is None and not rows[-1].cause
    total = max(count_lost_attempts(workload) + is_open, len(rows))
    followed = [_with_earlier_retry(row, after) for row, after in pairwise(rows)]
    rows = [*followed[1 - MAX_ATTEMPTS :], _finished(rows[-1], workload)]
    first = total - len(rows) + 1
    return _number_within_budgets([msgspec.structs.replace(row, number=first + i) for i, row in enumerate(rows)])


def _number_within_budgets(rows: list[AttemptRow]) -> list[AttemptRow]:
    """Number the attempts within each budget of retries. A deactivation ends a budget."""
    begun, found = 0, []
    for row in rows:
        found.append(msgspec.structs.replace(row, of_budget=row.number - begun))
        if row.cause.startswith(reasons.DEACTIVATED):
            begun = row.number
    return found


def _with_earlier_retry(row: AttemptRow, after: AttemptRow) -> AttemptRow:
    """Correct the retry time of an attempt whose backoff was cut short: the next attempt began before it was due."""
    if row.next_retry is None or after.admitted is None or after.admitted >= row.next_retry:
        return row
    return msgspec.structs.replace(row, next_retry=after.admitted)


def _finished(row: AttemptRow, workload: Workload) -> AttemptRow:
    """Return the newest attempt, ended by the end of the Job if nothing else ended it; none follows that end.

    A Job that ends before an eviction has stopped it holds its quota until its end, which is what ended the attempt.
    """
    finished = workload.condition(condition_types.FINISHED)
    if finished is None or not finished.is_true:
        return row
    if row.ended is not None and workload.status.admission is None:
        return msgspec.structs.replace(row, next_retry=None)
    history = workload.status.requeue_history
    pod_cause = history.pod_cause if history is not None else ""
    return msgspec.structs.replace(
        row, ended=finished.last_transition_time, cause=finished.reason, pod_cause=pod_cause, next_retry=None
    )


def _recorded(workload: Workload) -> list[AttemptRow]:
    history = workload.status.requeue_history
    if history is None or not history.attempts:
        return []
    ended = [
        AttemptRow(
            number=0,
            admitted=a.start,
            ended=_released(a),
            cause=_cause(a.reason, a.cause),
            next_retry=a.retry_at,
            pod_cause=a.pod_cause,
        )
        for a in history.attempts
    ]
    ended[-1] = _with_due_retry(ended[-1], workload)
    admitted = workload.condition(condition_types.ADMITTED)
    if admitted is not None and admitted.is_true and workload.is_true(condition_types.EVICTED):
        return [*ended[:-1], msgspec.structs.replace(ended[-1], ended=None)]  # its Job is being stopped
    if admitted is not None and is_in_attempt(workload):
        now = AttemptRow(number=0, admitted=admitted.last_transition_time, ended=None, cause="", next_retry=None)
        return [*ended, now]
    return ended


def _released(attempt: Attempt) -> datetime | None:
    """When the quota was released; the time of the eviction if that is not recorded."""
    if attempt.start is None or attempt.ran_seconds is None:
        return attempt.end
    return attempt.start + timedelta(seconds=attempt.ran_seconds)


def _with_due_retry(row: AttemptRow, workload: Workload) -> AttemptRow:
    """Return the row without a retry time if the Workload is deactivated; with the reactivation as the retry time if
    that ended the backoff early."""
    requeued = workload.condition(condition_types.REQUEUED)
    again = requeued.last_transition_time if requeued is not None and requeued.is_true else None
    if not workload.spec.active:
        return msgspec.structs.replace(row, next_retry=None)
    if again is not None and row.next_retry is not None and row.ended is not None and row.ended <= again:
        return msgspec.structs.replace(row, next_retry=min(row.next_retry, again))
    return row


def _cause(reason: str, cause: str) -> str:
    if reason == reasons.PREEMPTED and cause:
        return f"{reason} {cause}"  # "for ..."
    return f"{reason} ({cause})" if cause and cause not in reason else reason


def _from_events(workload: Workload, events: Iterable[Event]) -> list[AttemptRow]:
    rows = _read_events(workload, events)
    _complete_newest(rows, workload)
    if not rows:
        return []
    following = [began for began, _, _ in rows[1:]]
    nexts = [*following, _retry_due(workload) if rows[-1][1] is not None else None]
    return [
        AttemptRow(number=0, admitted=began, ended=ended, cause=cause, next_retry=nexts[i])
        for i, (began, ended, cause) in enumerate(rows)
    ]


def _read_events(workload: Workload, events: Iterable[Event]) -> list[tuple[datetime | None, datetime | None, str]]:
    """Return (admitted, ended, cause) of each attempt, from the Workload's Events."""
    rows: list[tuple[datetime | None, datetime | None, str]] = []
    for event in sorted(events, key=lambda e: e.sort_key):
        if event.involved_object.uid != workload.metadata.uid:
            continue
        if event.reason == reasons.ADMITTED:
            rows.append((event.last, None, ""))
        elif event.reason.startswith(reasons.EVICTED_DUE_TO):
            began = rows.pop()[0] if rows and rows[-1][1] is None else None
            rows.append((began, event.last, event.reason.removeprefix(reasons.EVICTED_DUE_TO)))
    return rows


def _complete_newest(rows: list[tuple[datetime | None, datetime | None, str]], workload: Workload) -> None:
    """Complete the newest attempt from the conditions, which are present even if its Events are not."""
    admitted, evicted = workload.condition(condition_types.ADMITTED), workload.condition(condition_types.EVICTED)
    if evicted is not None and evicted.is_true and count_lost_attempts(workload):
        began = None
        if rows and (rows[-1][1] is None or _is_close(rows[-1][1], evicted.last_transition_time)):
            began = rows.pop()[0]
        ended = None if workload.is_true(condition_types.ADMITTED) else evicted.last_transition_time
        rows.append((began, ended, evicted.reason))
    elif admitted is not None and admitted.is_true:
        if rows and rows[-1][1] is None:
            rows.pop()
        rows.append((admitted.last_transition_time, None, ""))


def _is_close(one: datetime, other: datetime | None) -> bool:
    return other is not None and abs(one - other) <= _EVENT_DELAY


def _retry_due(workload: Workload) -> datetime | None:
    state = workload.status.requeue_state
    return state.requeue_at if state is not None and workload.spec.active else None

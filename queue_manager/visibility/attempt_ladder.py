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
from queue_manager.api.types import Workload
from queue_manager.lifecycle.requeue_history import MAX_ATTEMPTS
from queue_manager.visibility.tries import tries
from queue_manager.visibility.wire_types import Event

_SAME = timedelta(seconds=2)  # an Event may be this much later than the condition that it reports


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One period with quota. `ended`: None while quota is held. `next_try`: when the Workload is requeued.

    `number` counts all attempts, `of_budget` those since the Workload was last activated.
    """

    number: int
    of_budget: int = 0
    admitted: datetime | None
    ended: datetime | None
    cause: str
    next_try: datetime | None


def attempts(workload: Workload, events: Iterable[Event]) -> list[AttemptRow]:
    """Return the recorded attempts, oldest first; empty if the Workload never held quota."""
    rungs = _recorded(workload) or _told(workload, events)
    if not rungs:
        return []
    total = max(tries(workload) + (1 if rungs[-1].ended is None else 0), len(rungs))
    followed = [_followed(rung, after) for rung, after in pairwise(rungs)]
    rungs = [*followed[1 - MAX_ATTEMPTS :], _finished(rungs[-1], workload)]
    first = total - len(rungs) + 1
    return _of_budgets([msgspec.structs.replace(rung, number=first + i) for i, rung in enumerate(rungs)])


def _of_budgets(rungs: list[AttemptRow]) -> list[AttemptRow]:
    """Number the attempts within each budget of retries. A deactivation ends a budget."""
    begun, found = 0, []
    for rung in rungs:
        found.append(msgspec.structs.replace(rung, of_budget=rung.number - begun))
        if rung.cause.startswith(reasons.DEACTIVATED):
            begun = rung.number
    return found


def _followed(rung: AttemptRow, after: AttemptRow) -> AttemptRow:
    """Correct the retry time of an attempt whose backoff was cut short: the next attempt began before it was due."""
    if rung.next_try is None or after.admitted is None or after.admitted >= rung.next_try:
        return rung
    return msgspec.structs.replace(rung, next_try=after.admitted)


def _finished(rung: AttemptRow, workload: Workload) -> AttemptRow:
    """Return the newest attempt, ended by the end of the Job if nothing else ended it."""
    finished = workload.condition(condition_types.FINISHED)
    if rung.ended is not None or finished is None or not finished.is_true:
        return rung
    return msgspec.structs.replace(rung, ended=finished.last_transition_time, cause=finished.reason)


def _recorded(workload: Workload) -> list[AttemptRow]:
    history = workload.status.requeue_history
    if history is None or not history.attempts:
        return []
    ended = [
        AttemptRow(number=0, admitted=a.start, ended=a.end, cause=_cause(a.reason, a.cause), next_try=a.retry_at)
        for a in history.attempts
    ]
    ended[-1] = _without_a_retry_that_is_not_due(ended[-1], workload)
    admitted = workload.condition(condition_types.ADMITTED)
    if admitted is not None and admitted.is_true and not workload.is_true(condition_types.EVICTED):
        now = AttemptRow(number=0, admitted=admitted.last_transition_time, ended=None, cause="", next_try=None)
        return [*ended, now]
    return ended


def _without_a_retry_that_is_not_due(rung: AttemptRow, workload: Workload) -> AttemptRow:
    """Clear the retry time of a deactivated Workload; set it to the reactivation if that ended the backoff early."""
    requeued = workload.condition(condition_types.REQUEUED)
    again = requeued.last_transition_time if requeued is not None and requeued.is_true else None
    if not workload.spec.active:
        return msgspec.structs.replace(rung, next_try=None)
    if again is not None and rung.next_try is not None and rung.ended is not None and rung.ended <= again:
        return msgspec.structs.replace(rung, next_try=min(rung.next_try, again))
    return rung


def _cause(reason: str, cause: str) -> str:
    return f"{reason} ({cause})" if cause and cause not in reason else reason


def _told(workload: Workload, events: Iterable[Event]) -> list[AttemptRow]:
    rungs = _of_events(workload, events)
    _complete(rungs, workload)
    if not rungs:
        return []
    following = [began for began, _, _ in rungs[1:]]
    nexts = [*following, _due(workload) if rungs[-1][1] is not None else None]
    return [
        AttemptRow(number=0, admitted=began, ended=ended, cause=cause, next_try=nexts[i])
        for i, (began, ended, cause) in enumerate(rungs)
    ]


def _of_events(workload: Workload, events: Iterable[Event]) -> list[tuple[datetime | None, datetime | None, str]]:
    """Return (admitted, ended, cause) of each attempt, from the Workload's Events."""
    rungs: list[tuple[datetime | None, datetime | None, str]] = []
    for event in sorted(events, key=lambda e: e.sort_key):
        if event.involved_object.uid != workload.metadata.uid:
            continue
        if event.reason == reasons.ADMITTED:
            rungs.append((event.last, None, ""))
        elif event.reason.startswith(reasons.EVICTED_DUE_TO):
            began = rungs.pop()[0] if rungs and rungs[-1][1] is None else None
            rungs.append((began, event.last, event.reason.removeprefix(reasons.EVICTED_DUE_TO)))
    return rungs


def _complete(rungs: list[tuple[datetime | None, datetime | None, str]], workload: Workload) -> None:
    """Complete the newest attempt from the conditions, which are present even if its Events are not."""
    admitted, evicted = workload.condition(condition_types.ADMITTED), workload.condition(condition_types.EVICTED)
    if evicted is not None and evicted.is_true and tries(workload):
        began = None
        if rungs and (rungs[-1][1] is None or _near(rungs[-1][1], evicted.last_transition_time)):
            began = rungs.pop()[0]
        rungs.append((began, evicted.last_transition_time, evicted.reason))
    elif admitted is not None and admitted.is_true:
        if rungs and rungs[-1][1] is None:
            rungs.pop()
        rungs.append((admitted.last_transition_time, None, ""))


def _near(one: datetime, other: datetime | None) -> bool:
    return other is not None and abs(one - other) <= _SAME


def _due(workload: Workload) -> datetime | None:
    state = workload.status.requeue_state
    return state.requeue_at if state is not None and workload.spec.active else None

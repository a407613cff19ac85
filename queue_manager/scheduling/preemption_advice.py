"""What would let a pending Workload preempt, found by trying it with the code of the admission cycle. Pure.

Each change is tried alone: one field of the policy of its ClusterQueue, a higher priority, the end of the minimum
runtimes. A change is given only if the Workload then has victims that suffice, also beside what the first Workloads of
StrictFIFO queues withhold (`confirmed`). The state is the same afterwards. BEHAVIOUR.md#q108-advice-about-preemption.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from queue_manager.api import policy_values
from queue_manager.api.types import BorrowWithinCohort, Preemption
from queue_manager.scheduling.nomination import nominate
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.workload_info import Info


class Ways(NamedTuple):
    """What would let a Workload preempt.

    `policies`: (field of spec.preemption, value), each alone. `priority`: one that would; the lowest of those that are
    just above a Workload that runs or waits before it, else the highest that there is. `protected_until`: the earliest
    end of a minimum runtime, if the end of all of them would.
    """

    policies: tuple[tuple[str, str], ...] = ()
    priority: int | None = None
    protected_until: datetime | None = None


NO_WAYS = Ways()
HIGHEST_PRIORITY = 2**31 - 1  # the priority of a Workload has 32 bits


def ways_to_preempt(
    state: SchedulerState,
    planned: PlannedUsage,
    queue: QueueState,
    info: Info,
    now: datetime,
    protected_until: Sequence[datetime],
) -> Ways:
    """What would let this Workload preempt; NO_WAYS if it can already. `protected_until`: ends of minimum runtimes."""

    def has_victims(some: Info, at: datetime) -> bool:
        found = nominate(state, planned, queue, some, at)
        return bool(found.victims) or found.will_fit

    if has_victims(info, now):
        return NO_WAYS
    fields: dict[str, str] = {}
    for field, value, changed in _alternatives(queue.queue.spec.preemption):
        with _policy(queue, changed):
            if field not in fields and has_victims(info, now):
                fields[field] = value
    ends = [holding.protected_until for holding in state.holdings.values() if holding.protected_until is not None]
    protected = bool(protected_until) and has_victims(info, max(ends))
    priority = _lowest(_levels(state, info), lambda level: has_victims(with_priority(info, level), now))
    return Ways(tuple(fields.items()), priority, _first(protected_until, protected))


def confirmed(
    ways: Ways,
    state: SchedulerState,
    queue: QueueState,
    info: Info,
    now: datetime,
    starts: Callable[[Info, datetime], bool],
    heads: Iterable[Info],
) -> Ways:
    """Those of the ways by which this Workload `starts`, or stops others for itself, beside what is kept from it for
    `heads`.
    """
    policies = []
    for field, value, changed in _alternatives(queue.queue.spec.preemption):
        with _policy(queue, changed):
            if (field, value) in ways.policies and starts(info, now):
                policies.append((field, value))
    ends = [holding.protected_until for holding in state.holdings.values() if holding.protected_until is not None]
    protected = ways.protected_until is not None and starts(info, max(ends))
    levels = _levels(state, info, heads)
    levels = [level for level in levels if ways.priority is not None and level >= ways.priority]
    priority = _lowest(levels, lambda level: starts(with_priority(info, level), now))
    return Ways(tuple(policies), priority, ways.protected_until if protected else None)


def _first(times: Sequence[datetime], given: bool) -> datetime | None:
    return min(times) if given else None


def _levels(state: SchedulerState, info: Info, heads: Iterable[Info] = ()) -> list[int]:
    """The priorities, in order, at which more may become possible for a Workload: those just above another one."""
    running = (holding.priority for holding in state.holdings.values())
    waiting = (each.priority for each in (*(r.info for r in state.reservations.values()), *heads))
    above = {other + 1 for other in (*running, *waiting) if info.priority <= other < HIGHEST_PRIORITY}
    return sorted(above | {HIGHEST_PRIORITY})


def _lowest(levels: Sequence[int], suffices: Callable[[int], bool]) -> int | None:
    """The lowest level that suffices, if those above one that does suffice too; None if the last does not."""
    if not levels or not suffices(levels[-1]):
        return None
    return levels[bisect_left(levels, True, hi=len(levels) - 1, key=suffices)]


def with_priority(info: Info, priority: int) -> Info:
    """A copy of the Workload with this priority."""
    return replace(info, rank=info.rank._replace(minus_priority=-priority))


def _alternatives(given: Preemption) -> Iterator[tuple[str, str, Preemption]]:
    """(field, value, policy) that differ in one field, the one that allows less first."""
    if given.within_cluster_queue == policy_values.NEVER:
        yield _within(given, policy_values.LOWER_PRIORITY)
    if given.within_cluster_queue != policy_values.LOWER_OR_NEWER_EQUAL:
        yield _within(given, policy_values.LOWER_OR_NEWER_EQUAL)
    if given.reclaim_within_cohort == policy_values.NEVER:
        yield _reclaim(given, policy_values.LOWER_PRIORITY)
    if given.reclaim_within_cohort != policy_values.ANY:
        yield _reclaim(given, policy_values.ANY)
    borrowing = given.borrow_within_cohort
    if given.reclaim_within_cohort != policy_values.NEVER and borrowing != BorrowWithinCohort(
        policy=policy_values.LOWER_PRIORITY
    ):
        changed = BorrowWithinCohort(policy=policy_values.LOWER_PRIORITY)
        text = f"{policy_values.LOWER_PRIORITY} without maxPriorityThreshold"
        limited = borrowing is not None and borrowing.max_priority_threshold is not None
        value = text if limited else policy_values.LOWER_PRIORITY
        yield "borrowWithinCohort", value, replace(given, borrow_within_cohort=changed)


def _within(given: Preemption, value: str) -> tuple[str, str, Preemption]:
    return "withinClusterQueue", value, replace(given, within_cluster_queue=value)


def _reclaim(given: Preemption, value: str) -> tuple[str, str, Preemption]:
    return "reclaimWithinCohort", value, replace(given, reclaim_within_cohort=value)


@contextmanager
def _policy(queue: QueueState, changed: Preemption) -> Iterator[None]:
    """Context in which the ClusterQueue has this preemption policy."""
    before = queue.queue
    queue.queue = replace(before, spec=replace(before.spec, preemption=changed))
    try:
        yield
    finally:
        queue.queue = before

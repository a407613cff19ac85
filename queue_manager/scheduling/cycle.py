"""One admission cycle: the heads of the ClusterQueues against the quota that is free now.

At most one Workload per ClusterQueue is tried. Each is assigned flavors. Then they are processed in order: those that
need not borrow first, then by priority, then by queue time; each must still fit after those before it. The quota tree
is left unchanged: the caller counts what it admits. Kueue: pkg/scheduler, BEHAVIOUR.md#q11-admission-cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial

from queue_manager.api import messages, reasons
from queue_manager.scheduling.backfill import Backfilling, Candidate
from queue_manager.scheduling.flavor_assignment import Assignment, Mode, assign
from queue_manager.scheduling.partial_admission import largest_fit
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode
from queue_manager.scheduling.workload_info import Info


class Retry(Enum):
    """When a refused Workload may be tried again."""

    NEXT_CYCLE = "next cycle"  # in the next cycle: another head took the quota
    CHANGE = "change"  # when quota is freed or raised; applies to every Workload of the shape
    NAMESPACE = "namespace"  # when the namespace's labels or the selector change; does not block StrictFIFO
    EDIT = "edit"  # when the Workload or its queue changes


@dataclass(frozen=True, slots=True)
class Admit:
    """The Workload fits. The caller counts the assignment and writes it."""

    info: Info
    cluster_queue: str
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Refuse:
    """The Workload stays pending; reason and message are for its QuotaReserved condition."""

    info: Info
    cluster_queue: str
    reason: str
    message: str
    retry: Retry


Outcome = Admit | Refuse


def run_cycle(
    state: SchedulerState,
    heads: Iterable[tuple[str, Info]],
    now: datetime,
    waiting: Mapping[str, Info] | None = None,
    backfilling: Backfilling | None = None,
) -> list[Outcome]:
    """Decide about one head per ClusterQueue. `heads` are (ClusterQueue name, Workload).

    `waiting`: the first Workload of each ClusterQueue that found no quota since the last change. With `backfilling`
    others pass it only if they do not delay it.
    """
    guard = partial(_passes, state, waiting or {}, backfilling, now)
    outcomes: list[Outcome] = []
    entries: list[Admit] = []
    for name, info in heads:
        refused = _inadmissible(state, name, info, now)
        if refused is not None:
            outcomes.append(refused)
            continue
        queue = state.queues[name]
        entries.append(Admit(info, name, _nominate(state, queue, info)))
    entries.sort(key=lambda e: (e.assignment.borrow, e.info.rank))
    counted: list[tuple[QuotaNode, dict[FlavorResource, int]]] = []
    try:
        for entry in entries:
            outcomes.append(_process(state, entry, counted, guard))
    finally:
        for node, usage in reversed(counted):
            node.remove_all(usage)
    return outcomes


def _nominate(state: SchedulerState, queue: QueueState, info: Info) -> Assignment:
    """Flavors for all pods, or with partial admission for as many as fit."""
    attempt = partial(_assign, state, queue)
    full = attempt(info)
    return full if full.mode is Mode.FIT else largest_fit(info, attempt) or full


def _inadmissible(state: SchedulerState, name: str, info: Info, now: datetime) -> Refuse | None:
    if name not in state.queues:
        message = f"ClusterQueue {name} not found"
        return Refuse(info, name, reasons.MISCONFIGURED, message, Retry.EDIT)
    if state.inactive(name) is not None:
        return Refuse(info, name, reasons.SUSPENDED, f"ClusterQueue {name} is inactive", Retry.EDIT)
    if info.in_backoff(now):
        return Refuse(info, name, reasons.PENDING_EVALUATION, messages.PENDING_EVALUATION_MESSAGE, Retry.EDIT)
    if not state.selects_namespace(name, info.key.namespace):
        message = messages.NAMESPACE_MISMATCH_MESSAGE
        return Refuse(info, name, reasons.MISCONFIGURED, message, Retry.NAMESPACE)
    if info.error:
        return Refuse(info, name, reasons.MISCONFIGURED, info.error, Retry.EDIT)
    return None


def _process(
    state: SchedulerState,
    entry: Admit,
    counted: list[tuple[QuotaNode, dict[FlavorResource, int]]],
    passes: Callable[[Admit], bool],
) -> Outcome:
    node = state.queues[entry.cluster_queue].node
    assignment = entry.assignment
    if assignment.mode is not Mode.FIT:
        if assignment.mode is Mode.NO_CANDIDATES:
            _count(node, _reservable(node, assignment.usage), counted)
        return refusal(entry, assignment.reason, assignment.message, Retry.CHANGE)
    if any(amount > node.available(fr) for fr, amount in assignment.usage.items()):
        return refusal(entry, reasons.WAITING_FOR_QUOTA, messages.NO_LONGER_FITS_MESSAGE, Retry.NEXT_CYCLE)
    if not passes(entry):
        return refusal(entry, reasons.WAITING_FOR_QUOTA, messages.KEPT_FOR_HEAD_MESSAGE, Retry.CHANGE)
    _count(node, assignment.usage, counted)
    return entry


def _passes(
    state: SchedulerState,
    waiting: Mapping[str, Info],
    backfilling: Backfilling | None,
    now: datetime,
    entry: Admit,
) -> bool:
    """Whether no head that waits for quota is delayed by the admission of this Workload, which fits."""
    if backfilling is None or not waiting:
        return True
    candidate = Candidate(state.queues[entry.cluster_queue], entry.info, entry.assignment)
    return not backfilling.delays_a_head(state, waiting, candidate, now, partial(_assign, state))


def _assign(state: SchedulerState, queue: QueueState, info: Info) -> Assignment:
    return assign(info, queue.queue.spec, queue.node, state.flavors, ignore_undeclared=state.ignore_undeclared)


def _count(
    node: QuotaNode, usage: dict[FlavorResource, int], counted: list[tuple[QuotaNode, dict[FlavorResource, int]]]
) -> None:
    node.add_all(usage)
    counted.append((node, usage))


def _reservable(node: QuotaNode, usage: dict[FlavorResource, int]) -> dict[FlavorResource, int]:
    """What a refused Workload withholds from its cohort until the cycle ends: its request, up to its nominal quota."""
    return {fr: max(0, min(amount, node.quota(fr).nominal - node.usage.get(fr, 0))) for fr, amount in usage.items()}


def refusal(entry: Admit, reason: str, message: str, retry: Retry) -> Refuse:
    """The outcome of a nominated Workload that gets no quota."""
    return Refuse(entry.info, entry.cluster_queue, reason, message, retry)

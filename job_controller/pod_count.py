"""How many pods an unfinished Job should have, and which to create or delete (upstream manageJob).

The rules are in BEHAVIOUR.md#b23-pod-count. Two deliberate differences from upstream: an index in backoff does not
occupy a place that a later index can use, and pods of settled indexes are deleted before all others (DIFFERENCES.md,
rows 4 and 15).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from job_controller import backoff
from job_controller.backoff import FailureHistory
from job_controller.completion_indexes import free_indexes, index_delay, replacement
from job_controller.index_set import IndexSet
from job_controller.model import Pod
from job_controller.pod_deletion_order import surplus, surplus_indexed
from job_controller.pod_facts import completion_index
from job_controller.situation import Situation
from job_controller.sync_steps import PodPlan


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Pods to delete without counting them, or pods to create; never both.

    `wait`: seconds until the next sync is needed, None if only a change can require one.
    """

    remove: tuple[Pod, ...] = ()
    create: tuple[PodPlan, ...] = ()
    wait: float | None = None


def wanted_active(s: Situation) -> int:
    """The number of pods that should be active.

    A work queue (completions is null) creates no more pods after its first success.
    """
    parallelism = s.job.spec.pods_at_once
    if s.completions is None:
        return len(s.active) if s.succeeded_count > 0 else parallelism
    return min(parallelism, max(0, s.completions - s.succeeded_count))


def pod_changes(s: Situation, history: FailureHistory) -> PodChanges:
    """Return the pods to create or delete for a Job that has neither failed nor succeeded.

    `history`: its failed pods, after which new ones are delayed.
    """
    if s.suspended:
        return PodChanges(remove=s.active)
    wanted = wanted_active(s)
    remove = _surplus(s, wanted)
    if remove:
        return PodChanges(remove=tuple(remove[: s.options.max_deletes]))
    missing = wanted - len(s.active) - (len(s.terminating) if s.only_terminal else 0)
    if missing <= 0 or not s.permitted:
        return PodChanges()
    return _per_index(s, missing, history) if s.per_index else _with_common_backoff(s, missing, history)


def _surplus(s: Situation, wanted: int) -> list[Pod]:
    """The active pods to delete, in order; empty if each active pod is needed."""
    if not s.indexed:
        return surplus(s.active, wanted)
    settled = _settled(s)
    if len(s.active) <= wanted and _all_needed(s, settled):
        return []
    return surplus_indexed(s.active, wanted, s.completions or 0, settled)


def _settled(s: Situation) -> IndexSet:
    """The indexes that need no more pods: succeeded or failed for good."""
    failed = s.failed_indexes(s.failed)
    return s.completed | failed if failed else s.completed


def _all_needed(s: Situation, settled: IndexSet) -> bool:
    """Whether each active pod has an unsettled index of its own; the usual case, checked before sorting."""
    indexes = s.active_indexes
    if not indexes:
        return not s.active
    in_range = min(indexes) >= 0 and max(indexes) < (s.completions or 0)
    return in_range and len(indexes) == len(s.active) and settled.isdisjoint(indexes)


def _with_common_backoff(s: Situation, missing: int, history: FailureHistory) -> PodChanges:
    """The pods to create if the backoff applies to the whole Job."""
    wait = common_wait(s, history)
    if wait:
        return PodChanges(wait=wait.total_seconds())
    number = min(missing, s.options.max_creates)
    if not s.indexed:
        return PodChanges(create=(PodPlan(),) * number, wait=_next_batch(missing, number))
    plans = [PodPlan(index=index) for index in islice(_indexes_without_pod(s), number)]
    return PodChanges(create=tuple(plans), wait=_next_batch(missing, number))


def common_wait(s: Situation, history: FailureHistory) -> timedelta:
    """How long the whole Job still delays new pods; zero with backoffLimitPerIndex."""
    return backoff.remaining(history, s.now, *_backoff_bounds(s))


def _next_batch(missing: int, number: int) -> float | None:
    """Seconds until the next batch: 0 if options.max_creates left some pods for it, None otherwise."""
    return 0.0 if missing > number else None


def _per_index(s: Situation, missing: int, history: FailureHistory) -> PodChanges:
    """The pods to create with backoffLimitPerIndex: the lowest free indexes whose own backoff is over."""
    number = min(missing, s.options.max_creates)
    scale = _backoff_bounds(s)
    plans: list[PodPlan] = []
    waits: list[timedelta] = []
    for index in _indexes_without_pod(s):
        if len(plans) == number:
            break
        old = s.waiting.get(index)
        wait = index_delay(history, old, s.now, *scale)
        if wait:
            waits.append(wait)
        else:
            plans.append(replacement(index, old, s.outcomes[old.metadata.uid] if old is not None else None))
    wait_for = min(waits).total_seconds() if waits and len(plans) < number else None
    return PodChanges(create=tuple(plans), wait=wait_for if wait_for is not None else _next_batch(missing, number))


def _indexes_without_pod(s: Situation) -> Iterator[int]:
    """The unsettled indexes without a pod, lowest first: those that can get one now."""
    taken = set(s.active_indexes)
    if s.only_terminal:
        taken |= {completion_index(pod) for pod in s.terminating}
    return free_indexes(s.completions or 0, _settled(s), taken)


def _backoff_bounds(s: Situation) -> tuple[float, float]:
    """Base and maximum of the backoff in seconds."""
    return backoff.base_of(s.job, s.options), s.options.backoff_max

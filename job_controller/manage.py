"""How many pods a running Job should have, and which to create or remove (spec 2.6).

Two deliberate differences from the built-in controller: an index that waits for its backoff does not occupy
a place that a later index could use, and pods of indexes that are settled go before useful ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from job_controller import backoff
from job_controller.backoff import FailureHistory
from job_controller.completion_indexes import free_indexes, index_delay, replacement
from job_controller.decision import PodPlan
from job_controller.index_set import IndexSet
from job_controller.model import Pod
from job_controller.pod_facts import completion_index
from job_controller.pod_selection import surplus, surplus_indexed
from job_controller.situation import Situation


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Pods to remove (without ever counting them) or to create, never both. wait: seconds until more is due."""

    remove: tuple[Pod, ...] = ()
    create: tuple[PodPlan, ...] = ()
    wait: float | None = None


def wanted_active(s: Situation) -> int:
    """How many pods should be active; of a work queue that has had a success, no more than there are (spec 2.6)."""
    parallelism = s.job.spec.pods_at_once
    if s.completions is None:
        return len(s.active) if s.succeeded_count > 0 else parallelism
    return min(parallelism, max(0, s.completions - s.succeeded_count))


def manage(s: Situation, history: FailureHistory) -> PodChanges:
    """What to do with the pods of a Job that goes on."""
    if s.suspended:
        return PodChanges(remove=s.active)
    wanted = wanted_active(s)
    remove = _too_many(s, wanted)
    if remove:
        return PodChanges(remove=tuple(remove[: s.options.max_deletes]))
    missing = wanted - len(s.active) - (len(s.terminating) if s.only_terminal else 0)
    if missing <= 0 or not s.permitted:
        return PodChanges()
    return _per_index(s, missing, history) if s.per_index else _with_common_backoff(s, missing, history)


def _too_many(s: Situation, wanted: int) -> list[Pod]:
    if not s.indexed:
        return surplus(s.active, wanted)
    settled = _settled(s)
    if len(s.active) <= wanted and _all_useful(s, settled):
        return []
    return surplus_indexed(s.active, wanted, s.completions or 0, settled)


def _settled(s: Situation) -> IndexSet:
    """Indexes that need no pod any more."""
    failed = s.failed_indexes(s.failed)
    return s.completed | failed if failed else s.completed


def _all_useful(s: Situation, settled: IndexSet) -> bool:
    """Whether each pod serves an open index of its own: nearly always, so this is asked before sorting."""
    indexes = s.active_indexes
    if not indexes:
        return not s.active
    in_range = min(indexes) >= 0 and max(indexes) < (s.completions or 0)
    return in_range and len(indexes) == len(s.active) and settled.isdisjoint(indexes)


def _with_common_backoff(s: Situation, missing: int, history: FailureHistory) -> PodChanges:
    wait = common_wait(s, history)
    if wait:
        return PodChanges(wait=wait.total_seconds())
    number = min(missing, s.options.max_creates)
    if not s.indexed:
        return PodChanges(create=(PodPlan(),) * number, wait=_next_batch(missing, number))
    plans = [PodPlan(index=index) for index in islice(_free(s), number)]
    return PodChanges(create=tuple(plans), wait=_next_batch(missing, number))


def common_wait(s: Situation, history: FailureHistory) -> timedelta:
    """How long the whole Job still has to wait with new pods; indexes that are limited for themselves wait alone."""
    return backoff.remaining(history, s.now, *_scale(s))


def _next_batch(missing: int, number: int) -> float | None:
    return 0.0 if missing > number else None


def _per_index(s: Situation, missing: int, history: FailureHistory) -> PodChanges:
    """The lowest free indexes whose own backoff is over."""
    number = min(missing, s.options.max_creates)
    scale = _scale(s)
    plans: list[PodPlan] = []
    waits: list[timedelta] = []
    for index in _free(s):
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


def _free(s: Situation) -> Iterator[int]:
    """The indexes that may get a pod now, lowest first."""
    taken = set(s.active_indexes)
    if s.only_terminal:
        taken |= {completion_index(pod) for pod in s.terminating}
    return free_indexes(s.completions or 0, _settled(s), taken)


def _scale(s: Situation) -> tuple[float, float]:
    return backoff.base_of(s.job, s.options), s.options.backoff_max

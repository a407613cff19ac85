"""A Workload's life as a game: what the life cycle does, and what everybody else may do to it, one move at a time.

Pure. The diagram in LIFECYCLE.md is drawn by playing all moves, and tests play random ones and check the invariants.
Moves of the life cycle are `step`; those of others are `MOVES`: each answers with the new state, or None where it
cannot happen. A move of another controller is possible only where that controller would make it: the scheduler admits
what is eligible and not held back, the Job's side of the queue gives quota back when the Job has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from msgspec import structs

from queue_manager.api import condition_types, keys, policies, reasons
from queue_manager.api.types import Workload
from queue_manager.lifecycle import admission_checks, requeuing, rules, steps, transitions
from queue_manager.lifecycle.settings import Settings
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.steps import WorkloadContext
from queue_manager.lifecycle.transitions import Transition
from queue_manager.scheduling.flavor_assignment import Assignment
from queue_manager.scheduling.workload_info import info


@dataclass(frozen=True, slots=True)
class LifeState:
    """A Workload, what is around it, and whether its Job runs."""

    workload: Workload
    view: WorkloadContext
    settings: Settings
    now: datetime
    job_runs: bool = False

    def after(self, transition: Transition) -> LifeState:
        draft = Draft(self.workload, self.now)
        transition(draft)
        return replace(self, workload=draft.workload)

    def is_true(self, type: str) -> bool:
        return self.workload.is_true(type)


Move = Callable[[LifeState], LifeState | None]


# --- phases ------------------------------------------------------------------------------------------------


def _backs_off(w: Workload) -> bool:
    requeued, state = w.condition(condition_types.REQUEUED), w.status.requeue_state
    if state is not None and state.requeue_at is not None:
        return True
    return requeued is not None and not requeued.is_true and requeued.reason not in transitions.STOPPED_QUEUES


def _recovers(w: Workload) -> bool:
    ready = w.condition(condition_types.PODS_READY)
    return ready is not None and ready.reason == reasons.WAIT_FOR_RECOVERY


PHASES: tuple[tuple[str, str, Callable[[Workload], bool]], ...] = (
    ("Finished", "for good; only retention is left", lambda w: w.is_true(condition_types.FINISHED)),
    (
        "Evicted",
        "holds quota until its Job has stopped",
        lambda w: w.is_true(condition_types.EVICTED) and w.is_true(condition_types.QUOTA_RESERVED),
    ),
    (
        "Inactive",
        "spec.active is false, and no quota: until somebody sets it to true",
        lambda w: not w.spec.active and not w.is_true(condition_types.QUOTA_RESERVED),
    ),
    (
        "Checked",
        "holds quota and waits for admission checks",
        lambda w: w.is_true(condition_types.QUOTA_RESERVED) and not w.is_true(condition_types.ADMITTED),
    ),
    (
        "Running",
        "admitted, all pods ready",
        lambda w: w.is_true(condition_types.ADMITTED) and w.is_true(condition_types.PODS_READY),
    ),
    ("Recovering", "admitted, a ready pod was lost", lambda w: w.is_true(condition_types.ADMITTED) and _recovers(w)),
    ("Starting", "admitted, waits for its pods", lambda w: w.is_true(condition_types.ADMITTED)),
    ("Backoff", "no quota, and not in line before requeueAt", _backs_off),
    ("Waiting", "no quota; in line, or a stopped queue or a gate is in the way", lambda w: True),
)
"""Name, meaning, test: the first that holds is the phase, so there is always exactly one."""


def phase(workload: Workload) -> str:
    return next(name for name, _, test in PHASES if test(workload))


# --- the life cycle's own moves ------------------------------------------------------------------------------


def next_step(life: LifeState) -> steps.Step:
    return rules.next_step(life.workload, life.view, life.settings, life.now)


def step(life: LifeState) -> LifeState | None:
    """Take the next step, or let the time pass until there is one; None: it rests."""
    match next_step(life):
        case steps.WriteStatus(apply):
            return life.after(apply)
        case steps.Deactivate(announced):
            meta = life.workload.metadata
            noted = structs.replace(meta, annotations={**meta.annotations, keys.DEACTIVATED_FOR: announced})
            return replace(life, workload=structs.replace(_active(life.workload, False), metadata=noted))
        case steps.Wait(until):
            return replace(life, now=until)
        case _:
            return None


def settled(life: LifeState) -> bool:
    """There is nothing to do now."""
    return isinstance(next_step(life), steps.Wait | steps.Idle)


# --- the moves of others -------------------------------------------------------------------------------------


_NOT_IN_LINE = (condition_types.FINISHED, condition_types.DEACTIVATION_TARGET, condition_types.QUOTA_RESERVED)


def eligible(life: LifeState) -> bool:
    """The scheduler may try it."""
    w, view = life.workload, life.view
    free = w.spec.active and not any(w.is_true(ended) for ended in _NOT_IN_LINE)
    gated = bool(w.metadata.annotations.get(keys.ADMISSION_GATED_BY))
    stopped = any(stop != policies.STOP_NONE for stop in (view.cluster_queue_stop, view.local_queue_stop))
    waits = info(w).in_backoff(life.now) or requeuing.ends_instead_of_retry(w, life.settings) is not None
    return free and not gated and not stopped and not waits


def admit(life: LifeState) -> LifeState | None:
    if not eligible(life):
        return None

    def reserve(draft: Draft) -> None:
        transitions.reserve(draft, life.view.cluster_queue, Assignment([], {}))
        admission_checks.synchronise(draft, life.view.checks)
        admission_checks.confirm(draft)

    return life.after(reserve)


def start_job(life: LifeState) -> LifeState | None:
    wanted = life.is_true(condition_types.ADMITTED) and not life.is_true(condition_types.EVICTED)
    return replace(life, job_runs=True) if wanted and not life.job_runs else None


def stop_job(life: LifeState) -> LifeState | None:
    unwanted = life.is_true(condition_types.EVICTED) or not life.is_true(condition_types.ADMITTED)
    return replace(life, job_runs=False) if unwanted and life.job_runs else None


def give_back(life: LifeState) -> LifeState | None:
    """The Job has stopped and has no pods."""
    if life.job_runs or not life.is_true(condition_types.EVICTED) or not life.is_true(condition_types.QUOTA_RESERVED):
        return None
    return life.after(lambda d: transitions.unreserve(d, waits_for_pods=True))


def pods_ready(life: LifeState) -> LifeState | None:
    return life.after(lambda d: transitions.pods_ready(d, ready=True)) if _starts(life) else None


def lose_pod(life: LifeState) -> LifeState | None:
    if not life.is_true(condition_types.PODS_READY) or not life.is_true(condition_types.ADMITTED):
        return None
    return life.after(lambda d: transitions.pods_ready(d, ready=False))


def end_job(life: LifeState) -> LifeState | None:
    if not life.job_runs or life.is_true(condition_types.EVICTED) or life.is_true(condition_types.FINISHED):
        return None
    return replace(life.after(lambda d: transitions.finish(d, reasons.SUCCEEDED, "done")), job_runs=False)


def _starts(life: LifeState) -> bool:
    return life.job_runs and not life.is_true(condition_types.EVICTED) and not life.is_true(condition_types.PODS_READY)


def preempt(life: LifeState) -> LifeState | None:
    if not life.is_true(condition_types.ADMITTED) or life.is_true(condition_types.EVICTED):
        return None
    return life.after(lambda d: transitions.evict(d, condition_types.PREEMPTED, "Preempted"))


def deactivate(life: LifeState) -> LifeState | None:
    return replace(life, workload=_active(life.workload, False)) if _may_switch(life, True) else None


def reactivate(life: LifeState) -> LifeState | None:
    return replace(life, workload=_active(life.workload, True)) if _may_switch(life, False) else None


def _may_switch(life: LifeState, active: bool) -> bool:
    return life.workload.spec.active is active and not life.is_true(condition_types.FINISHED)


def _active(workload: Workload, active: bool) -> Workload:
    return structs.replace(workload, spec=structs.replace(workload.spec, active=active))


def _stop_queue(policy: str) -> Move:
    def stop(life: LifeState) -> LifeState | None:
        if life.view.cluster_queue_stop == policy:
            return None
        active = policy == policies.STOP_NONE
        return replace(life, view=replace(life.view, cluster_queue_stop=policy, cluster_queue_active=active))

    return stop


def _answer(state: str) -> Move:
    def answer(life: LifeState) -> LifeState | None:
        asked = admission_checks.in_state(Draft(life.workload, life.now), "Pending")
        if not asked or phase(life.workload) != "Checked":
            return None
        answers = tuple(structs.replace(check, state=state) for check in asked)
        return life.after(lambda d: d.put(admission_checks=answers))

    return answer


MOVES: Mapping[str, Move] = MappingProxyType(
    {
        "the scheduler admits it": admit,
        "its Job starts": start_job,
        "its Job stops": stop_job,
        "its Job has stopped": give_back,
        "all pods are ready": pods_ready,
        "a pod is lost": lose_pod,
        "its Job has ended": end_job,
        "it is preempted": preempt,
        "somebody deactivates it": deactivate,
        "somebody reactivates it": reactivate,
        "its queue is held": _stop_queue(policies.HOLD),
        "its queue is drained": _stop_queue(policies.HOLD_AND_DRAIN),
        "its queue is released": _stop_queue(policies.STOP_NONE),
        "its checks pass": _answer("Ready"),
        "a check asks for a retry": _answer("Retry"),
        "a check rejects it": _answer("Rejected"),
    }
)

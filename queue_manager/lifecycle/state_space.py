"""The state space of a Workload: the steps of the lifecycle rules, and the moves of everything else, one at a time.

Pure. `diagram` plays all moves to draw the phases in LIFECYCLE.md; tests play random ones and check invariants.
`step` takes the next step of the lifecycle rules. `MOVES` are those of the scheduler, the Job, admission checks, users
and administrators: each returns the new state, or None if it is not possible now. A move of another controller is
possible only where that controller would make it: the scheduler admits what is eligible, and quota is released when
the Job has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from msgspec import structs

from job_controller.model import ObjectMeta, OwnerReference
from queue_manager.api import condition_types, keys, policy_values, reasons
from queue_manager.api.check_states import CheckState
from queue_manager.api.types import Workload, WorkloadSpec
from queue_manager.lifecycle import admission_checks, pods_ready_timeout, rules, steps, transitions
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.steps import WorkloadContext
from queue_manager.lifecycle.transitions import Transition
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.scheduling.flavor_assignment import Assignment
from queue_manager.scheduling.workload_info import info


@dataclass(frozen=True, slots=True)
class LifeState:
    """A Workload, its surroundings, the time, and whether its Job runs."""

    workload: Workload
    context: WorkloadContext
    settings: WorkloadSettings
    now: datetime
    job_runs: bool = False

    def after(self, transition: Transition) -> LifeState:
        """Return this state with the edits of one transition."""
        draft = Draft(self.workload, self.now)
        transition(draft)
        return replace(self, workload=draft.workload)

    def is_true(self, type: str) -> bool:
        """Whether the Workload's condition of this type is True."""
        return self.workload.is_true(type)


Move = Callable[[LifeState], LifeState | None]

SETTINGS = WorkloadSettings(pods_ready=PodsReadySettings(timeout=300, recovery_timeout=300, limit=1, base=60))
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def new_life(checks: tuple[str, ...] = ()) -> LifeState:
    """A new Workload that may run for an hour, in a ClusterQueue with these admission checks."""
    owner = OwnerReference(kind="Job", name="j", uid="j", controller=True)
    meta = ObjectMeta(name="w", namespace="ns", uid="w", creation_timestamp=CREATED, owner_references=(owner,))
    workload = Workload(metadata=meta, spec=WorkloadSpec(queue_name="lq", maximum_execution_time_seconds=3600))
    return LifeState(workload, WorkloadContext(cluster_queue="cq", checks=checks), SETTINGS, CREATED)


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
    ("Finished", "has ended; it is deleted after a retention", lambda w: w.is_true(condition_types.FINISHED)),
    (
        "Evicted",
        "holds quota until its Job has stopped",
        lambda w: w.is_true(condition_types.EVICTED) and w.is_true(condition_types.QUOTA_RESERVED),
    ),
    (
        "Inactive",
        "spec.active is false, no quota: until a user sets it to true",
        lambda w: not w.spec.active and not w.is_true(condition_types.QUOTA_RESERVED),
    ),
    (
        "Reserved",
        "holds quota and waits for admission checks",
        lambda w: w.is_true(condition_types.QUOTA_RESERVED) and not w.is_true(condition_types.ADMITTED),
    ),
    (
        "Running",
        "admitted, all pods ready",
        lambda w: w.is_true(condition_types.ADMITTED) and w.is_true(condition_types.PODS_READY),
    ),
    (
        "Recovering",
        "admitted, a pod that was ready has failed",
        lambda w: w.is_true(condition_types.ADMITTED) and _recovers(w),
    ),
    ("Starting", "admitted, not all pods are ready yet", lambda w: w.is_true(condition_types.ADMITTED)),
    ("Backoff", "no quota, and not in the queue before requeueAt", _backs_off),
    ("Pending", "no quota; in the queue, or blocked by a stopped queue or an admission gate", lambda w: True),
)
"""Name, meaning and predicate: the first predicate that holds gives the phase, so each Workload is in exactly one."""


def phase(workload: Workload) -> str:
    """The name of the first of PHASES whose test holds."""
    return next(name for name, _, test in PHASES if test(workload))


# --- steps of the lifecycle rules ----------------------------------------------------------------------------


def next_step(life: LifeState) -> steps.Step:
    """What the rules of the life cycle do next in this state."""
    return rules.next_step(life.workload, life.context, life.settings, life.now)


def step(life: LifeState) -> LifeState | None:
    """The state after the next step, or at the time when there is one; None if no rule has a step."""
    match next_step(life):
        case steps.ApplyTransition(apply):
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
    """Whether no rule has a step now."""
    return isinstance(next_step(life), steps.Wait | steps.Idle)


# --- moves of others -----------------------------------------------------------------------------------------


_NO_PODS = Assignment([], {})
_NOT_PENDING = (condition_types.FINISHED, condition_types.DEACTIVATION_TARGET, condition_types.QUOTA_RESERVED)


def eligible(life: LifeState) -> bool:
    """Whether the scheduler may admit the Workload."""
    w, context = life.workload, life.context
    free = w.spec.active and not any(w.is_true(ended) for ended in _NOT_PENDING)
    gated = bool(w.metadata.annotations.get(keys.ADMISSION_GATED_BY))
    stopped = any(stop != policy_values.STOP_NONE for stop in (context.cluster_queue_stop, context.local_queue_stop))
    waits = info(w).in_backoff(life.now) or pods_ready_timeout.ends_instead_of_retry(w, life.settings) is not None
    return free and not gated and not stopped and not waits


def admit(life: LifeState, assignment: Assignment = _NO_PODS) -> LifeState | None:
    """The state after the scheduler reserves quota; None if the Workload is not eligible."""
    if not eligible(life):
        return None

    def reserve(draft: Draft) -> None:
        transitions.reserve(draft, life.context.cluster_queue, assignment)
        admission_checks.synchronise(draft, life.context.checks)
        admission_checks.confirm(draft)

    return life.after(reserve)


def start_job(life: LifeState) -> LifeState | None:
    """The state after the Job of an admitted Workload is unsuspended; None if it may not be, or runs already."""
    wanted = life.is_true(condition_types.ADMITTED) and not life.is_true(condition_types.EVICTED)
    return replace(life, job_runs=True) if wanted and not life.job_runs else None


def stop_job(life: LifeState) -> LifeState | None:
    """The state after the Job of an evicted or unadmitted Workload is suspended; None if there is nothing to stop."""
    unwanted = life.is_true(condition_types.EVICTED) or not life.is_true(condition_types.ADMITTED)
    return replace(life, job_runs=False) if unwanted and life.job_runs else None


def give_back(life: LifeState) -> LifeState | None:
    """The state after an evicted Workload releases its quota; None while its Job runs, or if it holds none."""
    if life.job_runs or not life.is_true(condition_types.EVICTED) or not life.is_true(condition_types.QUOTA_RESERVED):
        return None
    return life.after(lambda d: transitions.unreserve(d, waits_for_pods=True))


def pods_ready(life: LifeState) -> LifeState | None:
    """The state after all pods of the Job are ready; None unless they can become so."""
    return life.after(lambda d: transitions.pods_ready(d, ready=True)) if _starts(life) else None


def lose_pod(life: LifeState) -> LifeState | None:
    """The state after one ready pod fails; None unless all pods were ready."""
    if not life.is_true(condition_types.PODS_READY) or not life.is_true(condition_types.ADMITTED):
        return None
    return life.after(lambda d: transitions.pods_ready(d, ready=False))


def end_job(life: LifeState) -> LifeState | None:
    """The state after the Job succeeds; None if it does not run, or its Workload is evicted or finished."""
    if not life.job_runs or life.is_true(condition_types.EVICTED) or life.is_true(condition_types.FINISHED):
        return None
    return replace(life.after(lambda d: transitions.finish(d, reasons.SUCCEEDED, "done")), job_runs=False)


def _starts(life: LifeState) -> bool:
    return life.job_runs and not life.is_true(condition_types.EVICTED) and not life.is_true(condition_types.PODS_READY)


def preempt(life: LifeState) -> LifeState | None:
    """The state after another Workload preempts this one; None if it is not admitted, or evicted already."""
    if not life.is_true(condition_types.ADMITTED) or life.is_true(condition_types.EVICTED):
        return None
    return life.after(lambda d: transitions.evict(d, condition_types.PREEMPTED, "Preempted"))


def deactivate(life: LifeState) -> LifeState | None:
    """The state after spec.active is set to false; None if that changes nothing."""
    return replace(life, workload=_active(life.workload, False)) if _may_switch(life, True) else None


def reactivate(life: LifeState) -> LifeState | None:
    """The state after spec.active is set to true; None if that changes nothing."""
    return replace(life, workload=_active(life.workload, True)) if _may_switch(life, False) else None


def _may_switch(life: LifeState, active: bool) -> bool:
    return life.workload.spec.active is active and not life.is_true(condition_types.FINISHED)


def _active(workload: Workload, active: bool) -> Workload:
    return structs.replace(workload, spec=structs.replace(workload.spec, active=active))


def _stop_queue(policy: str) -> Move:
    def stop(life: LifeState) -> LifeState | None:
        if life.context.cluster_queue_stop == policy:
            return None
        active = policy == policy_values.STOP_NONE
        return replace(life, context=replace(life.context, cluster_queue_stop=policy, cluster_queue_active=active))

    return stop


def _answer(state: CheckState) -> Move:
    def answer(life: LifeState) -> LifeState | None:
        asked = admission_checks.in_state(Draft(life.workload, life.now), CheckState.PENDING)
        if not asked or phase(life.workload) != "Reserved":
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
        "a user deactivates it": deactivate,
        "a user reactivates it": reactivate,
        "its queue is held": _stop_queue(policy_values.HOLD),
        "its queue is drained": _stop_queue(policy_values.HOLD_AND_DRAIN),
        "its queue is released": _stop_queue(policy_values.STOP_NONE),
        "its admission checks are ready": _answer(CheckState.READY),
        "an admission check requests a retry": _answer(CheckState.RETRY),
        "an admission check rejects it": _answer(CheckState.REJECTED),
    }
)

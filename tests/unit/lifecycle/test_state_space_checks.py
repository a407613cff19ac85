"""Each invariant of `test_state_space` can fail: with a broken rule or move, random moves violate it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from queue_manager.api import condition_types, policy_values
from queue_manager.api.types import RequeueState
from queue_manager.lifecycle import pods_ready_timeout, rules, state_space, steps, transitions
from queue_manager.lifecycle.state_space import LifeState
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.write_causes import Cause
from tests.unit.lifecycle import test_state_space
from tests.unit.lifecycle.test_state_space import LifeOfAWorkload

Break = Callable[[pytest.MonkeyPatch], None]
MANY = settings(
    max_examples=4000,
    stateful_step_count=40,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def without(*left_out: rules.Rule) -> Break:
    return lambda patch: patch.setattr(rules, "RULES", tuple(rule for rule in rules.RULES if rule not in left_out))


def moves(**changed: state_space.Move) -> Break:
    names = {"stopped": "its Job has stopped", "admitted": "the scheduler admits it"}
    new = {**state_space.MOVES, **{names[key]: move for key, move in changed.items()}}

    def broken(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(test_state_space, "MOVES", new)

    return broken


def admits_at_once(one: LifeState) -> LifeState | None:
    """Any Workload without quota, in backoff, inactive or in a stopped queue."""
    ready = replace(one, context=replace(one.context, cluster_queue_stop=policy_values.STOP_NONE))
    if one.is_true(condition_types.QUOTA_RESERVED) or one.is_true(condition_types.FINISHED):
        return None
    return ready.after(lambda d: transitions.reserve(d, "cq", state_space.Assignment([], {})))


def gives_back_at_once(one: LifeState) -> LifeState | None:
    if not one.is_true(condition_types.EVICTED) or not one.is_true(condition_types.QUOTA_RESERVED):
        return None
    return one.after(lambda d: transitions.unreserve(d, waits_for_pods=True))


def never_counts(patch: pytest.MonkeyPatch) -> None:
    before = pods_ready_timeout.evict_or_deactivate

    def evict(draft: Draft, *rest: object) -> None:
        before(draft, *rest)  # type: ignore[arg-type]
        state = draft.status.requeue_state
        if state is not None:
            draft.put(requeue_state=RequeueState(count=0, requeue_at=state.requeue_at))

    patch.setattr(pods_ready_timeout, "evict_or_deactivate", evict)


def knows_no_limit(patch: pytest.MonkeyPatch) -> None:
    before = pods_ready_timeout.evict_or_deactivate
    patch.setattr(
        pods_ready_timeout,
        "evict_or_deactivate",
        lambda draft, own, *rest: before(draft, replace(own, limit=None), *rest),
    )


def keeps_the_count(patch: pytest.MonkeyPatch) -> None:
    before = transitions.deactivate

    def deactivate(draft: Draft, pod_cause: str = "") -> None:
        state = draft.status.requeue_state
        before(draft, pod_cause)
        draft.put(requeue_state=state)

    patch.setattr(transitions, "deactivate", deactivate)


def keeps_the_admission(patch: pytest.MonkeyPatch) -> None:
    before = transitions.unreserve

    def unreserve(draft: Draft, *, waits_for_pods: bool) -> None:
        admission = draft.status.admission
        before(draft, waits_for_pods=waits_for_pods)
        draft.put(admission=admission)

    patch.setattr(transitions, "unreserve", unreserve)


def waits_a_second(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pods_ready_timeout, "_wait", lambda count, own, jitter: timedelta(seconds=1))


def runs_without_quota(patch: pytest.MonkeyPatch) -> None:
    new = {**state_space.MOVES, "its Job starts": lambda one: None if one.job_runs else replace(one, job_runs=True)}
    patch.setattr(test_state_space, "MOVES", new)


def never_rests(patch: pytest.MonkeyPatch) -> None:
    def again(*_: object) -> steps.Step:
        return steps.ApplyTransition(lambda draft: None, Cause.CLOCK)

    patch.setattr(rules, "RULES", (*rules.RULES, again))


BROKEN: dict[str, tuple[str, Break]] = {
    "admitted while it backs off, is off or stopped": (
        "admitted too early|an inactive one is eligible|stuck as Evicted",
        moves(admitted=admits_at_once),
    ),
    "runs without quota": ("the Job runs without quota", runs_without_quota),
    "quota released while the Job runs": ("quota released while the Job runs", moves(stopped=gives_back_at_once)),
    "a retry that is not counted": ("retries: ", never_counts),
    "retries without limit": ("retries: ", knows_no_limit),
    "a count that outlives a deactivation": ("full new budget", keeps_the_count),
    "a wait of one second": ("backoff: ", waits_a_second),
    "an admission without quota": ("quota: ", keeps_the_admission),
    "a backoff without end": ("stuck as Backoff", without(rules.workload_in_backoff_is_requeued)),
    "an inactive one that is never evicted": (
        "no end of steps|full new budget",
        without(rules.inactive_workload_is_evicted),
    ),
    "a reason that is not true": ("untrue reason", without(rules.pending_reason_is_kept_up_to_date)),
    "steps without end": ("no end of steps", never_rests),
}


def test_the_unchanged_rules_keep_the_invariants() -> None:
    run_state_machine_as_test(LifeOfAWorkload, settings=settings(MANY, max_examples=30))


@pytest.mark.thorough
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, breaks = BROKEN[what]
    breaks(monkeypatch)
    with pytest.raises(AssertionError, match=number):
        run_state_machine_as_test(LifeOfAWorkload, settings=MANY)

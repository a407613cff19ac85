"""The life-cycle rules under random moves of scheduler, Job, users and time keep the invariants below."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from queue_manager.api import condition_types, policy_values, reasons
from queue_manager.lifecycle import diagram, state_space
from queue_manager.lifecycle.state_space import MOVES, PHASES, LifeState, eligible, phase, settled, step
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.queueing.requeue_backoff import backoff_seconds
from tests.examples import examples

BASE, MAXIMUM, LIMIT = 60, 300, 3
OWN, END = "its own step", "its Job has ended"
FORWARD = ("the scheduler admits it", "its Job starts", "all pods are ready", "its Job stops", "its Job has stopped")
OPEN = (
    "its queue is released",
    "a user reactivates it",
    "its Job stops",
    "its Job has stopped",
    "its admission checks are ready",
)


def timeouts(one: LifeState) -> int:
    stats = one.workload.status.scheduling_stats
    return sum(e.count or 0 for e in (stats.evictions if stats else ()) if e.reason == reasons.PODS_READY_TIMEOUT)


def retries(one: LifeState) -> int:
    state = one.workload.status.requeue_state
    return (state.count or 0) if state is not None else 0


def rest(one: LifeState) -> LifeState:
    """Take the steps that are due now; they must come to an end."""
    for _ in range(12):
        if settled(one):
            return one
        after = step(one)
        assert after is not None
        one = after
    raise AssertionError(f"no end of steps: {one.workload.status}")


class LifeOfAWorkload(RuleBasedStateMachine):
    """Any order of moves: steps of the life-cycle rules, of other controllers, of users and admins, and time."""

    @initialize(
        limit=st.none() | st.integers(0, LIMIT),
        give_up=st.none() | st.integers(100, 3000),
        checks=st.sampled_from([(), ("check",)]),
        unscheduled=st.sampled_from([None, Unscheduled(1, "no node")]),
    )
    def born(self, limit: int | None, give_up: int | None, checks: tuple[str, ...], unscheduled: object) -> None:
        own = PodsReadySettings(
            timeout=300,
            recovery_timeout=100,
            limit=limit,
            base=BASE,
            maximum=MAXIMUM,
            give_up_after=give_up,
            unschedulable_timeout=50,
        )
        one = state_space.new_life(checks)
        context = replace(one.context, unscheduled=unscheduled)  # type: ignore[arg-type]
        self.life = replace(one, context=context, settings=WorkloadSettings(pods_ready=own))

    def become(self, after: LifeState) -> None:
        before, self.life = self.life, after
        lost = before.is_true(condition_types.QUOTA_RESERVED) and not after.is_true(condition_types.QUOTA_RESERVED)
        assert not (lost and before.job_runs), "quota released while the Job runs"
        evicted = timeouts(after) - timeouts(before)
        if evicted:
            assert (evicted, retries(after)) == (1, retries(before) + 1), "retries: one eviction, one retry"
            self.check_backoff(after)
        if before.workload.spec.active and not after.workload.spec.active:
            assert not eligible(after), "an inactive one is eligible"

    def check_backoff(self, after: LifeState) -> None:
        state = after.workload.status.requeue_state
        assert state is not None
        assert state.count is not None
        assert state.requeue_at is not None
        limit = after.settings.pods_ready.limit if after.settings.pods_ready else None
        assert limit is None or state.count <= limit, "retries: beyond the limit there is no retry"
        wait = (state.requeue_at - after.now.replace(microsecond=0)).total_seconds()
        least = backoff_seconds(state.count, BASE, MAXIMUM)
        assert least <= wait <= least * 1.0001 + 1, "backoff: too short or too long"

    @rule(choice=st.sampled_from(range(97)))
    def other(self, choice: int) -> None:
        """One of the moves that are possible now."""
        possible = [name for name, move in MOVES.items() if move(self.life) is not None]
        name = possible[choice % len(possible)]
        if name != END or choice % 5 == 0:  # no further moves
            self.make(name)

    @rule(choices=st.lists(st.sampled_from(range(7)), min_size=2, max_size=15))
    def goes_on(self, choices: list[int]) -> None:
        """Several moves that advance the life cycle, its own steps and the time until them among them."""
        for choice in choices:
            possible = [name for name in FORWARD if MOVES[name](self.life) is not None] + [OWN]
            name = possible[choice % len(possible)]
            self.own() if name == OWN else self.make(name)

    def make(self, name: str) -> None:
        before = self.life
        after = MOVES[name](before)
        assert after is not None
        if name == "the scheduler admits it":
            self.check_admission(before, after)
        self.become(after)
        if name == "a user reactivates it" and not before.is_true(condition_types.QUOTA_RESERVED) and settled(before):
            assert retries(rest(after)) == 0, "a reactivation gives a full new budget"
            assert rest(after).workload.status.requeue_state is None

    def check_admission(self, one: LifeState, after: LifeState) -> None:
        w = one.workload
        requeued, state = after.workload.condition(condition_types.REQUEUED), w.status.requeue_state
        assert w.spec.active, "admitted too early"
        assert phase(w) in ("Pending", "Backoff"), "admitted too early"
        assert requeued is None or requeued.is_true, "admitted too early: Requeued is False"
        assert phase(after.workload) in ("Starting", "Reserved"), "admitted too early: its backoff is not ended with it"
        assert state is None or state.requeue_at is None or state.requeue_at <= one.now, (
            "admitted too early: before requeueAt"
        )
        assert not w.is_true(condition_types.DEACTIVATION_TARGET), "retries: about to be deactivated"
        assert one.context.cluster_queue_stop == policy_values.STOP_NONE, "admitted too early: a stopped queue"

    @rule()
    def own(self) -> None:
        after = step(self.life)
        if after is not None:
            self.become(after)

    @rule(seconds=st.sampled_from([1, 50, 100, 300, 700, 2000]))
    def time_passes(self, seconds: int) -> None:
        self.life = replace(self.life, now=self.life.now + timedelta(seconds=seconds))

    @invariant()
    def one_phase_and_its_quota(self) -> None:
        """Quota, admission and a running Job go together."""
        w = self.life.workload
        reserved = w.is_true(condition_types.QUOTA_RESERVED)
        assert phase(w) in {name for name, _, _ in PHASES}
        assert reserved == (w.status.admission is not None), "quota: an admission and no quota, or the reverse"
        assert reserved or not w.is_true(condition_types.ADMITTED), "quota: admitted without quota"
        assert not (reserved and eligible(self.life)), "quota: eligible with quota"
        assert not self.life.job_runs or w.is_true(condition_types.ADMITTED), "the Job runs without quota"

    @invariant()
    def the_pending_reason_is_true(self) -> None:
        """Once all due steps are taken, a pending Workload names its stopped queue as the reason if it has one."""
        one = rest(self.life)
        reserved = one.workload.condition(condition_types.QUOTA_RESERVED)
        if phase(one.workload) == "Pending" and reserved is not None:
            stopped = one.context.cluster_queue_stop != policy_values.STOP_NONE
            assert (reserved.reason == reasons.SUSPENDED) == stopped, f"untrue reason: {reserved}"

    @precondition(lambda self: not self.life.is_true(condition_types.FINISHED))
    @rule()
    def a_way_out(self) -> None:
        """With the queue released, the Workload active and time, the Workload is admitted and its Job runs."""
        one = self.life
        for _ in range(60):
            if one.job_runs and one.is_true(condition_types.ADMITTED) and not one.is_true(condition_types.EVICTED):
                return
            one = self.helped(one)
        raise AssertionError(f"stuck as {phase(one.workload)}: {one.workload.status}")

    def helped(self, one: LifeState) -> LifeState:
        for name in (*OPEN, "the scheduler admits it", "its Job starts"):
            one = rest(one)
            if name == "a user reactivates it" and phase(one.workload) != "Inactive":
                continue
            one = MOVES[name](one) or one
        if phase(one.workload) == "Backoff":
            one = rest(step(one) or one)
        return one


LifeOfAWorkload.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLifeOfAWorkload = LifeOfAWorkload.TestCase


@pytest.mark.thorough
def test_every_phase_can_be_left_and_reached() -> None:
    found = diagram.arrows()
    names = {name for name, _, _ in PHASES}
    assert {before for before, *_ in found} == names - {"Finished"}
    assert {after for _, after, *_ in found} == names


def test_the_table_of_moves_holds_every_actor() -> None:
    assert {state_space.admit, state_space.give_back, state_space.reactivate} <= set(MOVES.values())

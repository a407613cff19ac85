"""Preemptors with partial admission: how many pods they get."""

import pytest

from queue_manager.scheduling.cycle import Admit, Preempt, run_cycle
from queue_manager.scheduling.fair_preemption import FINAL_SHARE, INITIAL_SHARE
from tests.unit.queueing.builders import T0, pending
from tests.unit.scheduling.preemption_cases import CPU, queue, run, state
from tests.unit.scheduling.test_preemption_cycle import carry_out, names, try_one


def test_with_partial_admission_as_many_pods_as_fit_after_preemption_are_promised():
    s = state(queue(within="LowerPriority", cpu="4"))
    run(s, "low", cpu=2), run(s, "equal", cpu=2, priority=100)
    outcome = try_one(s, pending("high", priority=100, count=4, fewest=1))
    assert isinstance(outcome, Preempt)
    assert names(outcome) == ["low"]
    assert outcome.assignment.usage == {CPU: 2000}
    assert outcome.info.pod_sets[0].count == 4


@pytest.mark.parametrize(("count", "pods", "stopped"), [(10, 9, ["small"]), (7, 7, []), (5, 5, [])])
def test_pods_that_will_fit_are_counted_with_those_that_need_a_preemption(count, pods, stopped):
    """Of 10 cpus a preemptor that waits has claimed 1, and will leave 7; with the other victim 9 pods can run."""
    s = state(queue(within="LowerPriority", cpu="10"))
    run(s, "large", cpu=8), run(s, "small", cpu=2, priority=5)
    carry_out(s, try_one(s, pending("preemptor", priority=100)))
    outcome = try_one(s, pending("head", priority=50, count=count, fewest=1))
    assert (names(outcome) if isinstance(outcome, Preempt) else []) == stopped
    assert outcome.assignment.usage == {CPU: pods * 1000}


def test_with_fewer_pods_a_preemptor_borrows_nothing_that_could_be_reclaimed():
    """Of 8 cpus, with which each could borrow from the other, it leaves the 6 of the other ClusterQueue."""
    s = state(queue("a", "6", "co", reclaim="Any"), queue("b", "2", "co", reclaim="Any"))
    victim = run(s, "large", "a", cpu=8)
    small = pending("small", count=3, fewest=2, queue="b")
    carry_out(s, try_one(s, small, "b"))
    s.release(victim.uid)
    large = pending("large", requests={"cpu": "2"}, count=4, fewest=2, queue="a")
    outcomes = run_cycle(s, [("a", large), ("b", small)], T0)
    assert [(each.info.key.name, each.assignment.usage[CPU]) for each in outcomes] == [("small", 2000), ("large", 6000)]


@pytest.mark.parametrize("is_tried_meanwhile", [False, True])
def test_by_fair_sharing_a_preemptor_gets_the_pods_with_which_it_may_preempt(is_tried_meanwhile):
    """With more than 3 of 6 cpus its share would be above that of the victim, which would preempt it in turn."""
    s = state(*(queue(name, cpu, "co", reclaim="Any") for name, cpu in (("a", "1"), ("b", "2"), ("c", "3"))))
    s.fair_sharing = FINAL_SHARE, INITIAL_SHARE
    victim = run(s, "large", "b", cpu=5)
    small = pending("small", count=6, fewest=2, queue="a")
    carry_out(s, try_one(s, small, "a"))
    if is_tried_meanwhile:
        carry_out(s, try_one(s, small, "a"))
    s.release(victim.uid)
    outcome = try_one(s, small, "a")
    assert isinstance(outcome, Admit)
    assert outcome.assignment.usage == {CPU: 3000}


def test_if_others_use_its_own_quota_a_preemptor_gets_no_more_pods_than_planned():
    """It planned to borrow nothing, and has to borrow now, with any number of pods."""
    s = state(queue("a", "2", "co", reclaim="Any"), queue("b", "2", "co"), queue("c", "4", "co"))
    run(s, "lent", "c", cpu=3)
    victim = run(s, "large", "b", cpu=4, priority=1)
    info = pending("preemptor", count=4, fewest=2, queue="a")
    carry_out(s, try_one(s, info, "a"))
    run(s, "passed", "a")
    s.release(victim.uid)
    outcome = try_one(s, info, "a")
    assert isinstance(outcome, Admit)
    assert (outcome.assignment.usage, outcome.assignment.borrow) == ({CPU: 2000}, 1)

"""Workloads that must not be preempted before their minimum runtime is over."""

from __future__ import annotations

import pytest

from queue_manager.scheduling import fair_preemption
from queue_manager.scheduling.execution_time import protection_end
from queue_manager.scheduling.holdings import holding_of
from queue_manager.scheduling.preemption_candidates import protected_candidates
from queue_manager.scheduling.victim_search import find_victims
from queue_manager.scheduling.workload_info import info
from tests.unit.queueing.builders import T0, at, condition, workload
from tests.unit.scheduling.preemption_cases import preemptor, queue, run, state, victims

ADMITTED = [condition("QuotaReserved", "True", seconds=5), condition("Admitted", "True", seconds=10)]
OWN, RECLAIMED = "InClusterQueue", "InCohortReclamation"


@pytest.mark.parametrize(
    ("text", "most", "conditions", "ends"),
    [
        ("30m", 3600, ADMITTED, 10 + 1800),
        ("1h", 3600, ADMITTED, 10 + 3600),
        ("5h", 3600, ADMITTED, 10 + 3600),  # written by hand: no webhook has refused it
        ("30m", None, ADMITTED, None),
        ("30m", 3600, ADMITTED[:1], None),
        ("30m", 3600, [*ADMITTED[:1], condition("Admitted", "False")], None),
        ("0s", 3600, ADMITTED, None),
        ("-1h", 3600, ADMITTED, None),
        ("soon", 3600, ADMITTED, None),
        (None, 3600, ADMITTED, None),
    ],
)
def test_the_minimum_counts_from_admission_up_to_the_bound(text, most, conditions, ends) -> None:
    notes = {"sluice/min-runtime": text} if text is not None else {}
    w = workload(annotations=notes, conditions=conditions, status={"admission": {"clusterQueue": "cq"}})
    expected = at(ends) if ends is not None else None
    assert protection_end(w, most) == expected
    held = holding_of(w, info(w), most)
    assert held is not None
    assert held.protected_until == expected


@pytest.mark.parametrize(("now", "gone"), [(0, []), (59.9, []), (60, [("long", OWN)])])
def test_a_workload_is_no_candidate_until_its_minimum_is_over(now, gone) -> None:
    s = state(queue(within="LowerPriority", cpu="2"))
    run(s, "long", cpu=2, protected_until=at(60))
    assert victims(s, cpu=2, now=at(now)) == gone


def test_others_are_preempted_in_its_place_whatever_their_order() -> None:
    s = state(queue(within="LowerPriority", cpu="2"))
    run(s, "long", priority=0, protected_until=at(60)), run(s, "free", priority=50)
    assert victims(s, now=at(59)) == [("free", OWN)]
    assert victims(s, now=at(60)) == [("long", OWN)]


def test_a_newer_one_of_equal_priority_is_preempted_when_its_minimum_is_over() -> None:
    s = state(queue(within="LowerOrNewerEqualPriority", cpu="3"))
    run(s, "older", priority=100, created=1)
    run(s, "newer", priority=100, created=60, protected_until=at(60))
    run(s, "newest", priority=100, created=70, protected_until=at(30), reserved=1)
    found = {now: victims(s, priority=100, created=50, now=at(now)) for now in (29, 30, 60)}
    assert found == {29: [], 30: [("newest", OWN)], 60: [("newest", OWN)]}
    assert victims(s, cpu=2, priority=100, created=50, now=at(59)) == []
    assert {name for name, _ in victims(s, cpu=2, priority=100, created=50, now=at(60))} == {"newer", "newest"}
    wanted = preemptor(s, priority=100, created=50)
    assert [h.uid for h in protected_candidates(s, wanted, T0)] == ["uid-newest", "uid-newer"]


def test_quota_that_was_lent_is_not_reclaimed_earlier() -> None:
    s = state(queue("a", cpu="2", cohort="team", reclaim="Any"), queue("b", cpu="2", cohort="team"))
    run(s, "loan", "b", cpu=4, protected_until=at(60))
    assert victims(s, queue="a", cpu=2, now=at(59)) == []
    assert victims(s, queue="a", cpu=2, now=at(60)) == [("loan", RECLAIMED)]


def test_what_is_being_stopped_is_waited_for() -> None:
    s = state(queue(within="LowerPriority", cpu="2"))
    run(s, "stopping", cpu=2, protected_until=at(60), evicted=True)
    assert victims(s, cpu=2) == [("stopping", OWN)]


def test_fair_sharing_preempts_no_earlier_either() -> None:
    s = state(queue("a", cpu="2", cohort="team", reclaim="Any"), queue("b", cpu="2", cohort="team"))
    s.fair_sharing = ("LessThanOrEqualToFinalShare",)
    for i in range(4):
        run(s, f"b{i}", "b", reserved=i, protected_until=at(60) if i else at(30))
    wanted = preemptor(s, queue="a", cpu=1)
    found = {now: [v.holding.uid for v in fair_preemption.find_victims(s, wanted, at(now))] for now in (29, 30, 60)}
    assert found == {29: [], 30: ["uid-b0"], 60: ["uid-b3"]}


def test_protected_candidates_are_listed_with_the_first_to_be_free_first() -> None:
    s = state(
        queue("a", cpu="4", cohort="team", within="LowerPriority", reclaim="LowerPriority"),
        queue("b", cpu="1", cohort="team"),
        queue("c", cpu="3", cohort="team"),
    )
    run(s, "own", "a", protected_until=at(90))
    run(s, "higher", "a", priority=200, protected_until=at(10))
    run(s, "free", "a")
    run(s, "loan", "b", cpu=2, protected_until=at(60))
    run(s, "stopping", "b", protected_until=at(20), evicted=True)
    run(s, "within", "c", protected_until=at(30))
    run(s, "also within", "c")
    wanted = preemptor(s, queue="a", cpu=3)
    assert [(h.uid, h.protected_until) for h in protected_candidates(s, wanted, T0)] == [
        ("uid-loan", at(60)),
        ("uid-own", at(90)),
    ]
    assert [h.uid for h in protected_candidates(s, wanted, at(60))] == ["uid-own"]
    assert find_victims(s, wanted, T0) == ()

"""Victims under fair sharing: the examples of KEP-1714, and properties that hold for all states."""

from __future__ import annotations

import pytest

from queue_manager.scheduling.fair_preemption import find_victims
from tests.unit.scheduling.fair_states import (
    BOTH,
    FINAL,
    INITIAL,
    T0,
    admit_all,
    cohort,
    preemptor,
    queue,
    scheduler_state,
    usages,
)

ABC = [queue("a"), queue("b"), queue("c"), queue("preemptible", "0", within="Never", reclaim="Never")]
HEAVY = [queue("a", weight="2"), queue("b"), queue("c")]
ZERO = [queue("a"), queue("b", weight="0"), queue("c")]
TREE = [
    queue("a", "1", "LEFT", weight="2", within="Never"),
    queue("b", "1", "LEFT", within="Never", reclaim="Never"),
    queue("c", "1", "ROOT", within="Never", reclaim="Never"),
    queue("d", "1", "RIGHT", within="Never", reclaim="Never"),
    queue("e", "1", "RIGHT", weight="0.99", within="Never", reclaim="Never"),
]
TREE_COHORTS = [cohort("ROOT", "5"), cohort("LEFT", "5", "ROOT", "2"), cohort("RIGHT", "5", "ROOT")]
NO_BORROWING = [queue("a", "5", "ROOT", weight="10"), queue("b", {}, "RIGHT", weight="0.1")]
DEEP = [queue("a", "0", "AAA", within="Never"), queue("b", "0", "BBB", within="Never", reclaim="Never")]
DEEP_COHORTS = [
    cohort("ROOT"),
    *(cohort("A", None, "ROOT", "1.01"), cohort("AA", None, "A"), cohort("AAA", None, "AA")),
    *(cohort("B", None, "ROOT", "0.99"), cohort("BB", None, "B"), cohort("BBB", None, "BB")),
    *(cohort("C", None, "ROOT"), cohort("CC", None, "C"), cohort("CCC", None, "CC"), cohort("CCCC", "1", "CCC")),
]
FLAVORS = [
    queue("a", {"premium": "3", "cheap": "0"}, within="Never"),
    queue("b", {"premium": "0", "cheap": "6"}, within="Never", reclaim="Never"),
]


def levels(name: str) -> str:
    return " ".join(f"{name}{i}:1@{i}" for i in range(1, 6))


def case(title, admitted, incoming, expected, *, queues=ABC, cohorts=(), strategies=BOTH, flavor="default"):
    """`incoming`: (ClusterQueue, Workload); `expected`: "victim victim=Reason"."""
    return pytest.param(queues, cohorts, strategies, flavor, admitted, incoming, expected, id=title)


OWN, RECLAIM, FAIR = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"


@pytest.mark.parametrize(
    ("queues", "cohorts", "strategies", "flavor", "admitted", "incoming", "expected"),
    [
        case(
            "nominal quota is reclaimed from the queue that uses most",
            {"a": "a1 a2 a3", "b": "b1 b2 b3 b4 b5", "c": "c1"},
            ("c", "in"),
            {"b1": RECLAIM},
        ),
        case(
            "another queue is taken from if the one that uses most does not suffice",
            {"a": "a1:3 a2", "b": "b1:2 b2:3"},
            ("c", "in:3"),
            {"a1": RECLAIM},
        ),
        case(
            "borrowable quota is reclaimed from the queue that uses most",
            {"a": "a1 a2 a3", "b": "b1 b2 b3 b4 b5", "c": "c1"},
            ("a", "in"),
            {"b1": FAIR},
        ),
        case(
            "one of each borrowing queue",
            {"a": "a1:.5 a2:.5 a3:3", "b": "b1:.5 b2:.5 b3:3"},
            ("c", "in:2"),
            {"a1": RECLAIM, "b1": RECLAIM},
        ),
        case(
            "none if everyone is within nominal quota", {"a": "a1 a2 a3", "b": "b1 b2 b3", "c": "c1 c2 c3"}, ("c", "in"), {}
        ),
        case(
            "none if it would switch the imbalance", {"a": "a1 a2 a3", "b": "b1 b2 b3 b4 b5"}, ("a", "in:2"), {}
        ),
        case(
            "lower priority in the own queue",
            {"a": "l1@-1 l2@-1 a3 a4", "b": "b1 b2 b3 b4 b5"},
            ("a", "in:2"),
            {"l1": OWN, "l2": OWN},
        ),
        case(
            "the own queue together with the one that uses most",
            {"a": "l1@-1 a2 a3", "b": "b1 b2 b3 b4 b5 b6"},
            ("a", "in:2"),
            {"l1": OWN, "b1": FAIR},
        ),
        case("a huge Workload if nothing else is possible", {"b": "b1:9"}, ("a", "in:2"), {"b1": RECLAIM}),
        case("not a huge one for a huge one", {"a": "a1:2", "b": "b1:7"}, ("a", "in:5"), {}),
        case("not two smaller ones for a huge one", {"b": "b1:2 b2:2 b3:3"}, ("a", "in:6"), {}),
        case(
            "own and others, even above nominal quota",
            {"a": "l1:2@-1 l2:1@-1", "b": "b1:3 b2:3"},
            ("a", "in:4"),
            {"l1": OWN, "b1": FAIR},
        ),
        case(
            "rather one that does not leave the queue with the largest share",
            {"b": "b1:2 b2:1 b3:2", "c": "c1"},
            ("a", "in:3.5"),
            {"b2": FAIR},
        ),
        case(
            "one of several queues if the largest share becomes smaller",
            {"b": "b1:2 b2:2.5", "c": "c1:2 c2:2.5"},
            ("a", "in:3.5"),
            {"b1": FAIR, "c1": FAIR},
        ),
        case("the victims of the former do not come back", {"a": "a1:3.5", "b": "b2:2.5", "c": "c2:2.5"}, ("b", "in:2"), {}),
        case(
            "none that would bring its queue below nominal quota", {"b": "b1:3 b2:3", "c": "c1:3"}, ("a", "in:4"), {}
        ),
        case(
            "low priority alone is no reason",
            {"a": "a1 a2 a3", "b": "b1 b2 b3", "preemptible": "p1@-3 p2@-3 p3@-3"},
            ("a", "in:2"),
            {},
        ),
        case(
            "S2-b alone takes the lower priority, even if big",
            {"a": "a1:3", "b": "low:5@0 high:1@1"},
            ("a", "in"),
            {"low": FAIR},
            strategies=(INITIAL,),
        ),
        case(
            "S2-a alone takes what does not transfer the imbalance, even of high priority",
            {"a": "a1:3", "b": "low:5@0 high:1@1"},
            ("a", "in"),
            {"high": FAIR},
            strategies=(FINAL,),
        ),
        case(
            "a higher weight preempts more",
            {"a": "a1 a2 a3", "b": "b1 b2 b3 b4 b5 b6"},
            ("a", "in:2"),
            {"b1": FAIR, "b2": FAIR},
            queues=HEAVY,
        ),
        case(
            "all that a queue of weight 0 borrows",
            {"a": "a1 a2 a3", "b": "b1 b2 b3 b4 b5 b6"},
            ("a", "in:3"),
            {"b1": FAIR, "b2": FAIR, "b3": FAIR},
            queues=ZERO,
        ),
        case(
            "not the nominal quota of a queue of weight 0",
            {"a": "a1 a2 a3", "b": "b1 b2 b3"},
            ("a", "in"),
            {},
            queues=[queue("a"), queue("b", weight="0")],
        ),
        case(
            "not the nominal quota of a cohort of weight 0",
            {"right": "r1"},
            ("left", "in"),
            {},
            queues=[queue("left", "0", "root"), queue("right", "0", "right-cohort", weight="0")],
            cohorts=[cohort("right-cohort", "1", "root", "0")],
        ),
        case(
            "in a queue without cohort",
            {"a": "a1"},
            ("a", "in@1000"),
            {"a1": OWN},
            queues=[queue("a", "1", "")],
        ),
        case(
            "over a hierarchy",
            {name: levels(name) for name in "bcde"},
            ("a", "in:5"),
            {"b1": FAIR, "b2": FAIR, "c1": FAIR, "c2": FAIR, "e1": FAIR},
            queues=TREE,
            cohorts=TREE_COHORTS,
        ),
        case(
            "a borrowing queue in a cohort that does not borrow is protected",
            {"a": "a1@-1 a2@-1 a3@-1", "b": "b1@-1"},
            ("a", "in:5"),
            {"a1": OWN, "a2": OWN, "a3": OWN},
            queues=NO_BORROWING,
            cohorts=[cohort("ROOT"), cohort("RIGHT", "1", "ROOT", "0.1")],
        ),
        case(
            "the own queue if the borrower's priority is higher",
            {"a": "a1@-1 a2@-1 a3@-1", "b": "b1:4@100"},
            ("a", "in:4"),
            {"a1": OWN, "a2": OWN, "a3": OWN},
            queues=[queue("a", "5", "ROOT", weight="10", reclaim="LowerPriority"), NO_BORROWING[1]],
            cohorts=[cohort("ROOT"), cohort("RIGHT", "3", "ROOT", "0.1")],
        ),
        case("deep in a hierarchy", {"b": "b1"}, ("a", "in"), {"b1": FAIR}, queues=DEEP, cohorts=DEEP_COHORTS),
        case(
            "a queue of weight 0 reclaims its nominal quota",
            {"b": "b1"},
            ("a", "in"),
            {"b1": RECLAIM},
            queues=[queue("a", "1", "ROOT", weight="0"), queue("b", "0", "ROOT", weight="1")],
        ),
        case(
            "a cohort of weight 0 reclaims its nominal quota",
            {"b": "b1"},
            ("a", "in"),
            {"b1": FAIR},
            queues=[queue("a", "0", "A", weight="0"), queue("b", "0", "ROOT")],
            cohorts=[cohort("A", "1", "ROOT", "0")],
        ),
        case(
            "within nominal quota of the contested flavor, whatever is borrowed of another",
            {"a": "p1/premium p2/premium a1/cheap a2/cheap a3/cheap a4/cheap a5/cheap", "b": "b1/premium"},
            ("a", "in"),
            {"b1": RECLAIM},
            queues=FLAVORS,
            flavor="premium",
        ),
    ],
)
def test_the_examples_of_kueue(queues, cohorts, strategies, flavor, admitted, incoming, expected):
    state = scheduler_state(queues, cohorts, strategies)
    admit_all(state, admitted, flavor)
    before = usages(state)
    victims = find_victims(state, preemptor(state, *incoming, flavor), T0)
    assert {victim.holding.uid: victim.reason for victim in victims} == expected
    assert usages(state) == before

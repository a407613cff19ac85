"""Victims under fair sharing: the examples of KEP-1714, and properties that hold for all states."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from job_controller.model import Key
from queue_manager.scheduling import victim_search
from queue_manager.scheduling.fair_preemption import find_victims, stoppable
from queue_manager.scheduling.fair_sharing import Shares
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.preemption_candidates import Preemptor
from queue_manager.scheduling.quota_state import MOST_RECLAIMS
from queue_manager.scheduling.quota_tree import FlavorResource, is_within_quota
from queue_manager.scheduling.usage_decay import WeightedUsage
from queue_manager.scheduling.victim_search import MOST_READ
from tests.examples import examples
from tests.unit.queueing.builders import T0, cluster_queue, pending
from tests.unit.scheduling.fair_states import (
    BOTH,
    FINAL,
    INITIAL,
    admit,
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
NO_BORROWING = [queue("a", "5", "ROOT", weight="10"), queue("b", "0", "RIGHT", weight="0.1")]
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
            "none if everyone is within nominal quota",
            {"a": "a1 a2 a3", "b": "b1 b2 b3", "c": "c1 c2 c3"},
            ("c", "in"),
            {},
        ),
        case("none if it would switch the imbalance", {"a": "a1 a2 a3", "b": "b1 b2 b3 b4 b5"}, ("a", "in:2"), {}),
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
        case(
            "the victims of the former do not come back",
            {"a": "a1:3.5", "b": "b2:2.5", "c": "c2:2.5"},
            ("b", "in:2"),
            {},
        ),
        case("none that would bring its queue below nominal quota", {"b": "b1:3 b2:3", "c": "c1:3"}, ("a", "in:4"), {}),
        case(
            "low priority alone is no reason",
            {"a": "a1 a2 a3", "b": "b1 b2 b3", "preemptible": "p1@-3 p2@-3 p3@-3"},
            ("a", "in:2"),
            {},
        ),
        case(
            "LessThanInitialShare alone takes the lower priority, even if big",
            {"a": "a1:3", "b": "low:5@0 high:1@1"},
            ("a", "in"),
            {"low": FAIR},
            strategies=(INITIAL,),
        ),
        case(
            "LessThanOrEqualToFinalShare alone takes what does not transfer the imbalance, even of high priority",
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


def test_a_victim_stays_if_what_is_given_back_makes_it_unfair():
    """Stopping `small` lowers the share of its queue below that of `hero`; but when hero stops, small may stay.

    Without the second check the queues would preempt each other forever (kubernetes-sigs/kueue#14543).
    """
    queues = [queue("p", "0"), queue("t", "0")]
    state = scheduler_state(queues, [cohort("all", "100")])
    admit_all(state, {"p": "small:30@-1", "t": "hero:70"})
    assert find_victims(state, preemptor(state, "p", "in:60"), T0) == ()


def test_equal_shares_of_another_resource_are_no_reason_to_preempt():
    """Both queues have the same share of memory, and cpu is short: each could preempt the other forever."""
    quotas = {"cpu": "0", "memory": "0"}
    queues = [
        cluster_queue(name, quotas={"default": quotas}, cohortName="all", preemption={"reclaimWithinCohort": "Any"})
        for name in "ab"
    ]
    owner = cluster_queue("owner", quotas={"default": {"cpu": "1", "memory": "100"}}, cohortName="all")
    state = scheduler_state([*queues, owner])
    memory, cpu = FlavorResource("default", "memory"), FlavorResource("default", "cpu")
    for name in "ab":
        info = pending(f"{name}-memory")
        state.hold(Holding(f"{name}-memory", info.key, name, info.queue, {memory: 50}, admitted=True))
    info = pending("b-cpu")
    state.hold(Holding("b-cpu", info.key, "b", info.queue, {cpu: 100}, admitted=True))
    wanted = Preemptor(pending("in"), state.queues["a"], {cpu: 1000}, frozenset({cpu}))
    assert find_victims(state, wanted, T0) == ()


def test_nominal_quota_of_a_needed_flavor_is_safe_whatever_is_borrowed_of_another():
    """b has the largest share because of cheap; of premium it loses what it has borrowed, and no more."""
    queues = [
        queue("a", {"premium": "4", "cheap": "0"}),
        queue("b", {"premium": "1", "cheap": "0"}),
        queue("c", {"premium": "0", "cheap": "9"}),
    ]
    state = scheduler_state(queues)
    admit_all(state, {"b": "b1/premium b2/premium b3/premium b4:9/cheap", "c": "c1/premium c2/premium"})
    victims = find_victims(state, preemptor(state, "a", "in:4", "premium"), T0)
    assert {victim.holding.uid: victim.reason for victim in victims} == dict.fromkeys(("b1", "b2", "c1", "c2"), RECLAIM)


def test_evicted_workloads_are_waited_for_before_others_are_preempted():
    state = scheduler_state(ABC)
    admit_all(state, {"a": "a1 a2 a3 a4", "b": "b1 b2 b3 b4 b5"})
    wanted = preemptor(state, "c", "in")
    assert [v.holding.uid for v in find_victims(state, wanted, T0)] == ["b1"]
    state.hold(state.holdings["a4"]._replace(evicted=True))
    assert [v.holding.uid for v in find_victims(state, wanted, T0)] == ["a4"]


@pytest.mark.parametrize("names", ["abc", "cba", "bca"])
def test_evicted_workloads_are_taken_in_one_order_whichever_queue_was_created_first(names):
    state = scheduler_state([queue(name) for name in names])
    admit_all(state, {"a": "a1:2@1 a2:3@1", "b": "b1:2 b2:2@1", "c": "own@-1"})
    for uid in ("a1", "b1", "own"):
        state.hold(state.holdings[uid]._replace(evicted=True))
    assert [v.holding.uid for v in find_victims(state, preemptor(state, "c", "in"), T0)] == ["b1"]


def test_victims_come_from_the_local_queue_that_has_used_most():
    """Past usage comes before priority, with fair sharing and without it, but only where the ClusterQueue wants it."""
    for scope, expected in (({}, "low"), ({"admissionMode": "UsageBasedAdmissionFairSharing"}, "high")):
        for search in (find_victims, victim_search.find_victims):
            state = scheduler_state([queue("a", "2", "", admissionScope=scope)])
            for name, local, priority in (("low", "modest", 0), ("high", "greedy", 5)):
                state.hold(admit(state, "a", f"{name}:1@{priority}")._replace(queue=Key("ns", local)))
            state.usage_order = lambda local: WeightedUsage(False, Fraction(local.name == "greedy"))
            victims = search(state, preemptor(state, "a", "in:1@9"), T0)
            assert [victim.holding.uid for victim in victims] == [expected]


# --- all states ---

CPU = FlavorResource("default", "cpu")
SIZES = st.integers(1, 6)
workloads = st.lists(st.tuples(st.sampled_from("abcd"), SIZES, st.integers(0, 2)), max_size=12)
shapes = st.fixed_dictionaries(
    {
        "nominal": st.tuples(*[st.integers(0, 4)] * 4),
        "weights": st.tuples(*[st.sampled_from(["0", "500m", "1", "2", "3"])] * 4),
        "lending": st.tuples(*[st.none() | st.integers(0, 4)] * 4),
        "nested": st.booleans(),
        "within": st.sampled_from(["Never", "LowerPriority"]),
        "strategies": st.sampled_from([BOTH, (FINAL,), (INITIAL,)]),
    }
)


def generated(shape, within=None):
    """Four ClusterQueues in one cohort; with `nested`, two in each of two cohorts."""
    queues = []
    for i, name in enumerate("abcd"):
        quota = {"nominalQuota": str(shape["nominal"][i])}
        if shape["lending"][i] is not None:
            quota["lendingLimit"] = str(min(shape["lending"][i], shape["nominal"][i]))
        parent = "all" if not shape["nested"] else "left" if name in "ab" else "right"
        queues.append(
            cluster_queue(
                name,
                quotas={"default": {"cpu": quota}},
                cohortName=parent,
                fairSharing={"weight": shape["weights"][i]},
                preemption={"withinClusterQueue": within or shape["within"], "reclaimWithinCohort": "Any"},
            )
        )
    cohorts = [cohort("all", "4"), cohort("left", "1", "all"), cohort("right", None, "all", "2")]
    return scheduler_state(queues, cohorts if shape["nested"] else cohorts[:1], shape["strategies"])


def fill(state, drawn):
    """Admit what fits, in order; the rest, as (ClusterQueue, text)."""
    waiting = []
    for i, (name, size, priority) in enumerate(drawn):
        text = f"{name}{i}:{size}@{priority}"
        if state.queues[name].node.available(CPU) >= size * 1000:
            admit(state, name, text, reserved=i)
        else:
            waiting.append((name, text))
    return waiting


@settings(max_examples=examples(300))
@given(shapes, workloads)
def test_preemption_helps_the_lower_share(shape, drawn):
    """The preemptor fits, no victim is dispensable, and each one's queue had the larger share: with the victim back,
    that of the preemptor would be lower still, so the victim cannot preempt it in turn.
    """
    state = generated(shape)
    for name, text in fill(state, drawn):
        wanted = preemptor(state, name, text)
        before = usages(state)
        victims = find_victims(state, wanted, T0)
        assert usages(state) == before
        if not victims:
            continue
        node = wanted.queue.node
        for victim in victims:
            state.release(victim.holding.uid)
        assert node.available(CPU) >= wanted.usage[CPU]
        admitted = admit(state, name, text)
        for victim in victims:
            state.hold(victim.holding)
            assert node.available(CPU) < 0  # over-admitted: this one had to stop
            other = state.queues[victim.holding.cluster_queue].node
            if other is node:
                assert victim.reason == OWN
                assert victim.holding.priority < wanted.info.priority
            elif victim.reason == FAIR:
                mine, theirs = branches(node, other)
                assert Shares().of(mine) < Shares().of(theirs)
            else:
                assert is_within_quota(node, {CPU})
                assert not is_within_quota(other, {CPU})
            state.release(victim.holding.uid)
        state.release(admitted.uid)
        for victim in victims:
            state.hold(victim.holding)


def branches(mine, theirs):
    """The children of the lowest common cohort on the way to both."""
    ancestors = list(mine.path())
    common = next(node for node in theirs.path() if node in ancestors)
    return (next(n for n in path if n.parent is common) for path in (mine.path(), theirs.path()))


# c takes from a, as the share of `right` stays below that of `left`; within `right`, d takes from c, whose weight is 0;
# with the larger d the share of `right` is above that of `left`, so a takes from d.
CIRCLE: dict = {
    "nominal": (0, 1, 0, 0),
    "weights": ("0", "0", "0", "500m"),
    "lending": (None, None, None, None),
    "nested": True,
    "within": "Never",
    "strategies": BOTH,
}

# c takes from b, whose priority is lower, as often as a takes from c, and that is twice: three times in all.
CIRCLE_WITH_PRIORITY: dict = {
    "nominal": (0, 0, 0, 2),
    "weights": ("0", "500m", "0", "0"),
    "lending": (None, None, None, None),
    "nested": True,
    "within": "Never",
    "strategies": BOTH,
}


@settings(max_examples=examples(150))
@given(shapes, workloads)
@example(CIRCLE, [("a", 1, 0), ("a", 3, 0), ("c", 3, 0), ("d", 5, 0)])
@example(CIRCLE_WITH_PRIORITY, [("a", 1, 0), ("a", 1, 0), ("b", 6, 0), ("c", 6, 1)])
def test_queues_do_not_preempt_each_other_for_ever(shape, drawn):
    """With a fixed set of Workloads, whose victims queue again, there is an end.

    None is preempted more than twice by the same one of no higher priority, and every circle has such a step.
    """
    state = generated(shape, within="Never")
    waiting = fill(state, drawn)
    texts = {text.partition(":")[0]: (name, text) for name, text in waiting} | {
        h.uid: (h.cluster_queue, f"{h.uid}:{h.usage[CPU] // 1000}@{h.priority}") for h in state.holdings.values()
    }
    evictions: Counter[tuple[str, str]] = Counter()  # by preemptor and victim
    progress = True
    while progress:
        progress = False
        for name, text in list(waiting):
            wanted = preemptor(state, name, text)
            uid = text.partition(":")[0]
            before = {victim: count for (by, victim), count in evictions.items() if by == uid}
            wanted = wanted._replace(preempted=before)
            fits = wanted.queue.node.available(CPU) >= wanted.usage[CPU]
            victims = () if fits else find_victims(state, wanted, T0)
            if not (fits or victims):
                continue
            for victim in victims:
                state.release(victim.holding.uid)
                waiting.append(texts[victim.holding.uid])
                evictions[uid, victim.holding.uid] += 1
                if victim.holding.priority >= wanted.info.priority:
                    assert evictions[uid, victim.holding.uid] <= MOST_RECLAIMS
            waiting.remove((name, text))
            admit(state, name, text, reserved=sum(evictions.values()))
            progress = True


def test_too_few_candidates_are_refused_after_the_first_hundred():
    """What is read of 500 candidates, all of which the preemptor would need and one more."""
    state = scheduler_state([queue("a", "500"), queue("b", "0", within="Never")])
    admit_all(state, {"b": " ".join(f"w{number}" for number in range(499))})
    admit(state, "a", "high@9")
    read = []

    class Counted(dict):
        def __getitem__(self, uid):
            read.append(uid)
            return super().__getitem__(uid)

    state.queues["b"].holdings = Counted(state.queues["b"].holdings)
    before = usages(state)
    assert find_victims(state, preemptor(state, "a", "p:500"), T0) == ()
    assert usages(state) == before
    assert MOST_READ <= len(read) < 2 * MOST_READ
    assert len(find_victims(state, preemptor(state, "a", "p:499"), T0)) == 499


def test_all_that_may_be_stopped_are_known_although_they_do_not_suffice():
    """The share of `b` is down to that of `a` when one of its 199 is left."""
    state = scheduler_state([queue("a", "200"), queue("b", "0", within="Never")])
    admit_all(state, {"b": " ".join(f"w{number}" for number in range(199))})
    admit(state, "a", "high@9")
    before = usages(state)
    assert len(stoppable(state, preemptor(state, "a", "p:200"), T0)) == 198
    assert usages(state) == before

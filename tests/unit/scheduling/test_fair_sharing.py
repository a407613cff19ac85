"""Dominant resource shares, and the order of heads under fair sharing."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from job_controller.quantities import INT64_MAX
from queue_manager.scheduling.cycle import Admit, Preempt, Refuse, run_cycle
from queue_manager.scheduling.fair_sharing import NO_SHARE, Contender, Share, Shares, fair_order
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.examples import examples
from tests.unit.queueing.builders import T0, cluster_queue, pending
from tests.unit.scheduling.fair_states import admit, admit_all, cohort, milli, queue, scheduler_state
from tests.unit.scheduling.reference_comparison import worlds
from tests.unit.scheduling.reference_worlds import state_of

CPU = FlavorResource("default", "cpu")


def share(state, name):
    node = state.forest.queues.get(name) or state.forest.cohorts[name]
    return Shares().of(node)


def test_a_queue_within_its_nominal_quota_has_no_share():
    state = scheduler_state([queue("a"), queue("b")])
    admit_all(state, {"a": "a1:3"})
    assert share(state, "a") == NO_SHARE
    assert share(state, "all") == NO_SHARE  # a root borrows from no one


def test_the_share_is_what_is_borrowed_of_all_that_the_cohort_has():
    state = scheduler_state([queue("a"), queue("b", "7")])
    admit_all(state, {"a": "a1:5"})
    assert share(state, "a") == Share(False, Fraction(200))


def test_the_share_adds_up_flavors_and_takes_the_dominant_resource():
    quota = {"cpu": "1", "memory": "10"}
    groups = {"cohortName": "all", "quotas": {"x": quota, "y": quota}}
    state = scheduler_state([cluster_queue("a", **groups), cluster_queue("b", **groups)])
    info = pending("w")
    usage = {FlavorResource("x", "cpu"): 1500, FlavorResource("y", "cpu"): 1500, FlavorResource("x", "memory"): 20}
    node = state.queues["a"].node
    node.add_all(usage)
    assert share(state, "a") == Share(False, Fraction(250))  # cpu: 1 of 4; memory: 10 of 40
    node.add(FlavorResource("y", "memory"), 11)
    assert share(state, "a") == Share(False, Fraction(11 * 1000, 40))
    assert info.rank  # the Workload itself does not matter


def test_limits_bound_what_a_cohort_lends():
    lent = {"nominalQuota": "9", "lendingLimit": "2"}
    owner = cluster_queue("b", quotas={"default": {"cpu": lent}}, cohortName="all")
    state = scheduler_state([queue("a", "0"), owner])
    admit_all(state, {"a": "a1:1"})
    assert share(state, "a") == Share(False, Fraction(500))


@pytest.mark.parametrize(
    ("weight", "expected", "written"),
    [
        ("2", Share(False, Fraction(50)), 50),
        ("500m", Share(False, Fraction(200)), 200),
        ("3", Share(False, Fraction(100, 3)), 34),
        ("0", Share(True, Fraction(100)), INT64_MAX),
    ],
)
def test_the_weight_divides_the_share(weight, expected, written):
    state = scheduler_state([queue("a", weight=weight), queue("b", "7")])
    admit_all(state, {"a": "a1:4"})
    assert share(state, "a") == expected
    assert share(state, "a").rounded == written


def test_weight_0_matters_only_while_it_borrows():
    state = scheduler_state([queue("a", weight="0"), queue("b", "7")])
    admit_all(state, {"a": "a1:3"})
    assert share(state, "a").rounded == 0


def test_a_cohort_has_a_share_of_its_parent_cohort():
    """left has 2 of its own and its queue uses 4: it borrows 2 of the 12 that root can lend."""
    queues = [queue("a", "0", "left"), queue("b", "10", "root")]
    state = scheduler_state(queues, [cohort("left", "2", "root", weight="2"), cohort("root")])
    admit_all(state, {"a": "a1:4"})
    assert share(state, "left") == Share(False, Fraction(2 * 1000, 12) / 2)
    assert share(state, "a") == Share(False, Fraction(4 * 1000, 12))


def test_a_changed_weight_counts_at_once():
    state = scheduler_state([queue("a"), queue("b", "7")], [cohort("all", parent="top", weight="5")])
    admit_all(state, {"a": "a1:4"})
    state.set_queue(queue("a", weight="4"))
    assert share(state, "a").per_mille == 25
    state.drop_cohort("all")
    assert state.forest.cohorts["all"].weight == 1


# --- the order of heads ---


def order(state, *heads):
    """`heads`: (ClusterQueue, "name:cpu@priority", time); each is admitted when its turn comes."""
    entries = []
    for name, text, created in heads:
        one, _, rest = text.partition(":")
        cpu, _, priority = rest.partition("@")
        info = pending(one, priority=int(priority or 0), created=created)
        entries.append((one, Contender(state.queues[name].node, {CPU: milli(cpu)}, info.rank)))
    result = []
    for one, contender in fair_order(entries, lambda entry: entry[1], []):
        result.append(one)
        contender.node.add_all(contender.usage)
    return result


def test_a_head_that_borrows_comes_last():
    state = scheduler_state([queue("a"), queue("b")])
    assert order(state, ("a", "borrows:4@9", 0), ("b", "fits:3", 1)) == ["fits", "borrows"]


def test_the_lower_share_comes_first():
    state = scheduler_state([queue("a", "1"), queue("b", "1"), queue("c", "8")])
    assert order(state, ("a", "big:5", 0), ("b", "small:3", 1)) == ["small", "big"]


def test_among_equal_shares_priority_and_then_time_decide():
    state = scheduler_state([queue(name, "1") for name in "abc"])
    heads = [("a", "late:2", 5), ("b", "early:2", 1), ("c", "high:2@7", 9)]
    assert order(state, *heads) == ["high", "early", "late"]


def test_borrowing_of_another_flavor_does_not_count():
    """a borrows cheap; its head wants premium, of which it has its own."""
    flavors = [queue("a", {"premium": "3", "cheap": "0"}), queue("b", {"premium": "1", "cheap": "6"})]
    state = scheduler_state(flavors)
    admit(state, "a", "a1:5", "cheap")
    premium = FlavorResource("premium", "cpu")
    entries = [
        ("borrows", Contender(state.queues["b"].node, {premium: 2000}, pending("borrows", created=0).rank)),
        ("fits", Contender(state.queues["a"].node, {premium: 2000}, pending("fits", created=1).rank)),
    ]
    assert [name for name, _ in fair_order(entries, lambda entry: entry[1], [])] == ["fits", "borrows"]


def test_a_queue_that_loses_a_victim_in_the_cycle_is_ordered_by_what_it_has_left():
    """Before the cycle b borrows 4 and c borrows 1. Without the victim of a, b has the lower share and goes first."""
    state = scheduler_state([queue("a", "6"), queue("b"), queue("c")])
    admit_all(state, {"b": "victim:4 b1:3@9", "c": "c1:4@9"})
    heads = [
        (name, pending(f"head-{name}", requests={"cpu": cpu})) for name, cpu in (("a", "4"), ("b", "1"), ("c", "1"))
    ]
    outcomes = [(type(outcome), outcome.cluster_queue) for outcome in run_cycle(state, heads, T0)]
    assert outcomes == [(Preempt, "a"), (Admit, "b"), (Refuse, "c")]


def test_the_cohorts_compete_before_their_queues():
    """left as a whole borrows more: its best head comes after that of right, which alone has the larger share."""
    queues = [queue("a", "0", "left"), queue("b", "0", "left"), queue("c", "0", "right"), queue("o", "20", "root")]
    state = scheduler_state(queues, [cohort("left", parent="root"), cohort("right", parent="root")])
    admit_all(state, {"b": "b1:6"})
    assert order(state, ("a", "left-head:1", 0), ("c", "right-head:5", 1)) == ["right-head", "left-head"]


def test_the_share_of_those_served_counts_for_the_next():
    """After a1 the cohort left is the larger borrower, so c1 comes before b1."""
    queues = [queue("a", "0", "left"), queue("b", "0", "left"), queue("c", "0", "right"), queue("o", "20", "root")]
    state = scheduler_state(queues, [cohort("left", parent="root"), cohort("right", parent="root")])
    assert order(state, ("a", "a1:2", 0), ("b", "b1:2", 1), ("c", "c1:3", 2)) == ["a1", "c1", "b1"]


def test_heads_of_one_queue_and_of_queues_without_cohort_are_ordered_by_rank():
    state = scheduler_state([queue("a", "9", "")])
    assert order(state, ("a", "second:1", 1), ("a", "first:1", 0), ("a", "high:1@1", 2)) == ["high", "first", "second"]


# --- all trees ---

heads = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9), st.integers(0, 1)), max_size=12)
weights = st.tuples(*[st.sampled_from(["0", "1", "2", "300m"])] * 6)


@settings(max_examples=examples(200))
@given(weights, heads, heads)
def test_the_order_is_that_of_a_tournament_run_anew_for_each(weights, admitted, drawn):
    """The brackets, which are only brought up to date on the path of a winner, agree with the plain definition."""
    places = ("left", "left", "right", "deep", "deep", "root")
    queues = [queue(n, "1", p, weight=w) for n, p, w in zip("abcdef", places, weights, strict=True)]
    cohorts = [cohort("left", "2", "root"), cohort("right", None, "root", "2"), cohort("deep", "1", "right")]
    states = [scheduler_state(queues, cohorts) for _ in range(2)]
    for state in states:
        for i, (name, cpu, _) in enumerate(admitted):
            admit(state, name, f"h{i}:{cpu}")
    wanted = [(name, f"w{i}:{cpu}@{priority}", i) for i, (name, cpu, priority) in enumerate(drawn)]
    assert order(states[0], *wanted) == plain_order(states[1], wanted)


def plain_order(state, wanted):
    left = {}
    for name, text, created in wanted:
        one, _, rest = text.partition(":")
        cpu, _, priority = rest.partition("@")
        rank = pending(one, priority=int(priority), created=created).rank
        left[one] = Contender(state.queues[name].node, {CPU: milli(cpu)}, rank)
    result = []
    while left:
        one = tournament(state.forest.cohorts["root"], left)
        contender = left.pop(one)
        contender.node.add_all(contender.usage)
        result.append(one)
    return result


def tournament(node, left):
    """The name of the winner below `node`, or None."""
    if not node.is_cohort:
        mine = [one for one, contender in left.items() if contender.node is node]
        return min(mine, key=lambda one: left[one].rank, default=None)
    winners = {child: tournament(child, left) for child in node.children}
    found = [(child, one) for child, one in winners.items() if one is not None]

    def place(pair):
        child, one = pair
        contender = left[one]
        contender.node.add_all(contender.usage)
        over = child.usage.get(CPU, 0) > child.subtree.get(CPU, 0)
        key = (over, Shares().of(child), contender.rank)
        contender.node.remove_all(contender.usage)
        return key

    return min(found, key=place)[1] if found else None


@settings(max_examples=examples(100))
@given(weights, heads)
def test_shares_follow_from_a_recount(weights, admitted):
    """Whatever came and went, the shares are those of a state built from what is held now."""
    queues = [queue(n, "1", p, weight=w) for n, p, w in zip("abcdef", "llrrll", weights, strict=True)]
    cohorts = [cohort("l", "2", "root"), cohort("r", None, "root", "2"), cohort("root", "9")]
    state = scheduler_state(queues, cohorts)
    for i, (name, cpu, _) in enumerate(admitted):
        admit(state, name, f"h{i}:{cpu}")
    for i in range(0, len(admitted), 2):
        state.release(f"h{i}")
    again = scheduler_state(queues, cohorts)
    for holding in state.holdings.values():
        again.hold(holding)
    for name in [*"abcdef", "l", "r", "root"]:
        assert share(state, name) == share(again, name)


def test_keys_order_the_children_of_a_cohort_as_their_shares_do():
    compared = 0
    for world, seed in worlds(150, "keys"):
        state, shares = state_of(world), Shares()
        nodes = {node for queue in state.queues.values() for node in queue.node.path()}
        for parent in nodes:
            for one, other in combinations(parent.children, 2):
                of, key_of = (shares.of(one), shares.of(other)), (shares.key_of(one), shares.key_of(other))
                assert (of[0] < of[1], of[0] == of[1]) == (key_of[0] < key_of[1], key_of[0] == key_of[1]), seed
                compared += of[0] != of[1]
    assert compared > 100

"""Quota arithmetic: what is available, and what lies where."""

import sys
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from job_controller.quantities import INT64_MAX
from queue_manager.scheduling.quota_tree import FlavorResource, Quota, QuotaNode, link, set_quotas, unlent, unlink
from tests.examples import examples

FR = FlavorResource("default", "cpu")


def cohort(*quotas: Quota) -> list[QuotaNode]:
    root = QuotaNode("cohort")
    nodes = [QuotaNode(f"cq{i}", {FR: quota}) for i, quota in enumerate(quotas)]
    for node in nodes:
        link(node, root)
    return nodes


def test_alone_a_queue_has_its_nominal_quota():
    node = QuotaNode("cq", {FR: Quota(5)})
    node.add(FR, 3)
    assert (node.available(FR), node.potential(FR)) == (2, 5)


def test_lowered_quota_makes_the_available_amount_negative():
    node = QuotaNode("cq", {FR: Quota(2)})
    node.add(FR, 3)
    assert node.available(FR) == -1


def test_a_queue_borrows_what_others_do_not_use():
    a, b = cohort(Quota(2), Quota(3))
    a.add(FR, 4)
    assert (a.available(FR), b.available(FR)) == (1, 1)


def test_the_borrowing_limit_bounds_borrowing():
    a, _ = cohort(Quota(2, borrowing_limit=1), Quota(9))
    assert (a.available(FR), a.potential(FR)) == (3, 3)


def test_the_lending_limit_keeps_the_rest_at_home():
    a, b = cohort(Quota(2), Quota(9, lending_limit=4))
    assert a.available(FR) == 6
    b.add(FR, 5)
    assert a.available(FR) == 6


def test_borrow_level_is_the_height_of_the_lowest_subtree_that_fits():
    a, _ = cohort(Quota(2), Quota(9))
    assert (a.borrow_level(FR, 2), a.borrow_level(FR, 3)) == (0, 1)


quotas = st.builds(Quota, st.integers(0, 20), st.none() | st.integers(0, 20), st.none() | st.integers(0, 20)).map(
    lambda q: Quota(q.nominal, q.borrowing_limit, None if q.lending_limit is None else min(q.lending_limit, q.nominal))
)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(quotas, min_size=1, max_size=4), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 15)), max_size=20)
)
def test_what_fits_never_exceeds_any_limit_and_giving_it_back_leaves_nothing(limits, requests):
    """Admitted usage stays within quota, and removal is exact."""
    nodes = cohort(*limits)
    root = nodes[0].root
    given_out = []
    for i, amount in requests:
        node = nodes[i % len(nodes)]
        assert node.available(FR) <= node.potential(FR)
        if amount <= node.available(FR):
            node.add(FR, amount)
            given_out.append((node, amount))
    used = [node.usage.get(FR, 0) for node in nodes]
    assert sum(used) <= sum(limit.nominal for limit in limits)
    for node, amount in zip(nodes, used, strict=True):
        limit = node.quotas[FR]
        assert limit.borrowing_limit is None or amount <= limit.nominal + limit.borrowing_limit
    for i, node in enumerate(nodes):  # no queue uses what another one does not lend
        lent = [max(0, min(n.nominal, n.nominal if n.lending_limit is None else n.lending_limit)) for n in limits]
        assert used[i] <= node.quotas[FR].nominal + sum(lent[:i] + lent[i + 1 :])
    for node, amount in given_out[::-1]:
        node.remove(FR, amount)
    assert [node.usage.get(FR, 0) for node in [*nodes, root]] == [0] * (len(nodes) + 1)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(quotas, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 9)), max_size=20)
)
def test_the_cohort_counts_what_its_queues_use_beyond_what_they_keep_for_themselves(limits, changes):
    """Whatever is taken and given back, in whatever order and in whatever parts."""
    nodes = cohort(*limits)
    for i, amount in changes:
        node = nodes[i % len(nodes)]
        if amount > 0:
            node.add_all({FR: amount})
        else:
            node.remove_all({FR: min(-amount, node.usage.get(FR, 0))})
        beyond = [max(0, node.usage.get(FR, 0) - node.local_quota(FR)) for node in nodes]
        assert nodes[0].root.usage.get(FR, 0) == sum(beyond)


def test_a_queue_keeps_for_itself_what_it_does_not_lend():
    a, b, c = cohort(Quota(5), Quota(5, lending_limit=2), Quota(5, lending_limit=9))
    assert [node.local_quota(FR) for node in (a, b, c)] == [0, 3, 0]
    b.add(FR, 1)
    assert [node.local_available(FR) for node in (a, b, c)] == [0, 2, 0]


def test_a_borrowing_limit_counts_what_is_borrowed_already_and_not_what_is_kept():
    a, _ = cohort(Quota(4, borrowing_limit=3, lending_limit=1), Quota(9))
    assert (a.available(FR), a.potential(FR)) == (7, 7)
    a.add(FR, 2)
    assert a.available(FR) == 5
    a.add(FR, 4)
    assert a.available(FR) == 1


def chain(*names: str, **quotas: Quota) -> list[QuotaNode]:
    """Nodes from the root down; the last is a ClusterQueue."""
    own = ({FR: quotas[name]} if name in quotas else {} for name in names)
    nodes = [QuotaNode(name, quota, is_cohort=name != names[-1]) for name, quota in zip(names, own, strict=True)]
    for parent, child in pairwise(nodes):
        link(child, parent)
    return nodes


def test_the_height_is_that_of_the_highest_branch_and_follows_the_links():
    root, middle, low, high = QuotaNode("root"), QuotaNode("middle"), QuotaNode("low"), QuotaNode("high")
    link(low, middle)
    link(middle, root)
    link(high, root)
    assert [node.height for node in (root, middle, low, high)] == [2, 1, 0, 0]
    assert low.root is root
    unlink(low)
    assert [node.height for node in (root, middle)] == [1, 0]
    unlink(middle)
    unlink(high)
    assert root.height == 0


def test_a_queue_without_quota_borrows_through_two_levels():
    root, _, cq = chain("root", "child", "cq", root=Quota(2000))
    assert (cq.available(FR), cq.potential(FR), cq.borrow_level(FR, 1000)) == (2000, 2000, 2)
    cq.add(FR, 1000)
    assert (cq.available(FR), root.usage[FR]) == (1000, 1000)


def test_the_limits_of_a_cohort_bound_its_whole_subtree():
    root, team, cq = chain("root", "team", "cq", team=Quota(4, borrowing_limit=3, lending_limit=1), cq=Quota(2))
    other = QuotaNode("other", {FR: Quota(10)})
    link(other, root)
    assert (team.subtree[FR], team.local_quota(FR), root.subtree[FR]) == (6, 5, 11)
    assert (cq.potential(FR), other.potential(FR)) == (9, 11)
    cq.add(FR, 7)
    assert (root.usage[FR], cq.available(FR), other.available(FR)) == (2, 2, 9)
    assert cq.borrow_level(FR, 1) == 2


def test_a_subtree_that_holds_the_request_is_not_left_to_borrow():
    *_, cq = chain("root", "team", "cq", root=Quota(9), team=Quota(3), cq=Quota(1))
    assert [cq.borrow_level(FR, amount) for amount in (1, 4, 5, 99)] == [0, 1, 2, 2]


def test_amounts_saturate_at_64_bits_and_usage_stays_exact():
    nodes = cohort(*[Quota(INT64_MAX)] * 3)
    assert (nodes[0].available(FR), nodes[0].potential(FR)) == (INT64_MAX, INT64_MAX)
    for node in nodes:
        node.add(FR, INT64_MAX)
    assert nodes[0].available(FR) == 0
    for node in nodes:
        node.remove(FR, INT64_MAX)
    assert (nodes[0].root.usage[FR], nodes[0].available(FR)) == (0, INT64_MAX)


def test_a_limit_at_64_bits_does_not_overflow():
    a, _ = cohort(Quota(5, borrowing_limit=INT64_MAX, lending_limit=INT64_MAX), Quota(7, INT64_MAX, 0))
    assert (a.available(FR), a.potential(FR)) == (5, 5)


def test_a_chain_deeper_than_the_stack_of_python_is_computed():
    depth = sys.getrecursionlimit() + 100
    nodes = chain(*map(str, range(depth)), **{"0": Quota(5)})
    nodes[-1].add(FR, 4)
    assert (nodes[-1].available(FR), nodes[-1].borrow_level(FR, 1), nodes[0].usage[FR]) == (1, depth - 1, 4)
    assert nodes[-1].potential(FR) == 5
    assert unlent(nodes[-1], FR, 6) == []
    set_quotas(nodes[-1], {FR: Quota(1)})
    assert nodes[-1].available(FR) == 2
    nodes[-1].remove(FR, 4)
    assert nodes[0].usage[FR] == 0


def tree(limits: list[Quota]) -> list[QuotaNode]:
    """A root with a cohort and a ClusterQueue, and two ClusterQueues in the cohort."""
    root, middle, low, other, high = (QuotaNode(str(i), {FR: quota}) for i, quota in enumerate(limits))
    for child, parent in ((middle, root), (high, root), (low, middle), (other, middle)):
        link(child, parent)
    return [root, middle, low, other, high]


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(quotas, min_size=5, max_size=5), st.integers(0, 60), st.sampled_from([2, 4]))
def test_the_lending_limits_that_are_named_suffice_and_none_is_named_in_vain(limits, amount, place):
    def fits(raised: set[int]) -> bool:
        opened = [Quota(q.nominal, q.borrowing_limit) if i in raised else q for i, q in enumerate(limits)]
        return tree(opened)[place].potential(FR) >= amount

    nodes = tree(limits)
    named = {nodes.index(each) for each in unlent(nodes[place], FR, amount)}
    if fits(set()) or not fits({0, 1, 2, 3, 4}):
        assert named == set()
    else:
        assert fits(named)
        assert not any(fits(named - {each}) for each in named)


def test_a_lending_limit_that_need_not_be_raised_is_not_named():
    limits = [Quota(2), Quota(3, 4, 1), Quota(4, 6, 2), Quota(2), Quota(10, None, 3)]
    _, middle, low, other, high = tree(limits)
    assert unlent(other, FR, 12) == [low]
    assert unlent(high, FR, 14) == [middle]

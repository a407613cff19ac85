"""The victims of a preemptor, with the reason of each: policies, order, attempts, what is put back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_manager.scheduling.preemption_candidates import is_hopeless
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.victim_search import MOST_READ, find_victims
from tests.examples import examples
from tests.unit.queueing.builders import T0
from tests.unit.queueing.builders import cohort as a_cohort
from tests.unit.scheduling.preemption_cases import CPU, preemptor, queue, run, state, usage_of, victims

OWN, RECLAIMED, BORROWING = "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing"


# --- within the ClusterQueue -------------------------------------------------------------------------------


def test_three_small_ones_run_and_the_smallest_set_of_the_lowest_priorities_goes():
    """As Kueue in the recorded scenario h07: of p1 (1 cpu), p2 (2), p3 (1) only p2 goes, p1 is put back."""
    s = state(queue(within="LowerPriority"))
    run(s, "p1", cpu=1, priority=1), run(s, "p2", cpu=2, priority=2), run(s, "p3", cpu=1, priority=3)
    assert victims(s, cpu=2) == [("p2", OWN)]
    assert victims(s, cpu=3) == [("p1", OWN), ("p2", OWN)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("Never", [], id="never"),
        pytest.param("LowerPriority", ["lower"], id="lower"),
        pytest.param("LowerOrNewerEqualPriority", ["lower", "newer"], id="lower or newer equal"),
    ],
)
def test_the_policy_of_the_cluster_queue_says_who_may_go(policy, expected):
    for name, priority, created in [("lower", 4, 1), ("newer", 5, 60), ("same time", 5, 50), ("older", 5, 1)]:
        s = state(queue(within=policy, cpu="1"))
        run(s, name, priority=priority, created=created)
        found = victims(s, priority=5, created=50)
        assert found == ([(name, OWN)] if name in expected else []), name


def test_a_higher_priority_is_never_a_victim_in_the_own_cluster_queue():
    s = state(queue(within="LowerOrNewerEqualPriority"))
    run(s, "higher", cpu=4, priority=101, created=99)
    assert victims(s) == []


ORDERS = [
    pytest.param([{"priority": 2}, {"priority": 1}], "w1", id="lower priority"),
    pytest.param([{"reserved": 1}, {"reserved": 2}], "w1", id="later reservation"),
    pytest.param([{"reserved": 1.2}, {"reserved": 1.9}], "w0", id="whole seconds, then uid"),
    pytest.param([{"created": 1}, {"created": 2}], "w1", id="later queue time"),
    pytest.param([{"created": 2, "reserved": 4}, {"created": 1, "reserved": 5}], "w1", id="reservation comes first"),
    pytest.param([{"arrival": 7}, {"arrival": 10}], "w1", id="later arrival in the second of the queue time"),
    pytest.param([{"created": 1, "arrival": 10}, {"created": 2, "arrival": 7}], "w1", id="queue time before arrival"),
    pytest.param([{"priority": 1}, {"priority": 2, "evicted": True}], "w1", id="evicted already"),
]


@pytest.mark.parametrize(("running", "first"), ORDERS)
def test_the_order_of_victims_is_total(running, first):
    for order in (running, running[::-1]):
        s = state(queue(within="LowerPriority", cpu="2"))
        for each in order:
            run(s, f"w{running.index(each)}", **each)
        assert victims(s) == [(first, OWN)]


def test_no_victim_is_chosen_if_all_together_do_not_suffice():
    s = state(queue(within="LowerPriority", cpu="4"))
    run(s, "low", cpu=2), run(s, "high", cpu=2, priority=200)
    before = usage_of(s)
    assert victims(s, cpu=3) == []
    assert usage_of(s) == before


def test_a_preemptor_whose_own_queue_holds_too_little_is_hopeless_without_a_search():
    """Most heads of a full cohort are such, and a search costs more than all the rest of their attempt."""
    within = {"cpu": "2", "cohort": "team", "within": "LowerPriority", "reclaim": "Any"}
    s = state(queue("a", **within), queue("b", cpu="2", cohort="team"))
    run(s, "own", "a", cpu=2), run(s, "other", "b", cpu=2)
    assert is_hopeless(s, preemptor(s, "a", cpu=3))
    assert not is_hopeless(s, preemptor(s, "a", cpu=2))
    assert is_hopeless(s, preemptor(s, "a", cpu=2, priority=0))


def test_a_hopeless_preemptor_is_refused_without_removing_usage_on_trial():
    """A search removes candidates from the quota tree until the preemptor fits, and adds them again."""

    class Untouched(dict[FlavorResource, int]):
        def __setitem__(self, *_: object) -> None:
            raise AssertionError("the usage was changed on trial")

    s = state(queue("a", cpu="2", cohort="team", within="LowerPriority", reclaim="Any"), queue("b", cohort="team"))
    run(s, "own", "a", cpu=2), run(s, "other", "b", cpu=4)
    hopeless, hopeful = preemptor(s, "a", cpu=3), preemptor(s, "a", cpu=2)
    node = s.queues["a"].node
    node.usage = Untouched(node.usage)
    assert find_victims(s, hopeless, T0) == ()
    with pytest.raises(AssertionError, match="on trial"):
        find_victims(s, hopeful, T0)


def test_a_preemptor_that_may_reclaim_is_not_hopeless():
    s = state(queue("a", cpu="2", cohort="team", reclaim="Any"), queue("b", cpu="2", cohort="team"))
    run(s, "loan", "b", cpu=4)
    assert not is_hopeless(s, preemptor(s, "a", cpu=2))
    assert is_hopeless(s, preemptor(s, "a", cpu=3))


@pytest.mark.parametrize("running", [MOST_READ + 1, MOST_READ + 2])
def test_a_preemptor_needs_more_victims_than_are_read_before_all_are_added_up(running):
    s = state(queue(within="LowerPriority", cpu=str(MOST_READ + 2)))
    for number in range(running):
        run(s, f"low-{number}")
    run(s, "high", cpu=MOST_READ + 2 - running, priority=100)
    found = victims(s, cpu=MOST_READ + 2)
    assert len(found) == (MOST_READ + 2 if running == MOST_READ + 2 else 0)


def test_too_few_candidates_elsewhere_are_refused_after_the_first_hundred():
    """What is read of 1000 candidates, all of which the preemptor would need and one more."""
    s = state(queue("a", cpu="1000", cohort="team", reclaim="LowerPriority"), queue("b", cpu="0", cohort="team"))
    for number in range(1000):
        run(s, f"w{number}", "b", priority=100 if number == 0 else 0)
    read = []
    taken = s.queues["b"].holdings

    class Counted(dict):
        def __getitem__(self, uid):
            read.append(uid)
            return super().__getitem__(uid)

    s.queues["b"].holdings = Counted(taken)
    assert find_victims(s, preemptor(s, "a", cpu=1000), T0) == ()
    assert len(read) < 2 * MOST_READ
    assert len(find_victims(s, preemptor(s, "a", cpu=999), T0)) == 999


def test_a_workload_that_uses_other_quota_is_no_candidate():
    quotas = {"default": {"cpu": "2"}, "spot": {"cpu": "2"}}
    s = state(queue(within="LowerPriority", quotas=quotas), flavors=("default", "spot"))
    run(s, "elsewhere", usage={("spot", "cpu"): 2000})
    run(s, "here", cpu=2, priority=50)
    assert victims(s, cpu=1) == [("here", OWN)]


def test_victims_of_other_preemptors_are_not_chosen():
    s = state(queue(within="LowerPriority", cpu="2"))
    taken = run(s, "taken")
    run(s, "other", priority=9)
    s.queues["cq"].node.remove_all(taken.usage)
    p = preemptor(s, cpu=2)
    taken_victims = type(p)(p.info, p.queue, p.usage, p.needs, {taken.uid})
    assert [v.holding.key.name for v in find_victims(s, taken_victims, T0)] == ["other"]


# --- within a flat cohort ----------------------------------------------------------------------------------


def cohort(reclaim="Any", within="Never", borrowing=None, cpu="2", **more):
    """Queue a, of the preemptor; b borrows, c is within its quota. All have two cpus."""
    a = queue("a", cpu=cpu, cohort="team", within=within, reclaim=reclaim, borrowing=borrowing, **more)
    return state(a, queue("b", cpu="2", cohort="team"), queue("c", cpu="2", cohort="team"))


@pytest.mark.parametrize(
    ("policy", "priority", "goes"),
    [("Never", 0, False), ("LowerPriority", 99, True), ("LowerPriority", 100, False), ("Any", 999, True)],
)
def test_quota_that_was_lent_is_reclaimed_by_policy(policy, priority, goes):
    s = cohort(policy)
    run(s, "loan", "b", cpu=4, priority=priority), run(s, "own", "c", cpu=2)
    assert victims(s, queue="a", cpu=2) == ([("loan", RECLAIMED)] if goes else [])


def test_only_queues_above_their_quota_lose_workloads_and_only_down_to_it():
    s = cohort()
    for i in range(4):
        run(s, f"b{i}", "b", reserved=i)
    run(s, "own", "c", cpu=2)
    assert victims(s, queue="a", cpu=1) == [("b3", RECLAIMED)]
    assert victims(s, queue="a", cpu=2) == [("b3", RECLAIMED), ("b2", RECLAIMED)]


def test_others_go_before_the_own_queue_whatever_their_priority():
    s = cohort(within="LowerPriority")
    run(s, "mine", "a", priority=1), run(s, "loan", "b", cpu=3, priority=9), run(s, "own", "c", cpu=2)
    assert victims(s, queue="a", cpu=1) == [("loan", RECLAIMED)]


def test_an_evicted_one_of_the_own_queue_goes_before_others_that_are_not():
    s = cohort(within="LowerPriority")
    run(s, "mine", "a", priority=1, evicted=True), run(s, "loan", "b", cpu=3), run(s, "own", "c", cpu=2)
    assert victims(s, queue="a", cpu=1) == [("mine", OWN)]


def test_a_preemptor_that_would_borrow_takes_only_from_its_own_queue():
    """Else borrowers would evict each other in turn."""
    s = cohort(within="LowerPriority")
    run(s, "mine", "a", cpu=2, priority=1), run(s, "loan", "b", cpu=2), run(s, "loan2", "b", cpu=2, reserved=1)
    assert victims(s, queue="a", cpu=3) == []
    assert victims(s, queue="a", cpu=2) == [("mine", OWN)]


def test_with_quota_left_of_its_own_it_reclaims_before_it_borrows():
    s = cohort(within="LowerPriority")
    run(s, "mine", "a", priority=1), run(s, "loan", "b", cpu=3), run(s, "own", "c", cpu=2)
    assert victims(s, queue="a", cpu=1) == [("loan", RECLAIMED)]
    assert victims(s, queue="a", cpu=2) == [("loan", RECLAIMED), ("mine", OWN)]


@pytest.mark.parametrize("borrowing", [None, {"policy": "Never"}])
def test_it_reclaims_rather_than_borrow_in_place_of_its_own_workloads(borrowing):
    s = cohort(within="LowerPriority", cpu="3", borrowing=borrowing)
    run(s, "first", "a", priority=1), run(s, "second", "a", priority=2)
    run(s, "loan", "b", cpu=3), run(s, "own", "c", cpu=2)
    assert victims(s, queue="a", cpu=2) == [("loan", RECLAIMED), ("first", OWN)]


BORROWERS = [
    pytest.param({"policy": "LowerPriority"}, 10, [("loan", BORROWING)], id="any lower priority"),
    pytest.param({"policy": "LowerPriority"}, 100, [], id="not an equal one"),
    pytest.param({"policy": "LowerPriority", "maxPriorityThreshold": 9}, 10, [], id="above the threshold"),
    pytest.param({"policy": "LowerPriority", "maxPriorityThreshold": 10}, 10, [("loan", BORROWING)], id="threshold"),
    pytest.param({"policy": "Never"}, 10, [], id="never"),
    pytest.param(None, 10, [], id="unset"),
]


@pytest.mark.parametrize(("policy", "priority", "expected"), BORROWERS)
def test_a_borrower_may_preempt_borrowers_of_low_priority(policy, priority, expected):
    """As Kueue in the recorded scenario h08: 2 cpus are wanted, one of them borrowed."""
    s = state(
        queue("cq1", "1", "co"),
        queue("cq2", "1", "co", reclaim="Any", borrowing=policy),
        queue("cq3", "1", "co"),
    )
    run(s, "a1", "cq1", priority=priority)
    run(s, "loan", "cq1", cpu=2, priority=priority, reserved=1)
    assert victims(s, queue="cq2", cpu=2) == expected


def test_above_the_threshold_quota_is_still_reclaimed_without_borrowing():
    s = cohort("Any", borrowing={"policy": "LowerPriority", "maxPriorityThreshold": 5})
    run(s, "loan", "b", cpu=4, priority=50), run(s, "own", "c", cpu=2)
    assert victims(s, queue="a", cpu=2) == [("loan", RECLAIMED)]
    assert victims(s, queue="a", cpu=3) == []


def test_a_queue_with_a_lending_limit_keeps_the_rest():
    lender = queue("c", cohort="team", quotas={"default": {"cpu": {"nominalQuota": "4", "lendingLimit": "2"}}})
    s = state(queue("a", "2", "team", reclaim="Any"), queue("b", "0", "team"), lender)
    run(s, "loan", "b", cpu=2), run(s, "own", "c", cpu=4)
    assert victims(s, queue="a", cpu=2) == [("loan", RECLAIMED)]
    assert victims(s, queue="a", cpu=3) == []


@pytest.mark.parametrize(
    ("before", "priority", "evicted", "goes"),
    [(1, 100, False, True), (2, 100, False, False), (2, 99, False, True), (2, 100, True, True)],
)
def test_a_workload_reclaims_from_an_equal_or_higher_priority_twice_and_then_waits(before, priority, evicted, goes):
    """Else policies that contradict each other could make Workloads evict each other in turn without end."""
    s = cohort()
    loan = run(s, "loan", "b", cpu=4, priority=priority, evicted=evicted)
    run(s, "own", "c", cpu=2)
    p = preemptor(s, queue="a")
    again = type(p)(p.info, p.queue, p.usage, p.needs, preempted={loan.uid: before})
    assert bool(find_victims(s, again, T0)) is goes


# --- in a tree of cohorts ----------------------------------------------------------------------------------


def halves(*more, borrowing=None):
    """Two cohorts below a root, of queues with two cpus: a, b and `more` in the left one, c and d in the right one."""
    a = queue("a", "2", "left", reclaim="Any", borrowing=borrowing)
    left = [a, *(queue(name, "2", "left") for name in ("b", *more))]
    s = state(*left, queue("c", "2", "right"), queue("d", "2", "right"))
    for name in ("left", "right"):
        s.set_cohort(a_cohort(name, "root"))
    return s


def fill(s, name, count, **more):
    for i in range(count):
        run(s, f"{name}{i}", name, reserved=i, **more)


def test_a_subtree_reclaims_what_it_has_lent_whatever_the_priority():
    """a has no quota left of its own, but its cohort has lent two cpus to d: a is entitled to them."""
    s = halves()
    fill(s, "a", 2), fill(s, "d", 6, priority=999)
    assert victims(s, queue="a", cpu=1) == [("d5", RECLAIMED)]
    assert victims(s, queue="a", cpu=2) == [("d5", RECLAIMED), ("d4", RECLAIMED)]


def test_beyond_the_quota_of_its_cohort_it_is_entitled_to_nothing():
    s = halves()
    fill(s, "a", 2), fill(s, "d", 6)
    assert victims(s, queue="a", cpu=3) == []


def test_a_cohort_within_its_quota_loses_nothing_though_a_queue_in_it_borrows():
    s = halves()
    fill(s, "a", 2), fill(s, "b", 2), fill(s, "d", 4)
    assert victims(s, queue="a", cpu=1) == []


def test_what_a_cohort_has_lent_comes_back_before_its_queues_take_from_each_other():
    """a and b borrow from e, d from the whole left cohort. By policy a may not take from b while it borrows itself."""
    s = halves("e")
    fill(s, "a", 2), fill(s, "b", 3), fill(s, "d", 5)
    assert victims(s, queue="a", cpu=1) == [("d4", RECLAIMED)]


def test_entitled_victims_go_before_borrowers_of_low_priority():
    s = halves("e", borrowing={"policy": "LowerPriority"})
    fill(s, "a", 2), fill(s, "b", 3, priority=1), fill(s, "d", 5, priority=2)
    assert victims(s, queue="a", cpu=1) == [("d4", RECLAIMED)]
    assert victims(s, queue="a", cpu=2) == [("b2", BORROWING), ("d4", BORROWING)]
    assert victims(s, queue="a", cpu=2, priority=2) == []


# --- whatever is running -----------------------------------------------------------------------------------

POLICIES = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
limits = st.none() | st.integers(0, 4)
queues_of_a_cohort = st.lists(st.tuples(st.integers(0, 4), limits, limits), min_size=1, max_size=4)
running_workloads = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=12
)
borrowing_policies = st.none() | st.fixed_dictionaries(
    {"policy": st.sampled_from(["Never", "LowerPriority"]), "maxPriorityThreshold": st.integers(0, 3)}
)


def random_state(quotas, running, within, reclaim, borrowing, order=1):
    def quota(nominal, borrow, lend):
        limits = {"borrowingLimit": borrow, "lendingLimit": None if lend is None else min(lend, nominal)}
        return {"nominalQuota": str(nominal), **{k: str(v) for k, v in limits.items() if v is not None}}

    s = state(
        *(
            queue(
                f"q{i}",
                cohort="team",
                within=within,
                reclaim=reclaim,
                borrowing=borrowing if reclaim != "Never" else None,
                quotas={"default": {"cpu": quota(*each)}},
            )
            for i, each in enumerate(quotas)
        )
    )
    for i, (where, cpu, priority, reserved, evicted) in list(enumerate(running))[::order]:
        name = f"q{where % len(quotas)}"
        if order < 0 or cpu * 1000 <= s.queues[name].node.available(CPU):
            run(s, f"w{i}", name, cpu=cpu, priority=priority, reserved=reserved, created=i, evicted=evicted)
    return s


@settings(max_examples=examples(500), deadline=None)
@given(
    queues_of_a_cohort,
    running_workloads,
    st.sampled_from(POLICIES),
    st.sampled_from(["Never", "LowerPriority", "Any"]),
    borrowing_policies,
    st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 12)),
)
def test_victims_suffice_and_none_can_be_spared_and_policies_are_kept(quotas, running, within, reclaim, borrowing, who):
    """The search leaves the quota tree unchanged, and its result does not depend on the order of arrival."""
    s = random_state(quotas, running, within, reclaim, borrowing)
    cpu, priority, created = who
    node = s.queues["q0"].node
    before = usage_of(s)
    p = preemptor(s, queue="q0", cpu=cpu, priority=priority, created=created)
    if not p.needs:
        return
    found = find_victims(s, p, T0)
    assert usage_of(s) == before
    shuffled = state(*(each.queue for each in s.queues.values()))
    for holding in sorted(s.holdings.values(), key=lambda h: h.uid, reverse=True):
        shuffled.hold(holding)
    again = preemptor(shuffled, queue="q0", cpu=cpu, priority=priority, created=created)
    assert find_victims(shuffled, again, T0) == found

    def fits(gone, borrowing):
        for victim in gone:
            s.queues[victim.holding.cluster_queue].node.remove_all(victim.holding.usage)
        borrows = node.usage.get(CPU, 0) + cpu * 1000 > node.subtree[CPU]
        result = cpu * 1000 <= node.available(CPU) and (borrowing or not borrows)
        for victim in gone:
            s.queues[victim.holding.cluster_queue].node.add_all(victim.holding.usage)
        return result

    if found:
        assert fits(found, True)
        assert any(
            fits(found, borrowing)
            and not any(fits([v for v in found if v is not spared], borrowing) for spared in found)
            for borrowing in (True, False)
        )
    for holding, reason in found:
        if holding.cluster_queue == "q0":
            assert reason == OWN
            assert within != "Never"
            assert (holding.priority, -holding.queued_at.timestamp()) < (priority, -p.info.queued_at.timestamp())
            assert within == "LowerOrNewerEqualPriority" or holding.priority < priority
        else:
            assert reclaim == "Any" or (reclaim == "LowerPriority" and holding.priority < priority)
            assert reason in (RECLAIMED, BORROWING)
            assert reason == RECLAIMED or holding.priority <= min(borrowing["maxPriorityThreshold"], priority - 1)

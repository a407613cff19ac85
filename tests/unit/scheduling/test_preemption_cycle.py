"""Cycles that preempt: outcomes with Kueue's words, flavors, reservations, conflicts between heads."""

import pytest

from queue_manager.queueing.outcomes import assume
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.cycle import Admit, Preempt, Refuse, Retry, run_cycle
from queue_manager.scheduling.holdings import PreemptedFor
from queue_manager.scheduling.quota_state import MOST_RECLAIMS
from tests.unit.queueing.builders import T0, condition, flavor, pending
from tests.unit.scheduling.preemption_cases import queue, run, state, usage_of

POD_SET = "couldn't assign flavors to pod set main: "
NO_LONGER = "Workload no longer fits after processing another workload"
ONE_OF_ITS_OWN = {"nominalQuota": "1", "borrowingLimit": "0"}
WAITS = "WaitingForPreemptedWorkloads"


def try_one(s, info, name="cq"):
    before = usage_of(s)
    (outcome,) = run_cycle(s, [(name, info)], T0)
    assert usage_of(s) == before
    return outcome


def names(outcome):
    return [v.holding.key.name for v in outcome.victims]


def carry_out(s, outcome):
    """What the shell does with a Preempt."""
    s.reserve(outcome.reservation)
    for victim in outcome.victims:
        s.mark_evicted(victim.holding.uid)


def head(name, cpu, queue="cq", **more):
    return queue, pending(name, requests={"cpu": str(cpu)}, **more)


# --- outcomes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "victims"), [(2, ["p2"]), (3, ["p1", "p2"])])
def test_a_preemptor_says_how_many_it_waits_for(wanted, victims):
    """The words of the recorded scenarios h01 and h07."""
    s = state(queue(within="LowerPriority"))
    for name, cpu, priority in [("p1", 1, 1), ("p2", 2, 2), ("p3", 1, 3)]:
        run(s, name, cpu=cpu, priority=priority)
    outcome = try_one(s, pending("high", requests={"cpu": str(wanted)}, priority=100))
    assert isinstance(outcome, Preempt)
    assert names(outcome) == victims
    missing = f"insufficient unused quota for cpu in flavor default, {wanted} more needed"
    suffix = f". Pending the preemption of {len(victims)} workload(s)"
    assert (outcome.reason, outcome.message) == (WAITS, POD_SET + missing + suffix)
    assert outcome.retry is Retry.PREEMPTION
    assert outcome.reservation.victims == {f"uid-{name}": "InClusterQueue" for name in victims}


def test_without_a_policy_a_higher_priority_waits():
    """The words of the recorded scenario h02."""
    s = state(queue(cpu="1"))
    run(s, "low")
    outcome = try_one(s, pending("high", priority=100))
    missing = "insufficient unused quota for cpu in flavor default, 1 more needed"
    assert isinstance(outcome, Refuse)
    assert (outcome.reason, outcome.message) == ("WaitingForQuota", POD_SET + missing)
    assert outcome.retry is Retry.CHANGE


def test_a_workload_above_its_nominal_quota_does_not_preempt_borrowers():
    """The recorded scenario h08, once its preemptor is admitted: the victim waits."""
    s = state(queue("cq1", "1", "co"), queue("cq2", "1", "co", reclaim="LowerPriority"), queue("cq3", "1", "co"))
    run(s, "a1", "cq1"), run(s, "b", "cq2", cpu=2, priority=100)
    outcome = try_one(s, pending("a2", requests={"cpu": "2"}), "cq1")
    missing = "insufficient unused quota for cpu in flavor default, 2 more needed"
    assert (outcome.reason, outcome.message) == ("WaitingForQuota", POD_SET + missing)


@pytest.mark.parametrize(("within", "expected"), [("LowerPriority", ["low"]), ("Never", None)])
def test_a_request_above_the_nominal_quota_preempts_within_its_queue(within, expected):
    """It borrows then. Without that policy there is nobody whom it may preempt."""
    s = state(queue("a", "2", "co", within=within, reclaim="Any"), queue("b", "2", "co"))
    run(s, "low", "a", cpu=2), run(s, "other", "b")
    outcome = try_one(s, pending("large", requests={"cpu": "3"}, priority=100, queue="a"), "a")
    assert (names(outcome) if isinstance(outcome, Preempt) else None) == expected


def test_a_request_above_the_nominal_quota_preempts_in_no_other_queue():
    """Its own victims do not suffice, and what it would reclaim from b it would borrow."""
    s = state(queue("a", "2", "co", within="LowerPriority", reclaim="Any"), queue("b", "2", "co"))
    run(s, "low", "a"), run(s, "borrower", "b", cpu=3)
    outcome = try_one(s, pending("large", requests={"cpu": "3"}, priority=100, queue="a"), "a")
    assert isinstance(outcome, Refuse)
    assert outcome.reason == "WaitingForQuota"


@pytest.mark.parametrize(("is_preempted", "most"), [(True, 2), (False, 4)])
def test_the_bound_of_reclaims_counts_since_the_last_stop_for_another_reason(is_preempted, most):
    """Each time its victim starts again when the preemptor has stopped: preempted, or since its pods are not ready."""
    s = state(queue("a", "1", "co", reclaim="Any"), queue("b", "1", "co"))
    info, count = pending("owner", queue="a"), 0
    for _ in range(4):
        victim = run(s, "borrower", "b", cpu=2, priority=9)
        outcome = try_one(s, info, "a")
        if isinstance(outcome, Preempt):
            carry_out(s, outcome)
            count += 1
        s.release(victim.uid)
        s.end_reservation(info.uid)
        run(s, "owner", "a")
        s.mark_evicted(info.uid, evicted=is_preempted)
        s.release(info.uid)
    assert count == most


def test_own_quota_passes_a_preemptor_as_often_as_it_may_be_reclaimed_from():
    """The preemptor may stop the owner each time, as it preempts while it borrows; so neither would wait for the other.

    Its victim stops for a long time, and the owner fits meanwhile.
    """
    s = state(queue("a", "1", "co", reclaim="Any"), queue("b", "3", "co", within="LowerPriority"))
    run(s, "victim", "b", cpu=3)
    carry_out(s, try_one(s, pending("large", requests={"cpu": "4"}, priority=9, queue="b"), "b"))
    owner, admitted = pending("owner", queue="a"), 0
    for _ in range(4):
        outcome = try_one(s, owner, "a")
        if isinstance(outcome, Admit):
            assume(s, Queues(), outcome, T0)
            admitted += 1
            s.mark_evicted(owner.uid)
            s.release(owner.uid)
    assert admitted == MOST_RECLAIMS
    s.end_reservation("uid-large")
    assert isinstance(try_one(s, owner, "a"), Admit)


# --- flavors -----------------------------------------------------------------------------------------------

TWO = {"f1": {"cpu": "1"}, "f2": {"cpu": "1"}}
FLAVORS = ("f1", "f2")


def two_flavors(first_used=True, second_used=False, **fungibility):
    """Queue cq with a cpu of either flavor, in a cohort that lends four of each; low Workloads use what it has."""
    fungibility = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor", **fungibility}
    lender = queue("lender", cohort="co", quotas={"f1": {"cpu": "4"}, "f2": {"cpu": "4"}})
    s = state(
        queue(cohort="co", within="LowerPriority", reclaim="Any", quotas=TWO, flavorFungibility=fungibility),
        lender,
        flavors=FLAVORS,
    )
    if first_used:
        run(s, "in-f1", usage={("f1", "cpu"): 1000})
    if second_used:
        run(s, "in-f2", usage={("f2", "cpu"): 1000})
    return s


def flavor_of(outcome):
    return outcome.assignment.pod_sets[0].flavors["cpu"]


@pytest.mark.parametrize(("when_can_borrow", "expected"), [("TryNextFlavor", "f2"), ("MayStopSearch", "f1")])
def test_rather_the_second_flavor_than_borrowing_in_the_first(when_can_borrow, expected):
    """The words of the recorded scenario x15."""
    s = two_flavors(whenCanBorrow=when_can_borrow)
    outcome = try_one(s, pending("b"))
    assert isinstance(outcome, Admit)
    assert flavor_of(outcome) == expected
    assert outcome.assignment.considered == "; Flavors considered: main: f1(Fit;borrow=1)"


def full_lender(s):
    run(s, "lent", "lender", usage={("f1", "cpu"): 4000})


@pytest.mark.parametrize(("when_can_preempt", "expected"), [("TryNextFlavor", Admit), ("MayStopSearch", Preempt)])
def test_rather_the_second_flavor_than_preemption_in_the_first(when_can_preempt, expected):
    s = two_flavors(whenCanPreempt=when_can_preempt)
    full_lender(s)
    outcome = try_one(s, pending("high", priority=9))
    assert isinstance(outcome, expected)
    short = "insufficient unused quota for cpu in flavor f1, 1 more needed"
    assert outcome.assignment.considered == f"; Flavors considered: main: f1(preemptionMode=Preempt;{short})"


@pytest.mark.parametrize(
    ("preference", "expected"), [({}, Admit), ({"preference": "PreemptionOverBorrowing"}, Preempt)]
)
def test_the_preference_decides_between_preemption_and_borrowing(preference, expected):
    """f1 needs preemption, f2 borrows."""
    s = two_flavors(second_used=True, whenCanBorrow="TryNextFlavor", **preference)
    full_lender(s)
    outcome = try_one(s, pending("high", priority=9))
    assert isinstance(outcome, expected)
    assert flavor_of(outcome) == ("f1" if expected is Preempt else "f2")


def test_reclaiming_is_better_than_preempting_in_the_own_queue():
    s = two_flavors(second_used=True)
    run(s, "lent", "lender", usage={("f1", "cpu"): 4000})
    run(s, "loan", "lender", usage={("f2", "cpu"): 4000}, priority=99)
    s.release("uid-in-f2")
    run(s, "loan2", "lender", usage={("f2", "cpu"): 1000}, reserved=5)
    outcome = try_one(s, pending("high", priority=9))
    assert isinstance(outcome, Preempt)
    assert (flavor_of(outcome), names(outcome)) == ("f2", ["loan2"])
    assert "f2(preemptionMode=Reclaim;insufficient" in outcome.assignment.considered


def test_if_no_victims_suffice_for_all_resources_of_a_flavor_the_next_one_is_tried():
    """In f1 memory is borrowed, and a borrower may not reclaim cpu. Either resource alone could be had.

    Kueue tries f2 in its next cycle.
    """
    stop = {"whenCanPreempt": "MayStopSearch"}
    quotas = {"f1": {"cpu": "2", "memory": "2"}, "f2": {"cpu": "2", "memory": "3"}}
    s = state(
        queue(cohort="co", reclaim="Any", quotas=quotas, flavorFungibility=stop),
        queue("other", cohort="co", quotas={"f1": {"cpu": "0", "memory": "1"}}),
        flavors=FLAVORS,
    )
    run(s, "loan", "other", usage={("f1", "cpu"): 2000})
    outcome = try_one(s, pending("both", requests={"cpu": "2", "memory": "3"}))
    assert isinstance(outcome, Admit)
    assert outcome.assignment.considered == (
        "; Flavors considered: main: f1(preemptionMode=NoCandidates;borrow=1;"
        "insufficient unused quota for cpu in flavor f1, 2 more needed)"
    )
    run(s, "mine", usage={("f2", "cpu"): 1000})
    refused = try_one(s, pending("both", requests={"cpu": "2", "memory": "3"}))
    assert isinstance(refused, Refuse)
    assert refused.message == POD_SET + ", ".join(
        f"insufficient unused quota for cpu in flavor {name}, {missing} more needed"
        for name, missing in [("f1", 2), ("f2", 1)]
    )
    assert isinstance(try_one(s, pending("cpu", requests={"cpu": "2"})), Preempt)


def test_another_group_keeps_its_flavor_while_the_next_ones_of_one_are_tried():
    """In f1 no victims suffice, as above; Kueue leaves g1 together with f1, and g2 has no quota."""
    groups = [
        {"f1": {"cpu": "2", "memory": "2"}, "f2": {"cpu": "2", "memory": "3"}},
        {"g1": {"gpu": "1"}, "g2": {"gpu": "0"}},
    ]
    s = state(
        queue(cohort="co", reclaim="Any", groups=groups, flavorFungibility={"whenCanPreempt": "MayStopSearch"}),
        queue("other", cohort="co", quotas={"f1": {"cpu": "0", "memory": "1"}}),
        flavors=(*FLAVORS, "g1", "g2"),
    )
    run(s, "loan", "other", usage={("f1", "cpu"): 2000})
    outcome = try_one(s, pending("all", requests={"cpu": "2", "memory": "3", "gpu": "1"}))
    assert isinstance(outcome, Admit)
    assert outcome.assignment.pod_sets[0].flavors == {"cpu": "f2", "memory": "f2", "gpu": "g1"}


def test_what_becomes_free_in_a_later_flavor_is_not_taken_while_victims_stop():
    """The search stops at f1, where victims stop. Kueue begins from f1 as well once it has preempted."""
    quotas = {name: {"cpu": "1"} for name in FLAVORS}
    stop = {"whenCanPreempt": "MayStopSearch"}
    s = state(queue(within="LowerPriority", quotas=quotas, flavorFungibility=stop), flavors=FLAVORS)
    run(s, "in-f1", usage={("f1", "cpu"): 1000})
    run(s, "in-f2", usage={("f2", "cpu"): 1000}, priority=50)
    high = pending("high", priority=9)
    outcome = try_one(s, high)
    carry_out(s, outcome)
    s.release("uid-in-f2")
    again = try_one(s, high)
    assert isinstance(again, Preempt)
    assert (flavor_of(again), names(again)) == ("f1", ["in-f1"])


def two_pod_sets(first, second, second_flavor):
    """A Workload of two pod sets with these cpus, the second of which tolerates only one flavor."""

    def pod_set(name, cpu, selector):
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "nodeSelector": selector}
        return {"name": name, "count": 1, "template": {"spec": spec}}

    selector = {"kind": second_flavor}
    return pending("two", spec={"podSets": [pod_set("a", first, {}), pod_set("b", second, selector)]})


def labelled_flavors(**policies):
    """Two cpus in each of three flavors, whose nodes have a label with the name of the flavor."""
    names = ("f1", "f2", "f3")
    s = state(queue(quotas={name: {"cpu": "2"} for name in names}, **policies))
    for name in names:
        s.flavors[name] = flavor(name, nodeLabels={"kind": name})
    return s


@pytest.mark.parametrize("taken", ["f1", "f2"])
def test_a_pod_set_moves_to_a_later_flavor_if_another_one_needs_the_first(taken):
    """Kueue continues after the last flavor that it has tried (LastAssignment), in its next cycle."""
    s = labelled_flavors()
    if taken == "f2":
        run(s, "runs", usage={("f2", "cpu"): 2000})
    outcome = try_one(s, two_pod_sets("1", "2", "f1"))
    assert isinstance(outcome, Admit)
    flavors = [p.flavors["cpu"] for p in outcome.assignment.pod_sets]
    assert flavors == (["f2", "f1"] if taken == "f1" else ["f3", "f1"])


def test_a_refusal_says_what_holds_whichever_flavors_the_pod_sets_have():
    """With pod set a in f1, b would exceed the quota; with a in f2 it only waits."""
    s = labelled_flavors()
    run(s, "runs", usage={("f1", "cpu"): 1000})
    refused = try_one(s, two_pod_sets("1", "2", "f1"))
    assert isinstance(refused, Refuse)
    assert refused.reason == "WaitingForQuota"
    assert "insufficient unused quota for cpu in flavor f1, 1 more needed" in refused.message


@pytest.mark.parametrize(("second", "reason"), [("1", "WaitingForQuota"), ("3", "ExceedsMaxQuota")])
def test_pod_sets_that_fit_in_different_flavors_wait_while_these_are_not_free(second, reason):
    """Only f3 is free for pod set a, and b, which needs it, would exceed its quota beside a."""
    s = labelled_flavors()
    for name in ("f1", "f2"):
        run(s, f"runs-in-{name}", usage={(name, "cpu"): 2000})
    refused = try_one(s, two_pod_sets("2", second, "f3"))
    assert isinstance(refused, Refuse)
    assert refused.reason == reason
    assert "in flavor f3, previously considered podsets requests (2)" in refused.message


def test_a_pod_set_without_quota_does_not_hide_that_the_next_one_exceeds_it():
    s = state(queue("cq", "1", "co"), queue("b", "4", "co"))
    run(s, "borrows", "b", cpu=4)
    refused = try_one(s, two_pod_sets("2", "4", "f1"))
    assert isinstance(refused, Refuse)
    assert refused.reason == "ExceedsMaxQuota"
    assert "previously considered podsets requests (2) + current podset request (4)" in refused.message


def test_the_pod_set_for_which_another_one_moves_begins_from_the_first_flavor():
    """While pod set a has what is free of f1, no flavor is free for b; then b takes f1."""
    s = labelled_flavors()
    run(s, "runs", usage={("f1", "cpu"): 1000})
    outcome = try_one(s, two_pod_sets("1", "1", "f1"))
    assert isinstance(outcome, Admit)
    assert [p.flavors["cpu"] for p in outcome.assignment.pod_sets] == ["f2", "f1"]


@pytest.mark.parametrize("policy", ["MayStopSearch", "TryNextFlavor"])
def test_a_pod_set_moves_to_a_later_flavor_though_all_were_tried(policy):
    """In each flavor it would borrow, so with TryNextFlavor all are tried, and the first is the best."""
    quotas = {name: {"cpu": {"nominalQuota": "1", "borrowingLimit": "2"}} for name in ("f1", "f2")}
    lent = {name: {"cpu": "4"} for name in ("f1", "f2")}
    fungibility = {"whenCanBorrow": policy}
    s = state(queue(quotas=quotas, cohort="co", flavorFungibility=fungibility), queue("b", cohort="co", quotas=lent))
    for name in ("f1", "f2"):
        s.flavors[name] = flavor(name, nodeLabels={"kind": name})
    outcome = try_one(s, two_pod_sets("2", "2", "f1"))
    assert isinstance(outcome, Admit)
    assert [p.flavors["cpu"] for p in outcome.assignment.pod_sets] == ["f2", "f1"]


# --- several heads -----------------------------------------------------------------------------------------


def lent_to_b(*loans, **more):
    """Queues a1 and a2 have lent two cpus each to b."""
    s = state(
        *(queue(name, "2", "team", reclaim="Any", **more) for name in ("a1", "a2")),
        queue("b", "0", "team"),
    )
    for i, cpu in enumerate(loans):
        run(s, f"b{i}", "b", cpu=cpu, reserved=i)
    return s


def test_two_preemptors_of_one_cycle_do_not_share_a_victim():
    """The second finds its victims anew in the next cycle."""
    s = lent_to_b(1, 1, 1, 1)
    heads = [head("first", 1, "a1"), head("second", 1, "a2", created=1)]
    first, second = run_cycle(s, heads, T0)
    assert names(first) == ["b3"]
    assert (second.message, second.retry) == (
        "Workload has overlapping preemption targets with another workload",
        Retry.NEXT_CYCLE,
    )
    carry_out(s, first)
    assert names(try_one(s, heads[1][1], "a2")) == ["b2"]


def test_a_victim_that_is_large_enough_for_two_is_evicted_once():
    s = lent_to_b(4)
    heads = [head("first", 2, "a1"), head("second", 2, "a2", created=1)]
    carry_out(s, run_cycle(s, heads, T0)[0])
    waits = try_one(s, heads[1][1], "a2")
    assert isinstance(waits, Preempt)
    assert (waits.reason, waits.victims) == (WAITS, ())
    assert waits.message == (
        "Workload has overlapping preemption targets with another workload, "
        "but will fit after these preemptions complete"
    )
    carry_out(s, waits)
    assert isinstance(try_one(s, pending("third"), "b"), Refuse)
    s.release("uid-b0")
    assert all(isinstance(outcome, Admit) for outcome in run_cycle(s, heads, T0))


def test_a_head_that_fits_does_not_take_what_a_preemptor_of_the_cycle_counts_on():
    s = lent_to_b(1, 1, 1)
    heads = [head("preemptor", 2, "a1"), head("fits", 1, "b")]
    assert isinstance(try_one(s, heads[1][1], "b"), Admit)
    first, second = run_cycle(s, heads, T0)
    assert isinstance(first, Preempt)
    assert (second.message, second.retry) == (NO_LONGER, Retry.NEXT_CYCLE)
    assert not second.skips_preemption


@pytest.mark.parametrize("priority", [6, 4])
def test_what_a_head_withholds_may_be_what_a_victim_still_uses(priority):
    """a withholds 2 cpu of 3, and the victim of b uses one until it stops: c gets one, whether a or b comes first."""
    s = state(
        queue("a", quotas={"default": {"cpu": "2", "gpu": "1"}}, cohort="all"),
        queue("b", quotas={"default": {"cpu": "1", "tpu": ONE_OF_ITS_OWN}}, cohort="all", within="LowerPriority"),
        queue("c", quotas={"default": {"cpu": "0", "gpu": "0"}}, cohort="all"),
    )
    run(s, "high", queue="c", priority=9, usage={("default", "gpu"): 1})
    run(s, "low", queue="b", usage={("default", "cpu"): 1000, ("default", "tpu"): 1})
    heads = [
        ("a", pending("a", requests={"cpu": "2", "gpu": "1"}, priority=priority)),
        ("b", pending("b", requests={"tpu": "1"}, priority=5)),
        ("c", pending("c", requests={"cpu": "1"})),
    ]
    outcomes = {outcome.cluster_queue: type(outcome) for outcome in run_cycle(s, heads, T0)}
    assert outcomes == {"a": Refuse, "b": Preempt, "c": Admit}


@pytest.mark.parametrize(("cpu", "expected"), [(1, Admit), (2, Preempt), (3, Refuse)])
def test_surplus_quota_of_a_victim_is_not_free_before_it_stops(cpu, expected):
    """The surplus is what the victim holds beyond the need of its preemptor."""
    s = lent_to_b(3)
    carry_out(s, try_one(s, pending("p", requests={"cpu": "2"}), "a1"))
    outcome = try_one(s, pending("other", requests={"cpu": str(cpu)}, created=1), "b")
    assert isinstance(outcome, expected)
    s.release("uid-b0")
    freed = try_one(s, pending("other", requests={"cpu": str(cpu)}, created=1), "b")
    assert isinstance(freed, Refuse if cpu == 3 else Admit)


# --- reservations ------------------------------------------------------------------------------------------


def preempting(cpu=2, **more):
    """`p` of priority 5 waits for two victims of one cpu; another cpu is free. Returns the state and p."""
    s = state(queue(within="LowerPriority", cpu="3"))
    run(s, "v1"), run(s, "v2", reserved=1)
    p = pending("p", requests={"cpu": "3"}, priority=5, **more)
    carry_out(s, try_one(s, p))
    return s, p


def test_a_victim_of_another_that_is_no_longer_needed_is_not_waited_for():
    s, p = preempting()
    for name, preemptor in (("v1", "uid-other"), ("v2", p.uid)):
        held = s.holdings[f"uid-{name}"]
        s.hold(held._replace(preempted_for=PreemptedFor(preemptor, "InClusterQueue")))
    assert sorted(names(try_one(s, p))) == ["v1", "v2"]
    s.set_queue(queue(within="LowerPriority", cpu="4"))
    assert names(try_one(s, p)) == ["v2"]


@pytest.mark.parametrize(("priority", "fits"), [(5, False), (6, True)])
def test_quota_is_kept_for_a_preemptor_until_a_higher_priority_comes(priority, fits):
    """What is free already, and what a victim releases before the other."""
    s, p = preempting()
    other = pending("other", priority=priority, created=1)
    assert isinstance(try_one(s, other), Admit) is fits
    s.release("uid-v1")
    assert isinstance(try_one(s, other), Admit) is fits
    again = try_one(s, p)
    assert names(again) == ["v2"]
    assert [v.holding.evicted for v in again.victims] == [True]
    carry_out(s, again)
    s.release("uid-v2")
    assert isinstance(try_one(s, other), Admit) is fits
    assert isinstance(try_one(s, p), Admit)


def test_a_preemptor_that_waits_goes_first():
    s, p = preempting()
    s.release("uid-v1"), s.release("uid-v2")
    heads = [head("higher", 1, priority=9), ("cq", p)]
    first, second = run_cycle(s, heads, T0)
    assert isinstance(first, Admit)
    assert first.info is p
    assert (second.message, second.retry) == (NO_LONGER, Retry.NEXT_CYCLE)


def test_after_a_restart_a_preemptor_goes_first_before_its_reservation_is_known():
    s = state(queue("a", "2", "team"), queue("b", "0", "team"))
    p = head("p", 2, "a", created=9, conditions=[condition("QuotaReserved", "False", WAITS)])
    first, second = run_cycle(s, [head("thief", 1, "b"), p], T0)
    assert first.info is p[1]
    assert isinstance(first, Admit)
    assert second.retry is Retry.NEXT_CYCLE


def test_when_its_reservation_ends_others_get_the_quota():
    s, _ = preempting()
    s.end_reservation("uid-p")
    assert isinstance(try_one(s, pending("other", created=1)), Admit)


def test_a_higher_priority_takes_victims_that_are_evicted_already():
    s, p = preempting()
    higher = pending("higher", requests={"cpu": "2"}, priority=9)
    outcome = try_one(s, higher)
    assert [v.holding.evicted for v in outcome.victims] == [True]
    carry_out(s, outcome)
    assert isinstance(try_one(s, p), Refuse)


def test_a_borrower_of_higher_priority_does_not_take_what_is_reclaimed_from_it():
    """Else the two would evict each other in turn: the preemptor may reclaim whatever the priority."""
    s = lent_to_b(2, 2)
    preemptor = pending("own", requests={"cpu": "2"}, priority=1)
    carry_out(s, try_one(s, preemptor, "a1"))
    s.release("uid-b1")
    again = pending("b1", requests={"cpu": "2"}, priority=9)
    refused = try_one(s, again, "b")
    assert isinstance(refused, Refuse)
    assert isinstance(try_one(s, preemptor, "a1"), Admit)


def test_a_head_within_a_subtree_that_the_preemptor_borrows_from_passes_it():
    """The preemptor, which borrows itself, could not evict it."""
    borrowing = {"policy": "LowerPriority"}
    s = state(
        queue("a", "1", "team", reclaim="Any", borrowing=borrowing), queue("b", "1", "team"), queue("c", "1", "team")
    )
    run(s, "loan", "c", cpu=3)
    carry_out(s, try_one(s, pending("p", requests={"cpu": "2"}, priority=5), "a"))
    s.release("uid-loan")
    assert isinstance(try_one(s, pending("h", requests={"cpu": "2"}, priority=6), "b"), Admit)
    assert isinstance(try_one(s, pending("h", requests={"cpu": "2"}, priority=5), "b"), Refuse)


def test_a_failed_cycle_leaves_the_tree_as_it_was():
    s, p = preempting()
    before = usage_of(s)

    def heads():
        yield "cq", p
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_cycle(s, heads(), T0)
    assert usage_of(s) == before


def test_a_marked_eviction_holds_until_the_store_shows_it_or_the_write_fails():
    s = state(queue(within="LowerPriority"))
    known = run(s, "v")
    s.mark_evicted(known.uid)
    s.hold(known)
    assert s.holdings[known.uid].evicted
    s.mark_evicted(known.uid, evicted=False)
    assert not s.holdings[known.uid].evicted
    assert s.queues["cq"].ranking == [known.ranking]


def test_a_victim_releases_also_what_it_uses_without_a_flavor():
    s = state(queue(within="LowerPriority", cpu="2"))
    known = run(s, "v", usage={("gone", "cpu"): 0})
    s.hold(known._replace(usage={}, unassigned={"cpu": 2000}))
    high = pending("high", requests={"cpu": "2"}, priority=9)
    carry_out(s, try_one(s, high))
    assert names(try_one(s, high)) == ["v"]
    s.release(known.uid)
    assert isinstance(try_one(s, high), Admit)
    s.drop_queue("cq")
    assert not s.holdings


@pytest.mark.parametrize(("named", "waits"), [("uid-p", True), ("uid-other", False)])
def test_after_a_restart_the_victims_that_name_a_preemptor_are_its_own(named, waits):
    """Since they were chosen `own` has taken a part of the nominal quota, so a new search would find no victims."""
    s = state(queue(cohort="all", reclaim="Any"), queue("lender", cohort="all"))
    run(s, "own", cpu=2)
    run(s, "victim", "lender", cpu=6, evicted=True, preempted_for=PreemptedFor(named, "InCohortReclamation"))
    p = pending("p", requests={"cpu": "4"}, conditions=[condition("QuotaReserved", "False", WAITS)])
    outcome = try_one(s, p)
    assert isinstance(outcome, Preempt) is waits
    if waits:
        assert [(v.holding.key.name, v.reason) for v in outcome.victims] == [("victim", "InCohortReclamation")]

"""Who may pass a head that waits for quota, and what the head is promised."""

import pytest

from queue_manager.scheduling.backfill import NEVER, Backfilling, BackfillRules, WaitingHead, promise
from queue_manager.scheduling.cycle import Admit, Preempt, Refuse, run_cycle
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import info
from tests.unit.queueing.builders import T0, at, cluster_queue, cohort, flavor, pending, workload

CPU = FlavorResource("default", "cpu")
ANY = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Any"}
RULES = BackfillRules(head_age=at(60) - T0)


def state(*queues):
    result = SchedulerState()
    result.flavors["default"] = flavor("default")
    result.namespaces["ns"] = {}
    for queue in queues or [cluster_queue(quotas={"default": {"cpu": "10"}})]:
        result.set_queue(queue)
    return result


def run(s, name, cpu, *, ends=None, queue="cq", **fields):
    ends_by = None if ends is None else at(ends)
    one = pending(name)
    s.hold(Holding(one.uid, one.key, queue, one.queue, {CPU: cpu * 1000}, admitted=True, ends_by=ends_by, **fields))


def waiting(name, cpu, *, lasts=None, created=0.0, priority=0):
    spec = {} if lasts is None else {"maximumExecutionTimeSeconds": lasts}
    return pending(name, requests={"cpu": str(cpu)}, created=created, priority=priority, spec=spec)


def promised(s, head, now=T0, queue="cq"):
    return promise(s, s.queues[queue], head, now).starts_by


@pytest.mark.parametrize(
    ("running", "cpu", "starts"),
    [
        pytest.param([(8, 100)], 5, at(100), id="when the one that runs has ended"),
        pytest.param([(4, 100), (4, 50)], 5, at(50), id="when the first has ended, if that suffices"),
        pytest.param([(4, 100), (4, 50)], 8, at(100), id="when both have ended, if it needs both"),
        pytest.param([(8, None)], 5, NEVER, id="unknown: no maximum is declared"),
        pytest.param([(4, None), (4, 50)], 6, at(50), id="those without a maximum are not needed"),
        pytest.param([(8, -5)], 5, T0, id="now: it is overdue"),
    ],
)
def test_a_head_is_promised_the_end_of_those_it_needs(running, cpu, starts):
    s = state()
    for i, (held, ends) in enumerate(running):
        run(s, f"r{i}", held, ends=ends)
    used = dict(s.queues["cq"].node.usage)
    assert promised(s, waiting("head", cpu)) == starts
    assert s.queues["cq"].node.usage == used


def test_what_is_being_stopped_counts_as_free():
    s = state()
    run(s, "victim", 8, evicted=True)
    assert promised(s, waiting("head", 5)) == T0


@pytest.mark.parametrize(
    ("candidate", "passes"),
    [
        pytest.param({"cpu": 2, "lasts": 40}, True, id="ends before the head starts"),
        pytest.param({"cpu": 2, "lasts": 41}, False, id="ends after the head starts"),
        pytest.param({"cpu": 2}, False, id="declares no maximum"),
        pytest.param({"cpu": 1}, True, id="leaves the head what it needs"),
    ],
)
def test_who_may_pass_a_head_that_waits(candidate, passes):
    """8 of 10 cpus are in use until second 100; the head wants 9, so it starts then and leaves 1; it is second 60."""
    s = state()
    run(s, "r", 8, ends=100)
    head = waiting("head", 9)
    one = waiting("small", **{"created": 30, **candidate})
    (outcome,) = run_cycle(s, [("cq", one)], at(60), Backfilling(RULES), {"cq": WaitingHead(head)})
    assert isinstance(outcome, Admit) == passes
    if not passes:
        assert isinstance(outcome, Refuse)
        assert outcome.reason == "WaitingForQuota"
        assert outcome.message.startswith("Quota is kept for a workload that is ordered before it")


@pytest.mark.parametrize(("other_ends", "passes"), [(100, True), (101, False)])
def test_quota_released_in_the_second_of_the_promised_start_is_left(other_ends, passes):
    """The head fits as soon as one of two has ended. What the other releases in the same second is left beside it."""
    s = state()
    run(s, "one", 4, ends=100)
    run(s, "other", 4, ends=other_ends)
    head, small = waiting("head", 6), waiting("small", 2, created=30)
    assert promised(s, head) == at(100)
    (outcome,) = run_cycle(s, [("cq", small)], at(60), Backfilling(RULES), {"cq": WaitingHead(head)})
    assert isinstance(outcome, Admit) == passes


def test_a_young_head_is_passed_by_all():
    s = state()
    run(s, "r", 8, ends=100)
    (outcome,) = run_cycle(
        s,
        [("cq", waiting("small", 2, created=30))],
        at(59),
        Backfilling(RULES),
        {"cq": WaitingHead(waiting("head", 9))},
    )
    assert isinstance(outcome, Admit)


@pytest.mark.parametrize(
    ("nominal", "passes"),
    [pytest.param("2", True, id="its own nominal quota"), pytest.param("0", False, id="borrowed quota")],
)
def test_another_cluster_queue_uses_its_nominal_quota_in_any_case(nominal, passes):
    """The head of `a` wants the whole cohort once the one that runs has ended; `b` has a right to its nominal quota."""
    s = state(
        cluster_queue("a", quotas={"default": {"cpu": str(10 - int(nominal))}}, cohortName="both"),
        cluster_queue("b", quotas={"default": {"cpu": nominal}}, cohortName="both"),
    )
    run(s, "r", 8, ends=100, queue="a")
    one = waiting("small", 2, created=30)
    (outcome,) = run_cycle(s, [("b", one)], at(60), Backfilling(RULES), {"a": WaitingHead(waiting("head", 10))})
    assert isinstance(outcome, Admit) == passes


@pytest.mark.parametrize(("apart", "passes"), [(True, True), (False, False)])
def test_the_quota_of_a_cohort_is_not_kept_for_a_head_that_is_not_in_it(apart, passes):
    """`b` uses the two cpus of its cohort, to which `a` belongs or not."""
    s = state(
        cluster_queue("a", quotas={"default": {"cpu": "8"}}, cohortName="all" if apart else "team"),
        cluster_queue("b", quotas={"default": {"cpu": "0"}}, cohortName="team"),
    )
    s.set_cohort(cohort("team", "all", {"default": {"cpu": "2"}}))
    run(s, "r", 8, ends=100, queue="a")
    one = waiting("small", 2, created=30)
    (outcome,) = run_cycle(s, [("b", one)], at(60), Backfilling(RULES), {"a": WaitingHead(waiting("head", 10))})
    assert isinstance(outcome, Admit) == passes


def test_the_next_one_may_not_use_what_one_before_it_left():
    """Beside the head 2 cpus are left: the first long one takes them, the second would delay the head."""
    s = state()
    run(s, "r", 6, ends=100)
    head, rules = waiting("head", 8), Backfilling(RULES)
    (first,) = run_cycle(s, [("cq", waiting("first", 2, created=30))], at(60), rules, {"cq": WaitingHead(head)})
    assert isinstance(first, Admit)
    run(s, "first", 2)
    (second,) = run_cycle(s, [("cq", waiting("second", 2, created=31))], at(60), rules, {"cq": WaitingHead(head)})
    assert isinstance(second, Refuse)


@pytest.mark.parametrize(
    ("lasts", "passes"),
    [pytest.param(40, True, id="it ends before the head starts"), pytest.param(None, False, id="it may take longer")],
)
def test_nothing_is_preempted_for_quota_that_is_kept_for_a_head(lasts, passes):
    """Of 10 cpus a victim has 5 until second 90. The head needs all; an equal one runs until 100."""
    s = state(cluster_queue(quotas={"default": {"cpu": "10"}}, preemption={"withinClusterQueue": "LowerPriority"}))
    run(s, "equal", 5, ends=100)
    run(s, "lower", 5, ends=90, priority=-1)
    one = waiting("small", 2, created=30, lasts=lasts)
    (outcome,) = run_cycle(s, [("cq", one)], at(60), Backfilling(RULES), {"cq": WaitingHead(waiting("head", 10))})
    assert isinstance(outcome, Preempt) == passes


@pytest.mark.parametrize(("priority", "passes"), [(1, True), (2, False)])
def test_a_victim_that_would_start_again_before_the_head_is_not_preempted(priority, passes):
    """Beside the head two cpus are left when `borrows` has ended. If that is stopped first, it ends later."""
    s = state(
        cluster_queue("lender", quotas={"default": {"cpu": "4"}}, preemption=ANY, cohortName="both"),
        cluster_queue("borrower", quotas={"default": {"cpu": "4"}}, cohortName="both"),
    )
    run(s, "lent", 2, queue="lender", ends=100)
    run(s, "borrows", 6, queue="borrower", ends=100, priority=priority, queued_at=T0)
    head = waiting("head", 6, created=10, priority=2)
    one = waiting("small", 2, created=30)
    (outcome,) = run_cycle(s, [("lender", one)], at(70), Backfilling(RULES), {"lender": WaitingHead(head)})
    assert isinstance(outcome, Preempt) == passes


def test_what_the_victims_of_a_preemptor_release_is_not_for_the_head():
    """`one` may preempt: the head is to start at 100, when `equal` ends. That stays so while the victim stops, though
    what it releases would do for the head."""
    s = state(cluster_queue(quotas={"default": {"cpu": "10"}}, preemption={"withinClusterQueue": "LowerPriority"}))
    run(s, "equal", 5, ends=100)
    run(s, "lower", 5, priority=-1)
    head, one = WaitingHead(waiting("head", 5)), waiting("one", 5, created=30)
    backfilling = Backfilling(RULES)
    (first,) = run_cycle(s, [("cq", one)], at(60), backfilling, {"cq": head})
    assert isinstance(first, Preempt)
    s.reserve(first.reservation)
    s.mark_evicted(pending("lower").uid)
    (again,) = run_cycle(s, [("cq", one)], at(60), backfilling, {"cq": head})
    assert isinstance(again, Preempt)
    assert promised(s, head.info, at(60)) == at(60)


@pytest.mark.parametrize("borrows", [False, True])
def test_a_head_that_is_refused_in_the_same_cycle_keeps_its_quota(borrows):
    """As after a restart, or a release, when the heads of both ClusterQueues are tried together."""
    s = state(
        cluster_queue("a", quotas={"default": {"cpu": "5" if borrows else "10"}}, cohortName="both"),
        cluster_queue("b", quotas={"default": {"cpu": "5" if borrows else "0"}}, cohortName="both"),
    )
    run(s, "r", 8, ends=100, queue="a")
    heads = [("a", waiting("head", 10)), ("b", waiting("small", 2, created=30))]
    outcomes = {outcome.info.key.name: outcome for outcome in run_cycle(s, heads, at(60), Backfilling(RULES))}
    assert isinstance(outcomes["head"], Refuse)
    assert isinstance(outcomes["small"], Admit) == borrows


def test_a_head_that_can_never_fit_keeps_no_quota():
    s = state(
        cluster_queue("a", quotas={"default": {"cpu": "5"}}, cohortName="both"),
        cluster_queue("b", quotas={"default": {"cpu": "5"}}, cohortName="both"),
    )
    heads = [("a", waiting("head", 11)), ("b", waiting("small", 6, created=30))]
    outcomes = {outcome.info.key.name: outcome for outcome in run_cycle(s, heads, at(60), Backfilling(RULES))}
    assert (outcomes["head"].reason, type(outcomes["small"])) == ("ExceedsMaxQuota", Admit)


def of_pod_sets(*pod_sets):
    """A Workload of pod sets (name, cpu, zone; "" for any)."""

    def template(cpu, zone):
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        return {"spec": {"containers": [container], **({"nodeSelector": {"zone": zone}} if zone else {})}}

    sets = [{"name": name, "count": 1, "template": template(cpu, zone)} for name, cpu, zone in pod_sets]
    return info(workload("head", spec={"podSets": sets}))


@pytest.mark.parametrize(("running", "starts"), [([], T0), ([(4, 100)], at(100))])
def test_a_pod_set_leaves_the_flavor_that_a_later_one_needs(running, starts):
    """The first flavor has what the second pod set needs, and would be taken by the first pod set."""
    s = state(cluster_queue(quotas={"a": {"cpu": "4"}, "b": {"cpu": "4"}}))
    s.flavors = {name: flavor(name, nodeLabels={"zone": name}) for name in ("a", "b")}
    for cpu, ends in running:
        one = pending("r")
        usage = {FlavorResource("b", "cpu"): cpu * 1000}
        s.hold(Holding(one.uid, one.key, "cq", one.queue, usage, admitted=True, ends_by=at(ends)))
    assert promised(s, of_pod_sets(("first", "4", ""), ("second", "2", "a"))) == starts


def test_a_promise_is_found_anew_when_the_flavors_change_and_only_then():
    """What does not concern the quota tree leaves it as it is: refusals, and updates that change nothing."""
    s = state()
    run(s, "r", 8, ends=100)
    before = s.changes
    s.set_queue(cluster_queue(quotas={"default": {"cpu": "10"}}))
    s.release("uid-other")
    s.end_reservation("uid-other")
    assert s.changes == before
    s.set_flavor(flavor("default", nodeLabels={"zone": "a"}))
    assert s.changes == before + 1
    s.drop_flavor("default")
    assert s.changes == before + 2

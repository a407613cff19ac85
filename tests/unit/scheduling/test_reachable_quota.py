"""What is within reach of a refused Workload: never less than an admission or a preemption needs."""

import pytest

from queue_manager.scheduling.cycle import Preempt, Refuse, run_cycle
from queue_manager.scheduling.nomination import nominate
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.reachable_quota import least_demands, reachable, within_reach
from tests.unit.queueing.builders import T0, pending
from tests.unit.scheduling.fair_states import cohort
from tests.unit.scheduling.preemption_cases import CPU, queue, run, state
from tests.unit.scheduling.reference_comparison import worlds
from tests.unit.scheduling.reference_worlds import info_of, state_of


def excess(state, name, info, assignment):
    """The first request that is beyond reach, of those in an assignment; None if all are within reach."""
    found = state.queues[name]
    with within_reach(state, {found.node.root}) as reach:
        for pod_set in assignment.pod_sets:
            for resource, flavor in pod_set.flavors.items():
                fr = FlavorResource(flavor, resource)
                if pod_set.requests[resource] > reach(found, fr, info.priority):
                    return fr
    return None


def preempt(state, world):
    """Keep quota for all heads that may preempt others."""
    for head in world.heads:
        (outcome,) = run_cycle(state, [(head.queue, info_of(head))], T0)
        if isinstance(outcome, Preempt):
            state.reserve(outcome.reservation)
            for victim in outcome.victims:
                state.mark_evicted(victim.holding.uid)


@pytest.mark.parametrize(("keeps", "least"), [(False, 200), (True, 100)])
def test_whatever_can_be_admitted_or_preempt_is_within_reach(keeps, least):
    """`keeps`: quota is kept for those that preempt, so the others are judged beside that."""
    possible = 0
    for world, seed in worlds(400, "reach"):
        state = state_of(world)
        if keeps:
            preempt(state, world)
        for head in world.heads:
            found, info = state.queues[head.queue], info_of(head)
            if info.uid in state.reservations:
                continue
            with PlannedUsage(state) as planned, planned.without(planned.passed_by(info, found)):
                nominated = nominate(state, planned, found, info, T0)
            if nominated.is_possible:
                possible += 1
                assert excess(state, head.queue, info, nominated.assignment) is None, seed
    assert possible > least


def test_what_is_kept_for_a_preemptor_is_beyond_reach_of_those_that_never_pass_it():
    """The preemptor gets all four cpus of the cohort: its victim, which borrows three, is being stopped."""
    s = state(queue(cpu="4", cohort="team", reclaim="Any"), queue("other", "0", "team"))
    run(s, "victim", "other", cpu=3)
    (outcome,) = run_cycle(s, [("cq", pending("first", priority=2, requests={"cpu": "4"}))], T0)
    s.reserve(outcome.reservation)
    with within_reach(s, {s.queues["cq"].node.root}) as reach:
        found = {(name, at): reach(s.queues[name], CPU, at) for name in ("cq", "other") for at in (1, 2, 3)}
    assert found == {
        ("cq", 1): 0,
        ("cq", 2): 4000,
        ("cq", 3): 4000,
        ("other", 1): 0,
        ("other", 2): 0,
        ("other", 3): 4000,
    }


def demands(s, info, name="cq"):
    (outcome,) = run_cycle(s, [(name, info)], T0)
    assert isinstance(outcome, Refuse)
    return least_demands(s, outcome)


@pytest.mark.parametrize(
    ("policies", "reach"),
    [
        ({}, 1000),
        ({"within": "LowerPriority"}, 2000),
        ({"within": "LowerOrNewerEqualPriority"}, 3000),
        ({"reclaim": "Any"}, 2000),
        ({"within": "LowerPriority", "reclaim": "Any"}, 3000),
        ({"reclaim": "Any", "borrowing": {"policy": "LowerPriority"}}, float("inf")),
    ],
)
def test_policies_decide_how_far_a_preemption_reaches(policies, reach):
    """Of 4 cpus of its own 2 are used, by a lower and an equal priority; another ClusterQueue has borrowed one."""
    s = state(queue(cpu="4", cohort="team", **policies), queue("other", "0", "team"))
    run(s, "low", priority=4)
    run(s, "equal", priority=5)
    run(s, "high", priority=6, cpu=0)
    run(s, "loan", "other")
    assert reachable(s, s.queues["cq"], CPU, 5) == reach


def test_what_is_released_beyond_the_need_of_a_preemptor_is_within_reach_of_all():
    s = state(queue(cpu="4", within="LowerPriority"))
    run(s, "low", cpu=3)
    run(s, "equal", cpu=1, priority=1)
    (outcome,) = run_cycle(s, [("cq", pending("high", priority=1, requests={"cpu": "2"}))], T0)
    s.reserve(outcome.reservation)
    before = s.queues["cq"].node.available(CPU)
    with within_reach(s, {s.queues["cq"].node.root}) as reach:
        assert reach(s.queues["cq"], CPU, 0) == 1000
    assert s.queues["cq"].node.available(CPU) == before


def test_the_request_furthest_beyond_reach_counts_if_its_flavor_has_quota():
    quotas = {"small": {"cpu": "1", "memory": "9"}, "large": {"cpu": "4", "memory": "4"}}
    s = state(queue(quotas=quotas), flavors=quotas)
    run(s, "runs", usage={("large", "cpu"): 2000, ("large", "memory"): 4})
    found = demands(s, pending("waits", requests={"cpu": "3", "memory": "4"}))
    assert found == ((FlavorResource("large", "memory"), 4),)


def test_a_request_of_nothing_fits_where_more_than_the_quota_is_in_use():
    """Its demand of 0 would be beyond reach of any quota."""
    quotas = {"default": {"cpu": "4", "gpu": "1"}}
    s = state(queue(quotas=quotas))
    run(s, "runs", usage={("default", "gpu"): 2})
    info = pending("waits", requests={"cpu": "1", "gpu": "0"})
    assert not isinstance(run_cycle(s, [("cq", info)], T0)[0], Refuse)
    assert demands(s, pending("large", requests={"cpu": "1", "gpu": "1"})) == ((FlavorResource("default", "gpu"), 1),)
    run(s, "runs too", cpu=4)
    assert demands(s, info) == ((CPU, 1000),)


def test_with_partial_admission_the_fewest_pods_must_fit():
    s = state(queue(cpu="4"))
    run(s, "runs", cpu=4)
    template = {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}
    pod_set = {"name": "main", "count": 6, "minCount": 2, "template": template}
    assert demands(s, pending("waits", spec={"podSets": [pod_set]})) == ((CPU, 2000),)


def test_a_workload_that_exceeds_the_quota_demands_nothing_that_could_be_released():
    s = state(queue(cpu="4"))
    assert demands(s, pending("waits", requests={"cpu": "5"})) == ()


def test_quota_that_is_lent_is_within_reach_beside_free_quota_never_lent():
    """Three cpus are for the ClusterQueue alone, and two of them used. Its cohort has lent all of its three."""
    quota = {"nominalQuota": "4", "lendingLimit": "1"}
    s = state(queue(quotas={"default": {"cpu": quota}}, cohort="mid", reclaim="Any"), queue("other", "0", "root"))
    s.set_cohort(cohort("mid", "2", parent="root"))
    run(s, "own", cpu=2)
    run(s, "loan", "other", cpu=3)
    assert s.queues["cq"].node.available(CPU) == 1000
    assert reachable(s, s.queues["cq"], CPU, 0) == 4000

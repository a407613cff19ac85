"""Flavors, refusals with their exact words, and whole cycles."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_manager.scheduling.cycle import Admit, Refuse, Retry, run_cycle
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.examples import examples
from tests.unit.queueing.builders import T0, cluster_queue, flavor, pending


def state(*queues, flavors=("default",)):
    result = SchedulerState()
    for f in flavors:
        f = flavor(f) if isinstance(f, str) else f
        result.flavors[f.metadata.name] = f
    result.namespaces["ns"] = {"team": "a"}
    for queue in queues or [cluster_queue()]:
        result.set_queue(queue)
    return result


def hold(s, name, queue="cq", uid=None, **usage):
    amounts = {FlavorResource(*key.split("__")): value for key, value in usage.items()}
    info = pending(name)
    s.hold(Holding(uid or info.uid, info.key, queue, info.queue, amounts, admitted=True))


def try_one(s, info, queue="cq"):
    (outcome,) = run_cycle(s, [(queue, info)], T0)
    return outcome


def test_a_workload_that_fits_gets_the_first_flavor():
    outcome = try_one(state(), pending("w", requests={"cpu": "2"}))
    assert isinstance(outcome, Admit)
    assert outcome.assignment.pod_sets[0].flavors == {"cpu": "default"}
    assert outcome.assignment.usage == {FlavorResource("default", "cpu"): 2000}
    assert outcome.assignment.considered == ""


POD_SET = "couldn't assign flavors to pod set main: "
TAINT = flavor("t", nodeTaints=[{"key": "spot", "value": "true", "effect": "NoSchedule"}])
ZONE = flavor("z1", nodeLabels={"zone": "z1"})


def affinity(*expressions):
    required = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("queue", "flavors", "info", "reason", "message"),
    [
        pytest.param(
            cluster_queue(quotas={"default": {"cpu": "3"}}),
            ["default"],
            pending(requests={"cpu": "2"}),
            "WaitingForQuota",
            POD_SET + "insufficient unused quota for cpu in flavor default, 1 more needed",
            id="no room now",
        ),
        pytest.param(
            cluster_queue(),
            ["default"],
            pending(requests={"cpu": "5"}),
            "ExceedsMaxQuota",
            POD_SET + "insufficient quota for cpu in flavor default, previously considered podsets requests (0) + "
            "current podset request (5) > maximum capacity (2)",
            id="never any room",
        ),
        pytest.param(
            cluster_queue(),
            ["default"],
            pending(requests={"cpu": "1", "example.com/gpu": "1"}),
            "NoMatchingFlavor",
            POD_SET + "resource example.com/gpu unavailable in ClusterQueue",
            id="a resource without quota",
        ),
        pytest.param(
            cluster_queue(quotas={"f1": {"cpu": "1"}, "f2": {"cpu": "2"}}),
            ["f1", "f2"],
            pending(requests={"cpu": "3"}),
            "ExceedsMaxQuota",
            POD_SET + "insufficient quota for cpu in flavor f1, previously considered podsets requests (0) + current "
            "podset request (3) > maximum capacity (1), insufficient quota for cpu in flavor f2, previously considered "
            "podsets requests (0) + current podset request (3) > maximum capacity (2)",
            id="all flavors are named",
        ),
        pytest.param(
            cluster_queue(quotas={"t": {"cpu": "2"}}),
            [TAINT],
            pending(),
            "NoMatchingFlavor",
            POD_SET + "untolerated taint {spot true NoSchedule <nil>} in flavor t",
            id="taint",
        ),
        pytest.param(
            cluster_queue(quotas={"z1": {"cpu": "2"}}),
            [ZONE],
            pending(pod={"nodeSelector": {"zone": "z2"}}),
            "NoMatchingFlavor",
            POD_SET + "flavor z1 doesn't match node affinity",
            id="node selector",
        ),
        pytest.param(
            cluster_queue(quotas={"z1": {"cpu": "2"}}),
            [ZONE],
            pending(pod=affinity({"key": "zone", "operator": "In", "values": ["z2"]})),
            "NoMatchingFlavor",
            POD_SET + "flavor z1 doesn't match node affinity",
            id="node affinity",
        ),
        pytest.param(
            cluster_queue(namespaceSelector={"matchLabels": {"team": "b"}}),
            ["default"],
            pending(),
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
            id="namespace",
        ),
        pytest.param(
            cluster_queue(stopPolicy="Hold"),
            ["default"],
            pending(),
            "Suspended",
            "ClusterQueue cq is inactive",
            id="held",
        ),
        pytest.param(
            cluster_queue(quotas={"gone": {"cpu": "2"}}),
            [],
            pending(),
            "Suspended",
            "ClusterQueue cq is inactive",
            id="missing flavor",
        ),
    ],
)
def test_refusals_say_why_in_the_words_of_kueue(queue, flavors, info, reason, message):
    s = state(queue, flavors=flavors)
    if reason == "WaitingForQuota":
        hold(s, "other", default__cpu=2000)
    outcome = try_one(s, info)
    assert isinstance(outcome, Refuse)
    assert (outcome.reason, outcome.message) == (reason, message)


@pytest.mark.parametrize(
    "pod",
    [
        {"nodeSelector": {"zone": "z1"}},
        {"nodeSelector": {"disk": "ssd"}},
        affinity({"key": "zone", "operator": "NotIn", "values": ["z2"]}),
        affinity({"key": "disk", "operator": "Exists"}),
    ],
)
def test_node_labels_that_the_flavor_does_not_name_do_not_count(pod):
    s = state(cluster_queue(quotas={"z1": {"cpu": "2"}}), flavors=[ZONE])
    assert isinstance(try_one(s, pending(pod=pod)), Admit)


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([{"key": "spot", "operator": "Exists"}], True),
        ([{"key": "spot", "value": "true", "effect": "NoSchedule"}], True),
        ([{"operator": "Exists"}], True),
        ([{"key": "spot", "value": "false"}], False),
        ([{"key": "spot", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_tolerations_open_tainted_flavors(tolerations, fits):
    s = state(cluster_queue(quotas={"t": {"cpu": "2"}}), flavors=[TAINT])
    assert isinstance(try_one(s, pending(pod={"tolerations": tolerations})), Admit) is fits


def test_the_second_flavor_is_taken_when_the_first_is_full_and_the_event_says_so():
    s = state(cluster_queue(quotas={"f1": {"cpu": "1"}, "f2": {"cpu": "2"}}), flavors=["f1", "f2"])
    hold(s, "other", f1__cpu=1000)
    outcome = try_one(s, pending())
    assert outcome.assignment.pod_sets[0].flavors == {"cpu": "f2"}
    assert outcome.assignment.considered == (
        "; Flavors considered: main: f1(preemptionMode=NoCandidates;"
        "insufficient unused quota for cpu in flavor f1, 1 more needed)"
    )


def test_each_resource_group_chooses_its_own_flavor():
    groups = [{"cpuf": {"cpu": "4", "memory": "4Gi"}}, {"g1": {"gpu": "1"}, "g2": {"gpu": "2"}}]
    s = state(cluster_queue(groups=groups), flavors=["cpuf", "g1", "g2"])
    outcome = try_one(s, pending(requests={"cpu": "1", "memory": "1Gi", "gpu": "2"}))
    assert outcome.assignment.pod_sets[0].flavors == {"cpu": "cpuf", "memory": "cpuf", "gpu": "g2"}


def test_pods_are_counted_where_the_queue_covers_them():
    s = state(cluster_queue(quotas={"default": {"cpu": "9", "pods": "2"}}))
    assert isinstance(try_one(s, pending(count=2)), Admit)
    assert try_one(s, pending(count=3)).reason == "ExceedsMaxQuota"


def test_in_a_cohort_the_second_head_that_no_longer_fits_tries_again():
    a, b = (cluster_queue(n, quotas={"default": {"cpu": "1"}}, cohortName="team") for n in "ab")
    outcomes = run_cycle(
        state(a, b),
        [("a", pending("x", requests={"cpu": "2"})), ("b", pending("y", requests={"cpu": "2"}, created=1))],
        T0,
    )
    assert isinstance(outcomes[0], Admit)
    assert (outcomes[1].message, outcomes[1].retry) == (
        "Workload no longer fits after processing another workload",
        Retry.NEXT_CYCLE,
    )


def test_who_need_not_borrow_goes_first():
    a, b = (cluster_queue(n, quotas={"default": {"cpu": "1"}}, cohortName="team") for n in "ab")
    heads = [("a", pending("borrower", requests={"cpu": "2"}, priority=9)), ("b", pending("own", created=5))]
    assert run_cycle(state(a, b), heads, T0)[0].info.key.name == "own"


def a_cohort_where_a_waits(used, **of_a):
    """Queue a wants 2 of its own 2, of which `used` are in use; b has lent nothing and has all of its own in use."""
    quota = {"default": {"cpu": {"nominalQuota": "2", **of_a}}}
    a, b = cluster_queue("a", quotas=quota, cohortName="team"), cluster_queue("b", cohortName="team")
    c = cluster_queue("c", quotas={"default": {"cpu": "1"}}, cohortName="team")
    s = state(a, b, c)
    hold(s, "of-a", "a", default__cpu=used)
    hold(s, "of-b", "b", default__cpu=2000)
    return s


def test_nominal_quota_that_a_pending_workload_needs_is_not_lent_in_the_same_cycle():
    """Else it could wait forever, while small ones of others borrow what it waits for."""
    s = a_cohort_where_a_waits(1000, borrowingLimit="0")
    hold(s, "of-c", "c", default__cpu=1000)
    waits, borrower = ("a", pending("waits", requests={"cpu": "2"})), ("b", pending("borrower", created=1))
    assert isinstance(run_cycle(s, [borrower], T0)[0], Admit)
    first, second = run_cycle(s, [waits, borrower], T0)
    assert first.reason == "WaitingForQuota"
    assert second.message == "Workload no longer fits after processing another workload"


@pytest.mark.parametrize(("used", "limit", "kept"), [(1000, "0", False), (3000, "1", False), (3000, None, True)])
def test_a_waiting_workload_keeps_others_from_no_more_than_it_may_use(used, limit, kept):
    """Its nominal quota or, since it would borrow, that with its borrowing limit."""
    s = a_cohort_where_a_waits(used, **({"borrowingLimit": limit} if limit else {}))
    s.set_queue(cluster_queue("c", quotas={"default": {"cpu": "1" if used == 1000 else "2"}}, cohortName="team"))
    heads = [("a", pending("waits", requests={"cpu": "2"})), ("b", pending("borrower", created=1))]
    first, second = run_cycle(s, heads, T0)
    assert isinstance(first, Refuse)
    assert isinstance(second, Refuse if kept else Admit)


def test_a_workload_in_backoff_is_never_admitted():
    late = pending(status={"requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:10Z"}})
    assert isinstance(try_one(state(), late), Refuse)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 3)), max_size=25),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
)
def test_admissions_stay_within_quota_and_a_cycle_leaves_the_tree_as_it_was(jobs, nominal):
    """The sum of what was admitted fits its cohort; usage equals the holdings counted anew."""
    names = ["a", "b", "c"]
    s = state(
        *(
            cluster_queue(n, quotas={"default": {"cpu": str(q)}}, cohortName="t")
            for n, q in zip(names, nominal, strict=True)
        )
    )
    fr = FlavorResource("default", "cpu")
    for i, (where, cpu, priority) in enumerate(jobs):
        before = {n: q.node.usage.get(fr, 0) for n, q in s.queues.items()}
        info = pending(f"w{i}", requests={"cpu": str(cpu)}, priority=priority)
        outcome = try_one(s, info, names[where])
        assert {n: q.node.usage.get(fr, 0) for n, q in s.queues.items()} == before
        if isinstance(outcome, Admit):
            s.hold(Holding(info.uid, info.key, names[where], info.queue, outcome.assignment.usage, True))
    assert sum(q.node.usage.get(fr, 0) for q in s.queues.values()) <= 1000 * sum(nominal)
    for name, queue in s.queues.items():
        assert queue.node.usage.get(fr, 0) == sum(h.usage[fr] for h in s.holdings.values() if h.cluster_queue == name)
    for uid in list(s.holdings):
        s.release(uid)
    assert all(v == 0 for q in s.queues.values() for v in [*q.node.usage.values(), *q.node.root.usage.values()])


def test_the_reason_is_the_most_severe_one_of_all_resource_groups():
    """The cpu would have to be borrowed, and is in use; the memory exceeds all quota."""
    groups = [{"c": {"cpu": "2"}}, {"m": {"memory": "1Gi"}}]
    s = state(*(cluster_queue(name, groups=groups, cohortName="all") for name in ("a", "b")), flavors=("c", "m"))
    hold(s, "running", "b", c__cpu=2000)
    outcome = try_one(s, pending(requests={"cpu": "3", "memory": "5Gi"}), "a")
    assert outcome.reason == "ExceedsMaxQuota"
    assert try_one(s, pending(requests={"cpu": "3", "memory": "1Gi"}), "a").reason == "WaitingForQuota"


@pytest.mark.parametrize(("least", "reason"), [(2, "WaitingForQuota"), (3, "ExceedsMaxQuota")])
def test_a_workload_of_which_the_fewest_pods_can_fit_does_not_exceed_the_quota(least, reason):
    s = state(cluster_queue())
    hold(s, "running", default__cpu=1000)
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": 8, "minCount": least, "template": {"spec": {"containers": [container]}}}
    assert try_one(s, pending(spec={"podSets": [pod_set]})).reason == reason

"""What the scheduler knows of ClusterQueues: whether they admit, whose quota they share, which checks they ask for."""

from collections import Counter

import msgspec
import pytest

from job_controller.model import Key
from queue_manager.api.types import AdmissionCheck, ClusterQueue
from queue_manager.scheduling.holdings import Holding, Reservation, holding_of
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import info
from tests.unit.queueing.builders import cluster_queue, cohort, condition, flavor, pending, workload

CPU = FlavorResource("default", "cpu")


def state(*queues, checks=()):
    result = SchedulerState()
    result.flavors["default"] = flavor()
    for name, active in checks:
        tree = {"metadata": {"name": name}, "status": {"conditions": [condition("Active", str(active))]}}
        result.checks[name] = msgspec.convert(tree, AdmissionCheck)
    for queue in queues:
        result.set_queue(queue)
    return result


def asks(*rules):
    return {"admissionChecksStrategy": {"admissionChecks": list(rules)}}


CHECKED = asks({"name": "a"}, {"name": "b", "onFlavors": ["gpu"]}, {"name": "c", "onFlavors": ["default", "gpu"]})


@pytest.mark.parametrize(
    ("spec", "checks", "why"),
    [
        ({}, (), None),
        ({"stopPolicy": "None"}, (), None),
        ({"stopPolicy": "Hold"}, (), ("Stopped", "is stopped")),
        ({"stopPolicy": "HoldAndDrain"}, (), ("Stopped", "is stopped")),
        (asks({"name": "a"}), [("a", True)], None),
        (asks({"name": "a"}), [], ("AdmissionCheckNotFound", "references missing AdmissionCheck(s): a")),
        (asks({"name": "a"}), [("a", False)], ("AdmissionCheckInactive", "references inactive AdmissionCheck(s): a")),
        (
            asks({"name": "a"}, {"name": "b"}, {"name": "c"}) | {"stopPolicy": "Hold"},
            [("b", False), ("c", True)],
            (
                "Stopped",
                "is stopped, references missing AdmissionCheck(s): a, references inactive AdmissionCheck(s): b",
            ),
        ),
        (
            {"quotas": {"default": {"cpu": "1"}, "gone": {"cpu": "1"}, "lost": {"cpu": "1"}}},
            (),
            ("FlavorNotFound", "references missing ResourceFlavor(s): gone,lost"),
        ),
    ],
)
def test_a_queue_that_admits_nothing_gives_all_reasons_and_the_first_as_its_own(spec, checks, why):
    reported = state(cluster_queue(**spec), checks=checks).inactive("cq")
    assert reported == (why and (why[0], f"Can't admit new workloads: {why[1]}."))


def test_a_queue_being_deleted_admits_nothing_whatever_else():
    tree = msgspec.to_builtins(cluster_queue(stopPolicy="Hold"))
    tree["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert state(msgspec.convert(tree, ClusterQueue)).inactive("cq")[0] == "Terminating"


@pytest.mark.parametrize(
    ("flavors", "asked"),
    [(None, ("a", "b", "c")), ([], ("a",)), (["default"], ("a", "c")), (["gpu"], ("a", "b", "c"))],
)
def test_a_check_for_some_flavors_is_asked_of_those_that_got_one(flavors, asked):
    assert state(cluster_queue(**CHECKED)).checks_of("cq", flavors) == asked
    assert state().checks_of("cq", flavors) == ()


def test_relatives_share_a_cohort():
    s = state(cluster_queue("a", cohortName="x"), cluster_queue("b", cohortName="x"), cluster_queue("c"))
    assert (s.relatives("a"), s.relatives("b"), s.relatives("c")) == (["a", "b"], ["a", "b"], ["c"])
    assert s.relatives("unknown") == ["unknown"]
    s.drop_queue("b")
    assert s.relatives("a") == ["a"]
    assert list(s.queues) == ["a", "c"]


def test_relatives_are_all_queues_of_a_tree_of_cohorts():
    s = state(cluster_queue("a", cohortName="x"), cluster_queue("b", cohortName="y"), cluster_queue("c"))
    s.set_cohort(cohort("x", parent="all"))
    s.set_cohort(cohort("y", parent="all"))
    s.set_cohort(cohort("alone"))
    assert s.relatives("a") == s.relatives("b") == s.relatives_of_cohort("all") == s.relatives_of_cohort("x")
    assert (s.relatives("a"), s.relatives("c")) == (["a", "b"], ["c"])
    assert (s.relatives_of_cohort("alone"), s.relatives_of_cohort("unknown")) == ([], [])
    s.drop_cohort("y")
    assert (s.relatives("a"), s.relatives("b")) == (["a"], ["b"])


def test_quota_of_a_cohort_counts_while_the_cohort_exists():
    """Usage stays counted when the cohort is deleted."""
    s = state(cluster_queue("a", cohortName="x", quotas={"default": {"cpu": "1"}}))
    s.set_cohort(cohort("x", parent="all", quotas={"default": {"cpu": "2"}}))
    s.set_cohort(cohort("all", quotas={"default": {"cpu": "4"}}))
    node = s.queues["a"].node
    hold(s, "w", 1500, queue="a")
    assert (node.available(CPU), s.forest.cohorts["all"].usage[CPU]) == (5500, 1500)
    s.drop_cohort("all")
    assert (s.queues["a"].node.available(CPU), node.potential(CPU)) == (1500, 3000)
    s.drop_cohort("x")
    assert (node.available(CPU), node.borrow_level(CPU, 1)) == (-500, 1)


@pytest.mark.parametrize(
    ("above", "why"),
    [
        ({"x": "y", "y": ""}, None),
        ({"x": "y", "y": "x"}, 'Cohort "x" has a cycle in hierarchy: x -> y -> x'),
        ({"x": "y", "y": "z", "z": "y"}, 'Cohort "x" has a cycle in hierarchy: y -> z -> y'),
        ({"x": "x"}, 'Cohort "x" has a cycle in hierarchy: x -> x'),
    ],
)
def test_a_queue_below_a_cycle_of_cohorts_admits_nothing_and_names_the_cycle(above, why):
    s = state(cluster_queue(cohortName="x"))
    for name, parent in above.items():
        s.set_cohort(cohort(name, parent))
    assert s.inactive("cq") == (why and ("CohortCycleDetected", f"Can't admit new workloads: {why}."))


def test_the_message_about_a_huge_cycle_fits_into_a_condition():
    s = state(cluster_queue(cohortName=f"{0:0253}"))
    for i in range(300):
        s.set_cohort(cohort(f"{i:0253}", parent=f"{(i + 1) % 300:0253}"))
    message = s.inactive("cq")[1]
    assert len(message) <= 32768
    assert message.endswith(f" -> ... -> {299:0253} -> {0:0253}.")


def hold(s, name, milli, queue="cq", admitted=True):
    info = pending(name)
    s.hold(Holding(info.uid, info.key, queue, info.queue, {CPU: milli}, admitted))
    return info.uid


def test_a_holding_is_counted_once_over_changes_of_quota():
    """Whether it is held again, released, or held while the quota of its ClusterQueue changes."""
    s = state(cluster_queue())
    uid = hold(s, "w", 500)
    hold(s, "w", 700)
    node = s.queues["cq"].node
    assert (node.usage[CPU], node.available(CPU)) == (700, 1300)
    s.set_queue(cluster_queue(quotas={"default": {"cpu": "3"}}))
    node = s.queues["cq"].node
    assert (node.usage[CPU], node.available(CPU)) == (700, 2300)
    assert s.release(uid).usage == {CPU: 700}
    assert s.release(uid) is None
    assert (node.usage[CPU], s.queues["cq"].holdings) == (0, {})


def test_what_is_held_in_a_queue_that_comes_later_counts_as_soon_as_it_does():
    s = state()
    uid = hold(s, "w", 500)
    s.set_queue(cluster_queue())
    assert s.queues["cq"].node.usage[CPU] == 500
    s.drop_queue("cq")
    assert s.release(uid).usage == {CPU: 500}


RESERVED = condition("QuotaReserved", "True")
ASSIGNED = {
    "admission": {
        "clusterQueue": "cq",
        "podSetAssignments": [
            {"name": "main", "flavors": {"cpu": "default"}, "count": 2},
            {"name": "other", "flavors": {"cpu": "default"}, "count": 1},
        ],
    }
}


@pytest.mark.parametrize(
    ("conditions", "status", "usage"),
    [
        ([RESERVED], ASSIGNED, {CPU: 2500}),
        ([RESERVED, condition("Evicted", "True")], ASSIGNED, {CPU: 2500}),  # until its Job has stopped
        ([RESERVED, condition("Finished", "True")], ASSIGNED, None),
        ([condition("QuotaReserved", "False")], ASSIGNED, None),
        ([RESERVED], {}, None),
        ([], ASSIGNED, None),
    ],
)
def test_quota_is_held_from_the_reservation_to_the_end_of_the_run(conditions, status, usage):
    found = workload(
        conditions=conditions, status=status, spec={"podSets": [pods("main", 2, "1"), pods("other", 1, "500m")]}
    )
    held = holding_of(found, info(found), None)
    assert (held and held.usage) == usage


def pods(name, count, cpu):
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}}


def test_relatives_of_several_queues_are_named_once() -> None:
    known = state(
        cluster_queue("a", cohortName="x"),
        cluster_queue("b", cohortName="x"),
        cluster_queue("c"),
        cluster_queue("d", cohortName="y"),
    )
    assert sorted(known.relatives_of_all(["a", "b", "c"])) == ["a", "b", "c"]
    assert known.relatives_of_all(["gone"]) == ["gone"]


def test_all_are_ready_once_no_holding_lacks_podsready() -> None:
    known = state(cluster_queue("a"))
    assert known.all_ready
    one = Holding("u1", Key("ns", "w1"), "a", Key("ns", "lq"), {CPU: 1000}, admitted=True)
    two = one._replace(uid="u2", key=Key("ns", "w2"))
    for holding in (one, two):
        known.hold(holding)
    known.hold(one._replace(ready=True))
    known.mark_evicted("u2")
    assert not known.all_ready
    known.release("u2")
    assert known.all_ready
    known.hold(one)
    assert not known.all_ready


@pytest.mark.parametrize("spec", [{"stopPolicy": "Hold"}, asks({"name": "missing"})])
def test_a_queue_that_admits_nothing_lends_its_quota_as_before(spec):
    s = state(cluster_queue("a", cohortName="all"), cluster_queue("b", cohortName="all", **spec))
    assert s.inactive("b") is not None
    assert s.queues["a"].node.potential(CPU) == 4000


@pytest.mark.parametrize(
    ("ended", "found"),
    [((), "low"), (("low",), "high"), (("low", "high"), "middle"), (("low", "high", "middle"), None)],
)
def test_a_victim_is_needed_by_its_preemptor_or_else_by_another_one(ended, found):
    s = SchedulerState()
    for name, priority in [("low", 1), ("middle", 2), ("high", 3), ("other", 4)]:
        victims = {"uid-other-victim" if name == "other" else "uid-victim": "InClusterQueue"}
        s.reserve(Reservation(pending(name, priority=priority), "cq", {}, 0, victims))
    for name in ended:
        s.end_reservation(f"uid-{name}")
    needed_by = s.needed_by("uid-victim", "uid-low")
    assert (needed_by.info.uid if needed_by else None) == (f"uid-{found}" if found else None)


@pytest.mark.parametrize("priority", [0, 1])
def test_a_stop_that_others_need_counts_for_the_one_that_may_take_quota_once_more(priority):
    """`first` decided it, and does not wait any more; `often` has taken quota from the victim as often as it may."""
    s = SchedulerState()
    info = pending("victim")
    victim = Holding(info.uid, info.key, "cq", info.queue, {}, admitted=True, priority=priority)
    s.hold(victim)
    for name in ("often", "next"):
        s.reserve(Reservation(pending(name, priority=1), "cq", {}, 0, {"uid-victim": "InCohortReclamation"}))
    s.preempted = {"uid-often": Counter({"uid-victim": 2}), "uid-first": Counter({"uid-victim": 1})}
    needed_by = s.needed_by("uid-victim", "uid-first")
    assert needed_by.info.uid == "uid-next"
    s.release(victim.uid)  # without a Job the write of the eviction releases it
    s.transfer_reclaim("uid-first", victim, needed_by.info)
    assert (s.reclaims("uid-first", "uid-victim"), s.reclaims("uid-next", "uid-victim")) == (0, priority)

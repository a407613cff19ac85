"""Cohort objects: their quota, their trees, and cycles of them, as users and admins see them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queue_manager.api import messages, reasons
from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, JOBS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import API, NS, Cluster, cluster, condition
from tests.local.queue.environments import VIRTUAL_TIME, Environment, run

CLASS = "kueue.x-k8s.io/priority-class"
TWO_MORE = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"
CYCLE = (
    "False",
    "CohortCycleDetected",
    'Can\'t admit new workloads: Cohort "a" has a cycle in hierarchy: a -> b -> a.',
)


def quota(cpu: str) -> list[dict[str, Any]]:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}]


async def set_cohort(c: Cluster, name: str, parent: str = "", cpu: str = "") -> None:
    spec = ({"parentName": parent} if parent else {}) | ({"resourceGroups": quota(cpu)} if cpu else {})
    await c.create(COHORTS, {**API, "kind": "Cohort", "metadata": {"name": name}, "spec": spec})


async def add_cq2(c: Cluster) -> None:
    """A second ClusterQueue in Cohort co, with two cpus and LocalQueue lq2."""
    spec = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": quota("2")}
    await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": spec})
    await c.local_queue("lq2", "cq2")


async def patch(c: Cluster, cohort: str, **spec: Any) -> None:
    await c.client.patch(COHORTS, "", cohort, {"spec": spec})


async def active(c: Cluster) -> tuple[str, str, str] | None:
    return condition((await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"], "Active")


async def usage(c: Cluster) -> object:
    status = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]
    return status["flavorsUsage"][0]["resources"]


async def is_true(c: Cluster, job: str, type: str) -> bool:
    found = await c.condition(job, type)
    return found is not None and found[0] == "True"


async def short(c: Cluster, job: str) -> tuple[str, str] | None:
    """Status and reason of QuotaReserved."""
    found = await c.condition(job, "QuotaReserved")
    return found[:2] if found is not None else None


def refused(reason: str, said: str) -> tuple[str, str, str]:
    return "False", reason, f"couldn't assign flavors to pod set main: {said}"


def test_a_queue_borrows_from_cohorts_above_and_is_tried_when_they_change(
    environment: Environment,
) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await set_cohort(c, "root", cpu="2")
            await set_cohort(c, "child", parent="root")
            await c.queues("1", cohortName="child")
            await c.submit("large", cpu="3")
            await c.until(c.running, ["large"])
            row = {"name": "cpu", "total": "3", "borrowed": "2"}
            await c.until(lambda: usage(c), [row])
            await c.submit("next", cpu="2")
            more = "insufficient unused quota for cpu in flavor default, 2 more needed"
            await c.until(lambda: c.condition("next", "QuotaReserved"), refused("WaitingForQuota", more))
            await c.submit("huge", cpu="4")
            most = "insufficient quota for cpu in flavor default, previously considered podsets requests (0) + current"
            most += " podset request (4) > maximum capacity (3)"
            await c.until(lambda: c.condition("huge", "QuotaReserved"), refused("ExceedsMaxQuota", most))
            await patch(c, "root", resourceGroups=quota("4"))
            await c.until(c.running, ["large", "next"])

    run(scenario())


def test_who_fits_once_victims_of_another_have_stopped_has_that_reason(environment: Environment) -> None:
    async def scenario() -> None:
        async with cluster(borrower=PodScript(ready_after=0.2, ends_after=None, stops_within=4.0)) as c:
            await c.queues("1", cohortName="co", preemption={"reclaimWithinCohort": "Any"})
            other = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": quota("1")}
            await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": other})
            await c.local_queue("lq2", "cq2")
            await c.submit("borrower", cpu="2", queue="lq2")
            await c.until(c.running, ["borrower"])
            await c.submit("owner", cpu="1")
            await c.until(lambda: is_true(c, "borrower", "Preempted"), True)
            await c.submit("later", cpu="1", queue="lq2")
            reason = "False", reasons.WAITING_FOR_PREEMPTED, messages.WILL_FIT_MESSAGE
            await c.until(lambda: c.condition("later", "QuotaReserved"), reason)
            await c.until(c.running, ["later", "owner"])

    run(scenario())


def test_a_preemptor_that_is_overtaken_keeps_no_quota_from_others(environment: Environment) -> None:
    """`above` takes what the victim of `first` releases: `first` is told immediately, `small` fits beside `above`."""

    async def scenario() -> None:
        slow = PodScript(ready_after=0.2, ends_after=None, stops_within=4.0)
        async with cluster(borrower=slow) as c:
            await c.queues("2", cohortName="co", preemption={"reclaimWithinCohort": "Any"})
            await add_cq2(c)
            for name, value in (("mid", 2), ("high", 3)):
                await c.apply_class(name, value)
            await c.submit("own", cpu="2", queue="lq2", labels={CLASS: "high"})
            await c.submit("borrower", cpu="2", queue="lq2")
            await c.until(c.running, ["borrower", "own"])
            await c.submit("first", cpu="2")
            await c.until(lambda: is_true(c, "borrower", "Preempted"), True)
            await c.submit("above", cpu="1", labels={CLASS: "mid"})
            await c.submit("small", cpu="1", queue="lq2", labels={CLASS: "high"})
            reason = "False", reasons.WAITING_FOR_QUOTA, TWO_MORE
            await c.until(lambda: c.condition("first", "QuotaReserved"), reason)
            assert await is_true(c, "borrower", "QuotaReserved"), "its pod still stops"
            await c.until(c.running, ["above", "own", "small"])

    run(scenario())


@VIRTUAL_TIME
def test_a_victim_runs_on_if_its_preemptor_is_refused_before_it_is_evicted(environment: Environment) -> None:
    """`owner` has `borrower` stopped. `large`, which is ordered before it, would then stop `small` too, but `borrower`
    passes `large` in the same instant.
    """

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(
                "3", cohortName="co", preemption={"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
            )
            await add_cq2(c)
            for name, value in (("mid", 1), ("high", 3)):
                await c.apply_class(name, value)
            await c.submit("borrower", cpu="4", queue="lq2", labels={CLASS: "high"})
            await c.until(c.running, ["borrower"])
            await c.submit("large", cpu="5", labels={CLASS: "mid"})
            await c.submit("small", cpu="1")
            await c.until(c.running, ["borrower", "small"])
            await c.submit("owner", cpu="2")
            await c.until(lambda: is_true(c, "borrower", "Preempted"), True)
            await c.until(c.running, ["borrower", "small"])
            assert await c.condition("small", "Preempted") is None

    run(scenario())


def test_own_quota_that_can_be_reclaimed_is_not_kept_for_who_would_borrow_it(environment: Environment) -> None:
    """Were it kept for `large`, `own` would preempt `large` as soon as that is admitted."""

    async def scenario() -> None:
        slow = PodScript(ready_after=0.2, ends_after=None, stops_within=4.0)
        async with cluster(small=slow) as c:
            both = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
            await c.queues("4", cohortName="co", preemption=both)
            other = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": quota("4"), "preemption": both}
            await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": other})
            await c.local_queue("lq2", "cq2")
            await c.apply_class("mid", 2)
            await c.submit("small", cpu="3")
            await c.until(c.running, ["small"])
            await c.submit("large", cpu="6", labels={CLASS: "mid"})
            await c.until(lambda: is_true(c, "small", "Preempted"), True)
            await c.submit("own", cpu="3", queue="lq2")
            await c.until(c.running, ["own", "small"])
            reason = "False", reasons.WAITING_FOR_QUOTA
            await c.until(lambda: short(c, "large"), reason)
            assert await is_true(c, "small", "QuotaReserved"), "its pod still stops"
            await c.until(c.running, ["own", "small"])
            assert not await is_true(c, "large", "Evicted")

    run(scenario())


@pytest.mark.parametrize("by", ["class", "label"])
@pytest.mark.parametrize("where", ["lq", "lq2"])
def test_a_running_job_is_preempted_as_soon_as_its_priority_is_lowered(
    environment: Environment, where: str, by: str
) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            policies = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}
            await c.queues("1", cohortName="co", preemption=policies)
            other = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": quota("0")}
            await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": other})
            await c.local_queue("lq2", "cq2")
            for name, value in (("low", 1), ("mid", 2), ("high", 3)):
                await c.apply_class(name, value)
            await c.submit("runs", queue=where, labels={CLASS: "high"})
            await c.until(c.running, ["runs"])
            await c.submit("waits", labels={CLASS: "mid"})

            async def reason() -> str:
                return (await c.condition("waits", "QuotaReserved") or ("", ""))[1]

            await c.until(reason, "WaitingForQuota")
            if by == "class":
                await c.client.patch(WORKLOAD_PRIORITY_CLASSES, "", "high", {"value": 0})
            else:
                await c.client.patch(JOBS, NS, "runs", {"metadata": {"labels": {CLASS: "low"}}})
            await c.until(c.running, ["waits"])

    run(scenario())


@pytest.mark.parametrize(
    "stopped", ["LocalQueue", *(pytest.param(each, marks=VIRTUAL_TIME) for each in ("ClusterQueue", "flavor"))]
)
def test_nothing_is_kept_for_a_preemptor_whose_queue_is_stopped(environment: Environment, stopped: str) -> None:
    """As soon as its victim has stopped, another Workload gets the quota."""

    async def scenario() -> None:
        async with cluster(victim=PodScript(ready_after=0.2, ends_after=None, stops_within=4.0)) as c:
            await c.apply_class("high", 100)
            await c.queues("0", cohortName="co", preemption={"withinClusterQueue": "LowerPriority"})
            await c.flavor("other")
            groups = quota("0")
            groups[0]["flavors"].append({**groups[0]["flavors"][0], "name": "other"})
            patched = {"spec": {"resourceGroups": groups}}
            await c.client.patch(CLUSTER_QUEUES, "", "cq", patched)
            other = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": quota("1")}
            await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": other})
            await c.local_queue("lq2", "cq2")
            await c.submit("victim")
            await c.until(c.running, ["victim"])
            await c.submit("preemptor", labels={CLASS: "high"})
            await c.until(lambda: is_true(c, "victim", "Preempted"), True)
            match stopped:
                case "LocalQueue":
                    await c.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": "Hold"}})
                case "ClusterQueue":
                    await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "Hold"}})
                case _:
                    groups[0]["flavors"][1]["name"] = "missing"
                    await c.client.patch(CLUSTER_QUEUES, "", "cq", patched)
            await c.submit("other", queue="lq2")
            await c.until(c.running, ["other"])

    run(scenario())


def test_the_quota_of_a_cohort_that_is_moved_or_deleted_is_lost_to_its_queues(environment: Environment) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await set_cohort(c, "root", cpu="2")
            await set_cohort(c, "child", parent="root", cpu="1")
            await c.queues("0", cohortName="child")
            await c.submit("runs", cpu="3")
            await c.until(c.running, ["runs"])
            await c.client.delete(COHORTS, "", "root")
            await c.submit("waits", cpu="3")

            async def reason() -> str:
                return (await c.condition("waits", "QuotaReserved") or ("", ""))[1]

            await c.until(reason, "ExceedsMaxQuota")
            await set_cohort(c, "other", cpu="5")
            await patch(c, "child", parentName="other")
            await c.until(c.running, ["runs", "waits"])

    run(scenario())


@pytest.mark.parametrize("mended_by", ["patch", "delete"])
def test_a_cycle_of_cohorts_stops_the_queues_below_it_until_it_is_broken(
    environment: Environment, mended_by: str
) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await set_cohort(c, "b", parent="a", cpu="2")
            await c.queues("1", cohortName="a")
            await c.submit("runs")
            await c.until(c.running, ["runs"])
            await set_cohort(c, "a", parent="b")
            await c.until(lambda: active(c), CYCLE)
            await c.submit("waits")
            reason = ("False", "Suspended", "ClusterQueue cq is inactive")
            await c.until(lambda: c.condition("waits", "QuotaReserved"), reason)

            async def of_local_queue() -> object:
                return (condition((await c.client.get(LOCAL_QUEUES, NS, "lq"))["status"], "Active") or "")[:2]

            await c.until(of_local_queue, ("False", "ClusterQueueIsInactive"))
            assert await c.running() == ["runs"]
            if mended_by == "patch":
                await patch(c, "b", parentName=None)
            else:
                await c.client.delete(COHORTS, "", "a")  # a remains, as the parent that b names
            await c.until(lambda: active(c), ("True", "Ready", "Can admit new workloads"), seconds=1)
            await c.until(of_local_queue, ("True", "Ready"), seconds=1)
            await c.until(c.running, ["runs", "waits"])

    run(scenario())


def test_a_cycle_closed_further_up_stops_the_queue_and_its_workloads(environment: Environment) -> None:
    """The Cohort that is patched is not the one that the ClusterQueue names."""

    async def scenario() -> None:
        async with cluster() as c:

            async def why() -> str:
                return (await c.condition("waits", "QuotaReserved") or ("", "", ""))[1]

            await set_cohort(c, "b")
            await set_cohort(c, "a", parent="b")
            await c.queues("1", cohortName="a")
            await c.submit("runs")
            await c.until(c.running, ["runs"])
            await c.submit("waits")
            await c.until(why, "WaitingForQuota")
            await patch(c, "b", parentName="a")
            await c.until(lambda: active(c), CYCLE, seconds=2)
            reason = ("False", "Suspended", "ClusterQueue cq is inactive")
            await c.until(lambda: c.condition("waits", "QuotaReserved"), reason, seconds=2)
            await patch(c, "b", parentName=None)
            await c.until(lambda: active(c), ("True", "Ready", "Can admit new workloads"), seconds=2)
            await c.until(why, "WaitingForQuota", seconds=2)

    run(scenario())


def series(c: Cluster, name: str) -> list[str]:
    """The series of one family, without the role of the replica."""
    lines = c.world.metrics.exposition().splitlines()
    return sorted(
        line.removeprefix("kueue_").replace('replica_role="standalone",', "").replace(',replica_role="standalone"', "")
        for line in lines
        if line.startswith(f"kueue_{name}{{")
    )


@VIRTUAL_TIME
def test_the_metrics_of_cohorts_add_up_their_subtrees(environment: Environment) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await set_cohort(c, "root", cpu="2500m")
            await set_cohort(c, "child", parent="root")
            await c.queues("1", cohortName="child")
            await c.submit("large", cpu="3")
            await c.until(c.running, ["large"])
            where = 'flavor="default",resource="cpu"'
            assert series(c, "cohort_subtree_quota") == [
                f'cohort_subtree_quota{{cohort="child",{where}}} 1.0',
                f'cohort_subtree_quota{{cohort="root",{where}}} 3.5',
            ]
            assert series(c, "cohort_subtree_resource_reservations") == [
                f'cohort_subtree_resource_reservations{{cohort="child",{where}}} 3.0',
                f'cohort_subtree_resource_reservations{{cohort="root",{where}}} 3.0',
            ]
            assert series(c, "cohort_info") == [
                'cohort_info{cohort="child",parent_cohort="root",root_cohort="root"} 1.0',
                'cohort_info{cohort="root",parent_cohort="",root_cohort="root"} 1.0',
            ]
            place_of = 'cluster_queue_info{cluster_queue="cq",parent_cohort="child",root_cohort="root"} 1.0'
            assert series(c, "cluster_queue_info") == [place_of]
            for family in ("admitted_active_workloads", "admitted_workloads_total"):
                rows = series(c, f"cohort_subtree_{family}")
                assert [row.rpartition(" ")[2] for row in rows] == ["1.0", "1.0"]
            await patch(c, "root", parentName="child")
            await asyncio.sleep(1)
            assert series(c, "cohort_info") + series(c, "cluster_queue_info") + series(c, "cohort_subtree_quota") == []

    run(scenario())

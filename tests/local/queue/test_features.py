"""Partial admission, prebuilt Workloads, child Jobs, admission checks, what namespaces add to pods, metrics."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LIMIT_RANGES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import API, NS, Cluster, cluster
from tests.local.queue.environments import run

pytestmark = pytest.mark.usefixtures("environment")

QUEUE = "kueue.x-k8s.io/queue-name"
MIN = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "pre"}


async def size(c: Cluster, job: str) -> tuple[int, int]:
    spec = (await c.job(job))["spec"]
    return spec["parallelism"], spec["completions"]


async def set_active(c: Cluster, job: str, active: bool) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    await c.client.patch(WORKLOADS, NS, name, {"spec": {"active": active}})


# --- partial admission -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallelism", "completions", "notes", "running"),
    [
        (4, 8, {MIN: "2"}, (3, 8)),
        (6, 4, {MIN: "2"}, (3, 4)),  # never more pods than completions
        (4, 4, {MIN: "2", EQUAL: "true"}, (3, 3)),
    ],
)
def test_a_job_runs_with_the_pods_that_fit_and_gets_its_size_back(
    parallelism: int, completions: int, notes: dict[str, str], running: tuple[int, int]
) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("3")
            mode = "Indexed" if EQUAL in notes else "NonIndexed"
            await c.submit(
                "a", annotations=notes, parallelism=parallelism, completions=completions, completionMode=mode
            )
            await c.until(c.running, ["a"])
            assert await size(c, "a") == running
            await set_active(c, "a", False)
            await c.until(lambda: size(c, "a"), (parallelism, completions))
            assert "sluice/parallelism" not in (await c.job("a"))["metadata"].get("annotations", {})
            await set_active(c, "a", True)
            await c.until(lambda: size(c, "a"), running)
            assert await c.running() == ["a"]

    run(scenario())


def test_a_pending_job_that_gets_a_lower_minimum_starts_with_that() -> None:
    """As `explain` advises for a minimum above the quota."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("3")

            async def reason() -> str:
                return (await c.condition("a", "QuotaReserved") or ("", ""))[1]

            await c.submit("a", annotations={MIN: "4"}, parallelism=8, completions=8)
            await c.until(reason, "ExceedsMaxQuota")
            await c.client.patch(JOBS, NS, "a", {"metadata": {"annotations": {MIN: "3"}}})
            await c.until(c.running, ["a"])
            assert await size(c, "a") == (3, 8)

    run(scenario())


# --- prebuilt Workloads ------------------------------------------------------------------------------------


async def make_prebuilt(c: Cluster, like: str) -> None:
    """A Workload with the pods of this Job, as the API has defaulted them."""
    template = (await c.workload(like))["spec"]["podSets"][0]["template"]
    pod_set = {"name": "main", "count": 1, "template": {"spec": template["spec"]}}
    spec = {"queueName": "lq", "podSets": [pod_set]}
    meta = {"name": "pre", "namespace": NS}
    await c.create(WORKLOADS, {**API, "kind": "Workload", "metadata": meta, "spec": spec})


def test_a_prebuilt_workload_is_taken_over_and_starts_its_job() -> None:
    """With the API's defaults in its containers it matches the Job (recording x21)."""

    async def scenario() -> None:
        async with cluster(a=PodScript(ready_after=0.2, ends_after=3.0)) as c:
            await c.queues("2")
            await c.submit("like")
            await c.until(c.running, ["like"])
            await c.submit("a", labels=PREBUILT)
            await asyncio.sleep(2)
            assert await c.running() == ["like"]
            await make_prebuilt(c, "like")
            await c.until(c.running, ["a", "like"])
            workload = await c.workload("a")
            assert workload["metadata"]["name"] == "pre"
            await c.until(lambda: finished(c, "a"), "Succeeded")

    run(scenario())


def test_a_prebuilt_workload_outlives_its_job_in_the_queue_and_is_taken_over_again() -> None:
    """It belongs to its user: the queue does not delete it."""

    async def scenario() -> None:
        async with cluster(a=PodScript(ready_after=0.2, ends_after=3.0)) as c:
            await c.queues("1")
            await c.submit("like")
            await c.until(c.running, ["like"])
            await make_prebuilt(c, "like")
            await c.submit("a", labels=PREBUILT)

            async def owners() -> list[str]:
                meta = (await c.client.get(WORKLOADS, NS, "pre"))["metadata"]
                return [o["name"] for o in meta.get("ownerReferences") or ()]

            await c.until(owners, ["a"])
            for queue, expected in ((None, list[str]()), ("lq", ["a"])):
                await c.client.patch(JOBS, NS, "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": queue}}})
                await c.until(owners, expected)
            await c.client.delete(JOBS, NS, "like", propagation="Background")
            await c.until(lambda: finished(c, "a"), "Succeeded")

    run(scenario())


def test_deleting_a_prebuilt_workload_stops_its_job_before_quota_is_free() -> None:
    """Its user created it without our finalizer. The Job's template has no labels of the queue afterwards."""

    async def scenario() -> None:
        async with cluster(a=PodScript(ready_after=0.2, ends_after=None, stops_within=3.0)) as c:
            await c.queues("2")
            await c.submit("like")
            await c.until(c.running, ["like"])
            await make_prebuilt(c, "like")
            await c.submit("a", labels=PREBUILT)
            await c.until(c.running, ["a", "like"])
            await c.submit("next")
            await c.client.delete(WORKLOADS, NS, "pre")
            await c.until(c.running, ["like", "next"])
            assert not (await c.job("a")).get("status", {}).get("terminating")
            template = (await c.job("a"))["spec"]["template"]["metadata"]
            assert not any("kueue" in key for key in (*template["labels"], *template.get("annotations", ())))

    run(scenario())


@pytest.mark.parametrize("whose", ["of another Job", "without owner, and being deleted"])
def test_a_job_unsuspended_without_its_prebuilt_workload_is_suspended_again(whose: str) -> None:
    """Without quota it must not run (queue_manager/BEHAVIOUR.md#q5-no-run-without-admission)."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("2")
            await c.submit("like")
            await c.until(c.running, ["like"])
            await make_prebuilt(c, "like")
            expected = ["like"]
            if whose == "of another Job":
                await c.submit("first", labels=PREBUILT)
                expected = ["first", "like"]
                await c.until(c.running, expected)
            else:
                await c.client.patch(WORKLOADS, NS, "pre", {"metadata": {"finalizers": ["example.com/held"]}})
                await c.client.delete(WORKLOADS, NS, "pre")
            await c.submit("a", labels=PREBUILT)
            await c.client.patch(JOBS, NS, "a", {"spec": {"suspend": False}})
            stopped = ("Normal", "Stopped", "missing workload")
            await c.until(lambda: has_event(c, "a", stopped), True)
            await c.until(c.running, expected)

    run(scenario())


async def finished(c: Cluster, job: str) -> str:
    return (await c.condition(job, "Finished") or ("", ""))[1]


# --- child Jobs --------------------------------------------------------------------------------------------


def test_a_child_of_a_waiting_job_is_suspended_and_has_no_workload() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.submit("busy")
            await c.submit("parent")
            parent = await c.job("parent")
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": parent["metadata"]["uid"]}
            pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
            meta = {"name": "child", "namespace": NS, "ownerReferences": [{**owner, "controller": True}]}
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}
            await c.client.create(JOBS, NS, job)
            await c.until(c.running, ["busy"])
            suspended = ("Normal", "Suspended", "Kueue managed child job suspended")
            await c.until(lambda: c.events("child", component="kueue"), [suspended])
            await c.until(lambda: names_of_workloads(c), ["busy", "parent"])

    run(scenario())


def test_a_grandchild_of_an_evicted_job_is_suspended() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.submit("a")
            await c.until(c.running, ["a"])
            for child, parent in (("b", "a"), ("c", "b")):
                await c.submit(child, queue=None, suspend=True)
                change = {"metadata": {"ownerReferences": [await owner(c, parent)]}, "spec": {"suspend": child == "b"}}
                await c.client.patch(JOBS, NS, child, change)
            await c.until(c.running, ["a", "c"])
            await set_active(c, "a", False)
            await c.until(c.running, [])

    run(scenario())


async def owner(c: Cluster, job: str) -> dict[str, Any]:
    uid = (await c.job(job))["metadata"]["uid"]
    return {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}


def test_a_child_without_its_own_queue_name_follows_its_parent() -> None:
    """Its Workload leaves the queue and holds no quota."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.submit("parent")
            await c.until(c.running, ["parent"])
            await c.submit("child", suspend=True)
            await c.until(lambda: first_reason(c, "child"), "WaitingForQuota")
            change = {"ownerReferences": [await owner(c, "parent")], "labels": {QUEUE: None}}
            await c.client.patch(JOBS, NS, "child", {"metadata": change})
            await c.until(lambda: names_of_workloads(c), ["parent"])
            await c.client.patch(JOBS, NS, "child", {"spec": {"suspend": False}})
            await c.until(c.running, ["child", "parent"])  # its creator unsuspends it
            await asyncio.sleep(2)
            assert await c.running() == ["child", "parent"]

    run(scenario())


async def first_reason(c: Cluster, job: str) -> str | None:
    found = await c.condition(job, "QuotaReserved")
    return found[1] if found else None


async def names_of_workloads(c: Cluster) -> list[str]:
    """Of the Jobs that have a Workload."""
    return sorted(w["metadata"]["ownerReferences"][0]["name"] for w in await c.client.list(WORKLOADS, NS))


# --- admission checks --------------------------------------------------------------------------------------


async def with_check(c: Cluster) -> None:
    await c.queues("1", admissionChecksStrategy={"admissionChecks": [{"name": "ac"}]})
    tree = {**API, "kind": "AdmissionCheck", "metadata": {"name": "ac"}, "spec": {"controllerName": "x/y"}}
    await c.create(ADMISSION_CHECKS, tree)
    now = "2026-01-01T00:00:00Z"
    active = {"type": "Active", "status": "True", "reason": "X", "message": "", "lastTransitionTime": now}
    await c.client.patch(ADMISSION_CHECKS, "", "ac", {"status": {"conditions": [active]}}, subresource="status")


async def answer(c: Cluster, job: str, **state: Any) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    check = {"name": "ac", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", **state}
    await c.client.patch(WORKLOADS, NS, name, {"status": {"admissionChecks": [check]}}, subresource="status")


async def admitted(c: Cluster, job: str) -> tuple[str, ...]:
    return (await c.condition(job, "Admitted") or ("", ""))[:2]


def test_a_job_waits_for_its_admission_checks_and_gets_their_pod_updates() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await with_check(c)
            await c.submit("a")
            await c.until(lambda: admitted(c, "a"), ("False", "UnsatisfiedAdmissionChecks"))
            update = {"name": "main", "nodeSelector": {"rack": "r1"}, "annotations": {"made-by": "ac"}}
            await answer(c, "a", state="Ready", podSetUpdates=[update])
            await c.until(c.running, ["a"])
            template = (await c.job("a"))["spec"]["template"]
            assert template["spec"]["nodeSelector"] == {"rack": "r1"}
            assert template["metadata"]["annotations"]["made-by"] == "ac"
            await set_active(c, "a", False)
            await c.until(lambda: node_selector(c, "a"), None)

    run(scenario())


async def node_selector(c: Cluster, job: str) -> object:
    return (await c.job(job))["spec"]["template"]["spec"].get("nodeSelector")


def test_a_job_admitted_to_a_deleted_flavor_waits_until_it_exists_again() -> None:
    """Started without the flavor's node labels, the Job would run on any node."""

    async def scenario() -> None:
        async with cluster() as c:
            await with_check(c)
            await c.submit("a")
            await c.until(lambda: admitted(c, "a"), ("False", "UnsatisfiedAdmissionChecks"))
            quota = [{"name": "cpu", "nominalQuota": "2"}]
            groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "other", "resources": quota}]}]
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"resourceGroups": groups}})
            await c.client.delete(RESOURCE_FLAVORS, "", "default")
            await c.until(lambda: names(c, RESOURCE_FLAVORS), [])
            await answer(c, "a", state="Ready")
            event = ("Warning", "FlavorNotFound", "Cannot be started: missing ResourceFlavor(s): default")
            await c.until(lambda: has_event(c, "a", event), True)
            assert await c.running() == []
            await c.flavor("default", nodeLabels={"kind": "spot"})
            await c.until(c.running, ["a"])
            assert await node_selector(c, "a") == {"kind": "spot"}

    run(scenario())


async def names(c: Cluster, resource: Resource) -> list[str]:
    return [found["metadata"]["name"] for found in await c.client.list(resource)]


async def has_event(c: Cluster, name: str, event: tuple[str, str, str]) -> bool:
    return event in await c.events(name)


def test_a_retry_waits_as_long_as_the_check_asks_for() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await with_check(c)
            await c.submit("a")
            await c.until(lambda: admitted(c, "a"), ("False", "UnsatisfiedAdmissionChecks"))
            await answer(c, "a", state="Retry", requeueAfterSeconds=6)
            await c.until(lambda: admitted(c, "a"), ("False", "NoReservation"))
            await asyncio.sleep(3)
            assert await admitted(c, "a") == ("False", "NoReservation")
            await c.until(lambda: admitted(c, "a"), ("False", "UnsatisfiedAdmissionChecks"))
            check = (await c.workload("a"))["status"]["admissionChecks"][0]
            assert (check["state"], check["retryCount"]) == ("Pending", 1)

    run(scenario())


# --- what namespaces and runtime classes add ---------------------------------------------------------------


async def usage(c: Cluster, job: str) -> object:
    assigned = (await c.workload(job))["status"]["admission"]["podSetAssignments"][0]
    return assigned["resourceUsage"]


def test_defaults_of_the_namespace_count_and_are_not_written_into_the_workload() -> None:
    """A LimitRange's defaults are part of the requests."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("4")
            limits = [{"type": "Container", "defaultRequest": {"cpu": "3"}}]
            meta = {"name": "lr", "namespace": NS}
            tree = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": limits}}
            await c.create(LIMIT_RANGES, tree)
            pod = {"containers": [{"name": "main", "image": "x"}]}
            await c.submit("a", pod=pod)
            await c.until(c.running, ["a"])
            assert await usage(c, "a") == {"cpu": "3"}
            container = (await c.workload("a"))["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
            assert "requests" not in container.get("resources", {})

    run(scenario())


def test_usage_follows_the_defaults_of_the_namespace() -> None:
    """It is computed from what the pods request now, as a restarted manager would, not read from the status."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("4")
            limits = [{"type": "Container", "defaultRequest": {"cpu": "1"}}]
            tree = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "lr", "namespace": NS}}
            await c.create(LIMIT_RANGES, {**tree, "spec": {"limits": limits}})
            await c.submit("a", pod={"containers": [{"name": "main", "image": "x"}]})
            await c.until(lambda: cpu_in_use(c), "1")
            limits[0]["defaultRequest"] = {"cpu": "3"}
            await c.client.patch(LIMIT_RANGES, NS, "lr", {"spec": {"limits": limits}})
            await c.until(lambda: cpu_in_use(c), "3")

    run(scenario())


async def cpu_in_use(c: Cluster) -> object:
    status = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]
    return status["flavorsUsage"][0]["resources"][0]["total"]


def test_a_job_above_a_limit_range_waits_until_the_limit_is_gone() -> None:
    """As in recording k06."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("4")
            meta = {"name": "lr", "namespace": NS}
            spec = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
            await c.create(LIMIT_RANGES, {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": spec})
            await c.submit("a", "2")
            message = (
                "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: "
                'Invalid value: ["cpu"]: requests must not be above the limitRange max'
            )
            await c.until(lambda: c.condition("a", "QuotaReserved"), ("False", "Misconfigured", message))
            await c.client.delete(LIMIT_RANGES, NS, "lr")
            await c.until(c.running, ["a"])

    run(scenario())


def test_the_overhead_of_a_runtime_class_counts() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("4")
            tree = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm"}
            await c.create(RUNTIME_CLASSES, {**tree, "overhead": {"podFixed": {"cpu": "500m"}}})
            container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
            await c.submit("a", pod={"runtimeClassName": "vm", "containers": [container]})
            await c.until(c.running, ["a"])
            assert await usage(c, "a") == {"cpu": "1500m"}

    run(scenario())


# --- metrics -----------------------------------------------------------------------------------------------


def test_metrics_of_admission_eviction_and_pending_workloads() -> None:
    async def scenario() -> None:
        async with cluster("metrics: {enableClusterQueueResources: true}\n", a=PodScript(0.2, 3.0)) as c:
            await c.queues("1")
            await c.submit("a")
            await c.submit("b")
            await c.until(lambda: waits(c, "b"), True)
            for line in (
                'kueue_pending_workloads{cluster_queue="cq",replica_role="standalone",status="inadmissible"} 1.0',
                'kueue_pending_workloads{cluster_queue="cq",replica_role="standalone",status="active"} 0.0',
                'kueue_admitted_active_workloads{cluster_queue="cq",replica_role="standalone"} 1.0',
                'kueue_cluster_queue_status{cluster_queue="cq",replica_role="standalone",status="active"} 1.0',
                'kueue_local_queue_status{active="True",name="lq",namespace="ns",replica_role="standalone"} 1.0',
                'kueue_cluster_queue_nominal_quota{cluster_queue="cq",cohort="",flavor="default",'
                'replica_role="standalone",resource="cpu"} 1.0',
                'kueue_cluster_queue_resource_usage{cluster_queue="cq",cohort="",flavor="default",'
                'replica_role="standalone",resource="cpu"} 1.0',
            ):
                await c.until(partial(shown, c, line), True, 1)
            await c.until(lambda: finished(c, "a"), "Succeeded")
            await c.until(c.running, ["b"])
            metrics, own = c.world.metrics, {"cluster_queue": "cq", "priority_class": ""}
            assert metrics.value("kueue_admitted_workloads_total", own) == 2
            assert metrics.value("kueue_quota_reserved_workloads_total", own) == 2
            assert metrics.value("kueue_finished_workloads_total", own) == 1
            for name in ("quota_reserved_wait_time", "admission_wait_time", "ready_wait_time"):
                assert metrics.value(f"kueue_{name}_seconds", own) >= 1
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "Hold"}})
            held = 'kueue_cluster_queue_status{cluster_queue="cq",replica_role="standalone",status="pending"} 1.0'
            await c.until(lambda: shown(c, held), True, 1)

    run(scenario())


async def shown(c: Cluster, line: str) -> bool:
    return line in c.world.metrics.exposition().splitlines()


async def waits(c: Cluster, job: str) -> bool:
    return (await c.condition(job, "QuotaReserved") or ("",))[0] == "False"

"""Jobs that are edited, moved, suspended and deleted while they are in a queue."""

from __future__ import annotations

import asyncio

import pytest

from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import API, NS, Cluster, cluster, condition
from tests.local.queue.environments import VIRTUAL_TIME, run

pytestmark = pytest.mark.usefixtures("environment")

QUEUE = "kueue.x-k8s.io/queue-name"


async def stopped(c: Cluster, job: str) -> list[str]:
    return [message for _, reason, message in await c.events(job) if reason == "Stopped"]


async def severities(c: Cluster, job: str, reason: str) -> list[str]:
    """Of the Events with this reason."""
    return [severity for severity, found, _ in await c.events(job) if found == reason]


async def exists(c: Cluster, resource: object, name: str) -> bool:
    try:
        await c.client.get(resource, "", name)  # type: ignore[arg-type]
    except ApiError:
        return False
    return True


def test_a_job_created_unsuspended_is_suspended_at_creation() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait", suspend=False)
            assert (await c.job("wait"))["spec"]["suspend"] is True
            await c.until(c.running, ["run"])
            await asyncio.sleep(2)
            assert await c.running() == ["run"]

    run(scenario())


def test_without_a_webhook_the_controller_stops_a_job_that_runs_without_quota() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            c.world.admission.clear()
            await c.queues(cpu="1")
            await c.submit("run", suspend=True)
            await c.until(c.running, ["run"])
            await c.submit("wild", suspend=False)
            await c.until(c.running, ["run"])
            await c.until(lambda: _reason(c, "wild"), "WaitingForQuota")
            await c.until(lambda: stopped(c, "wild"), ["Missing Workload; unable to restore pod templates"])

    run(scenario())


async def _reason(c: Cluster, job: str) -> str | None:
    found = await c.condition(job, "QuotaReserved")
    return found[1] if found else None


def test_a_job_without_queue_is_not_managed_until_it_gets_one() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("free", queue=None)
            await c.submit("later", queue=None, suspend=True)
            await asyncio.sleep(2)
            assert await c.running() == ["free"]
            assert await c.client.list(WORKLOADS, NS) == []
            await c.client.patch(JOBS, NS, "later", {"metadata": {"labels": {QUEUE: "lq"}}})
            await c.until(c.running, ["free", "later"])

    run(scenario())


def test_a_pending_job_unsuspended_by_a_user_is_suspended_again() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait")
            await c.until(lambda: _reason(c, "wait"), "WaitingForQuota")
            await c.client.patch(JOBS, NS, "wait", {"spec": {"suspend": False}})
            await c.until(c.running, ["run"])
            await c.until(lambda: stopped(c, "wait"), ["Not admitted by cluster queue"])
            await c.until(lambda: severities(c, "wait", "PolicyViolation"), ["Warning"])

    run(scenario())


def test_an_admitted_job_suspended_by_a_user_is_started_again() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            all_ready = "All pods reached readiness and the workload is running"
            await c.until(lambda: c.condition("a", "PodsReady"), ("True", "Started", all_ready))
            await c.client.patch(JOBS, NS, "a", {"spec": {"suspend": True}})
            await c.until(lambda: c.condition("a", "PodsReady"), ("True", "Recovered", all_ready))
            await c.until(c.running, ["a"])
            assert (await c.condition("a", "Admitted"))[0] == "True"  # type: ignore[index]

    run(scenario())


def test_an_edit_of_a_pending_job_updates_its_workload() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="2")
            await c.submit("run", "1")
            await c.submit("wait", "1", parallelism=2, completions=2)
            await c.until(lambda: _reason(c, "wait"), "WaitingForQuota")
            before = await c.workload("wait")
            await c.client.patch(JOBS, NS, "wait", {"spec": {"parallelism": 1}})
            await c.until(c.running, ["run", "wait"])
            after = await c.workload("wait")
            assert after["metadata"]["uid"] == before["metadata"]["uid"]
            assert after["spec"]["podSets"][0]["count"] == 1
            await c.until(lambda: severities(c, "wait", "UpdatedWorkload"), ["Normal"])

    run(scenario())


def test_an_edit_of_a_running_job_stops_it_and_queues_it_again() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="2")
            await c.submit("a", "1")
            await c.until(c.running, ["a"])
            await asyncio.sleep(2)
            before = await c.workload("a")
            await c.client.patch(JOBS, NS, "a", {"spec": {"parallelism": 0}})
            await c.until(lambda: _pods(c, "a"), 0)
            after = await c.workload("a")
            assert after["metadata"]["name"] == before["metadata"]["name"]
            assert after["metadata"]["uid"] != before["metadata"]["uid"]
            await c.until(c.running, ["a"])
            await c.until(lambda: has_stopped(c, "a", RESTORED), True)

    run(scenario())


RESTORED = "No matching Workload; restoring pod templates according to existent Workload"


async def has_stopped(c: Cluster, job: str, message: str) -> bool:
    return message in await stopped(c, job)


async def _pods(c: Cluster, job: str) -> int:
    return (await c.workload(job))["spec"]["podSets"][0]["count"]  # type: ignore[no-any-return]


async def has_workload(c: Cluster, job: str) -> bool:
    return any(w["metadata"]["ownerReferences"][0]["name"] == job for w in await c.client.list(WORKLOADS, NS))


def test_the_workload_of_a_job_that_leaves_its_queue_is_deleted() -> None:
    """In Kueue the Workload stays and holds quota forever (recording i13)."""

    async def scenario() -> None:
        async with cluster(run=PodScript(ends_after=None)) as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait")
            await c.submit("next")
            await asyncio.sleep(1)
            await c.client.patch(JOBS, NS, "wait", {"metadata": {"labels": {QUEUE: None}}})
            await c.client.delete(JOBS, NS, "run", propagation="Background")
            await c.until(c.running, ["next"])
            await c.until(lambda: has_workload(c, "wait"), False)

    run(scenario())


def test_a_change_of_queue_is_applied_while_pending_and_refused_while_running() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait")
            await c.until(lambda: _reason(c, "wait"), "WaitingForQuota")
            await c.client.patch(JOBS, NS, "wait", {"metadata": {"labels": {QUEUE: "elsewhere"}}})
            missing = ("False", "Misconfigured", "LocalQueue elsewhere doesn't exist")
            await c.until(lambda: c.condition("wait", "QuotaReserved"), missing)
            with pytest.raises(ApiError) as refused:
                await c.client.patch(JOBS, NS, "run", {"metadata": {"labels": {QUEUE: "elsewhere"}}})
            assert "field is immutable" in refused.value.message
            await c.local_queue("elsewhere")
            await c.client.delete(JOBS, NS, "run", propagation="Background")
            await c.until(c.running, ["wait"])

    run(scenario())


TIMEOUT = "waitForPodsReady: {timeout: 2s, requeuingStrategy: {backoffBaseSeconds: 5}}\n"


def test_a_change_of_queue_is_applied_during_the_backoff() -> None:
    async def scenario() -> None:
        async with cluster(TIMEOUT, a=PodScript(ready_after=None, ends_after=None)) as c:
            await c.queues()
            await c.local_queue("other")
            await c.submit("a")
            await c.until(c.running, ["a"])
            await c.until(c.running, [])
            await c.client.patch(JOBS, NS, "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
            await c.until(lambda: _queue(c, "a"), "other", 1)

    run(scenario())


async def _queue(c: Cluster, job: str) -> str:
    return str((await c.workload(job))["spec"]["queueName"])


def test_the_queue_of_a_workload_follows_its_job_only() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.local_queue("other")
            await c.submit("a")
            await c.submit("b")
            await c.until(lambda: _reason(c, "b"), "WaitingForQuota")
            name = (await c.workload("b"))["metadata"]["name"]
            await c.client.patch(WORKLOADS, NS, name, {"spec": {"queueName": "other"}})
            await c.until(lambda: _queue(c, "b"), "lq")

    run(scenario())


def test_the_queue_name_of_a_workload_with_quota_cannot_be_changed() -> None:
    """Kueue accepts null, and then any other name."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.local_queue("other")
            await c.submit("a")
            await c.until(c.running, ["a"])
            name = (await c.workload("a"))["metadata"]["name"]
            for queue in ("other", None):
                with pytest.raises(ApiError, match="queueName is immutable while workload quota reserved"):
                    await c.client.patch(WORKLOADS, NS, name, {"spec": {"queueName": queue}})
            assert await _queue(c, "a") == "lq"

    run(scenario())


def test_a_local_queue_without_cluster_queue_is_refused_with_its_field() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            meta = {"name": "nowhere", "namespace": NS}
            with pytest.raises(ApiError, match=r"spec\.clusterQueue"):
                await c.create(LOCAL_QUEUES, {**API, "kind": "LocalQueue", "metadata": meta, "spec": {}})

    run(scenario())


def test_a_managed_job_without_its_queue_name_is_in_no_queue() -> None:
    """With manageJobsWithoutQueueName it keeps its Workload without a queueName: the API refuses an empty one."""

    async def scenario() -> None:
        async with cluster("manageJobsWithoutQueueName: true") as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait")
            await c.until(lambda: _reason(c, "wait"), "WaitingForQuota")
            await c.client.patch(JOBS, NS, "wait", {"metadata": {"labels": {QUEUE: None}}})
            await c.until(lambda: _reason(c, "wait"), "Misconfigured")
            assert "queueName" not in (await c.workload("wait"))["spec"]

    run(scenario())


def test_a_deleted_workload_stops_its_job_and_a_new_one_queues_behind() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.until(c.running, ["run"])
            await asyncio.sleep(2)
            await c.submit("wait")
            name = (await c.workload("run"))["metadata"]["name"]
            await c.client.delete(WORKLOADS, NS, name)
            await c.until(c.running, ["wait"])
            assert (await c.workload("run"))["metadata"]["name"] == name
            await c.until(lambda: stopped(c, "run"), ["Workload is deleted"])

    run(scenario())


def test_an_orphaned_workload_is_finished() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            await c.client.delete(JOBS, NS, "a", propagation="Orphan")

            async def ends() -> object:
                return [condition(w["status"], "Finished") for w in await c.client.list(WORKLOADS, NS)]

            await c.until(ends, [("True", "OwnerNotFound", "The workload's owner no longer exists")])
            status = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]
            await c.until(lambda: _reserving(c), 0)
            assert status is not None

    run(scenario())


@pytest.mark.parametrize("propagation", [pytest.param("Background", marks=VIRTUAL_TIME), "Foreground"])
def test_the_quota_of_a_deleted_job_is_in_use_until_its_last_pod_has_ended(propagation: str) -> None:
    """While a foreign finalizer keeps the Job, its pods end in their own time."""

    async def scenario() -> None:
        async with cluster(going=PodScript(ends_after=None, stops_within=5)) as c:
            await c.queues(cpu="1")
            await c.submit("going")
            await c.until(lambda: _live(c, "going"), 1)
            if propagation == "Background":
                await c.client.patch(JOBS, NS, "going", {"metadata": {"finalizers": ["example.com/theirs"]}})
            await c.submit("next")
            await c.client.delete(JOBS, NS, "going", propagation=propagation)
            await asyncio.sleep(2)
            assert await _live(c, "going") == 1
            assert await c.condition("going", "Finished") is None
            assert await c.running() == ["going"]
            await c.client.patch(JOBS, NS, "going", {"metadata": {"finalizers": None}})
            while await _live(c, "going"):
                assert await _live(c, "next") == 0
                await asyncio.sleep(0.2)
            await c.until(c.running, ["next"])

    run(scenario())


async def _live(c: Cluster, job: str) -> int:
    """The pods that may run."""
    pods = await c.client.list(PODS, NS, label_selector=f"batch.kubernetes.io/job-name={job}")
    return sum(pod["status"]["phase"] in ("Pending", "Running") for pod in pods)


async def _reserving(c: Cluster) -> int:
    return (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]["reservingWorkloads"]  # type: ignore[no-any-return]


def test_an_admission_gate_holds_a_job_until_it_is_removed() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            gate = "kueue.x-k8s.io/admission-gated-by"
            await c.submit("a", annotations={gate: "example.com/g"})
            gated = ("False", "AdmissionGated", "Admission is gated by: example.com/g")
            await c.until(lambda: c.condition("a", "QuotaReserved"), gated)
            await c.client.patch(JOBS, NS, "a", {"metadata": {"annotations": {gate: None}}})
            await c.until(c.running, ["a"])

    run(scenario())


def test_a_job_waits_for_its_unknown_priority_class() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a", labels={"kueue.x-k8s.io/priority-class": "vip"})
            missing = ("Warning", "WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "vip" not found')
            await c.until(lambda: c.events("a"), [missing])
            tree = {**API, "kind": "WorkloadPriorityClass", "metadata": {"name": "vip"}, "value": 7}
            await c.create(WORKLOAD_PRIORITY_CLASSES, tree)
            await c.until(c.running, ["a"])
            await c.client.patch(WORKLOAD_PRIORITY_CLASSES, "", "vip", {"value": 9})
            await c.until(lambda: _priority(c, "a"), 9)

    run(scenario())


async def _priority(c: Cluster, job: str) -> int:
    return (await c.workload(job))["spec"]["priority"]  # type: ignore[no-any-return]


def test_a_template_that_contradicts_the_injected_labels_fails_to_start() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
            template = {
                "metadata": {"labels": {"kueue.x-k8s.io/podset": "other"}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
            meta = {"name": "a", "namespace": NS, "labels": {QUEUE: "lq"}}
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}
            await c.create(JOBS, job)
            message = (
                "invalid admission check PodSetUpdate: conflict for labels: "
                "conflict for key=kueue.x-k8s.io/podset, value1=other, value2=main"
            )
            await c.until(lambda: c.condition("a", "Finished"), ("True", "FailedToStart", message))
            await c.submit("next")
            await c.until(c.running, ["next"])

    run(scenario())


def test_jobs_without_queue_name_go_to_the_default_queue() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.local_queue("default")
            await c.until_default_queue()
            await c.submit("a", queue=None)
            assert (await c.job("a"))["metadata"]["labels"][QUEUE] == "default"
            await c.until(c.running, ["a"])

    run(scenario())


def test_a_job_waits_until_its_namespace_is_selected() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(namespaceSelector={"matchLabels": {"team": "a"}})
            await c.submit("a")
            reason = ("False", "Misconfigured", "workload namespace doesn't match ClusterQueue selector")
            await c.until(lambda: c.condition("a", "QuotaReserved"), reason)
            await c.client.patch(NAMESPACES, "", NS, {"metadata": {"labels": {"team": "a"}}})
            await c.until(c.running, ["a"])

    run(scenario())


def test_queues_and_flavors_in_use_outlive_their_deletion() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.until(c.running, ["run"])
            await c.submit("wait")
            await c.client.delete(RESOURCE_FLAVORS, "", "default")
            await c.client.delete(CLUSTER_QUEUES, "", "cq")

            async def active() -> tuple[str, str, str] | None:
                return condition((await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"], "Active")

            ends = ("False", "Terminating", "Can't admit new workloads; clusterQueue is terminating")
            await c.until(active, ends)
            waits = ("False", "Suspended", "ClusterQueue cq is inactive")
            await c.until(lambda: c.condition("wait", "QuotaReserved"), waits)
            assert await exists(c, RESOURCE_FLAVORS, "default")
            await c.succeed("run")
            await c.until(lambda: exists(c, CLUSTER_QUEUES, "cq"), False)
            gone = ("False", "Misconfigured", "ClusterQueue cq doesn't exist")
            await c.until(lambda: c.condition("wait", "QuotaReserved"), gone)
            await c.until(lambda: exists(c, RESOURCE_FLAVORS, "default"), False)
            status = (await c.client.get(LOCAL_QUEUES, NS, "lq"))["status"]
            assert condition(status, "Active") == (
                "False",
                "ClusterQueueDoesNotExist",
                "Can't submit new workloads to clusterQueue",
            )

            async def still_counted() -> int:
                return int((await c.client.get(LOCAL_QUEUES, NS, "lq"))["status"]["pendingWorkloads"])

            await c.until(still_counted, 1)  # it is pending, even without a queue

    run(scenario())


def test_finished_pods_give_their_quota_back_early() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="2")
            await c.submit("wide", "1", parallelism=2, completions=2)
            await c.until(c.running, ["wide"])
            await c.until(lambda: _live(c, "wide"), 2)
            await c.submit("next")
            await asyncio.sleep(2)
            assert await c.running() == ["wide"]
            await _succeed_one(c)
            await c.until(c.running, ["next", "wide"])
            assert (await c.workload("wide"))["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]

    run(scenario())


async def _succeed_one(c: Cluster) -> None:
    from queue_manager.api.api_resources import PODS
    from queue_manager.simulation.kubelet import pod_status

    pod = (await c.client.list(PODS, NS))[0]
    status = pod_status("Succeeded", 0, c.world.clock.now())
    await c.client.patch(PODS, NS, pod["metadata"]["name"], {"status": status}, subresource="status")

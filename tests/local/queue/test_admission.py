"""A Job from submission to its end through the queue, with the Job controller, in virtual time and on a real server."""

from __future__ import annotations

import asyncio
from datetime import datetime

import msgspec
import pytest
from prometheus_client.utils import floatToGoString

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import NS, Cluster, cluster, condition, versions
from tests.local.queue.environments import VIRTUAL_TIME, rest, run
from tests.local.queue.facts import plain

pytestmark = pytest.mark.usefixtures("environment")

SHORT = PodScript(ready_after=0.2, ends_after=1.0)
WAITING = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"


def test_a_job_is_queued_admitted_run_and_finished() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: c.condition("a", "PodsReady"), READY)
            await c.succeed("a")
            await c.until(lambda: c.condition("a", "Finished"), FINISHED)
            workload, job = await c.workload("a"), await c.job("a")
            assert workload["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]}
            await c.until(lambda: _finalizers(c, "a"), [])
            assert condition(workload["status"], "QuotaReserved") == (
                "True",
                "QuotaReserved",
                "Quota reserved in ClusterQueue cq",
            )
            assert condition(workload["status"], "Admitted") == ("True", "Admitted", "The workload is admitted")
            assert condition(workload["status"], "PodsReady") == READY
            assert workload["status"]["admission"] == {
                "clusterQueue": "cq",
                "podSetAssignments": [
                    {"count": 1, "flavors": {"cpu": "default"}, "name": "main", "resourceUsage": {"cpu": "1"}}
                ],
            }
            name = workload["metadata"]["name"]
            assert job["spec"]["template"]["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": name}
            injected = job["spec"]["template"]["metadata"]["labels"]
            assert {k: v for k, v in injected.items() if "kueue" in k} == {
                "kueue.x-k8s.io/podset": "main",
                "kueue.x-k8s.io/local-queue-name": "lq",
                "kueue.x-k8s.io/cluster-queue-name": "cq",
            }
            of_job = {
                ("Normal", "CreatedWorkload", f"Created Workload: ns/{name}"),
                ("Normal", "Started", "Admitted by clusterQueue cq"),
                ("Normal", "FinishedWorkload", f"Workload 'ns/{name}' is declared finished"),
            }
            of_workload = {
                ("Normal", "QuotaReserved", "Quota reserved in ClusterQueue cq, wait time since queued was Ns"),
                ("Normal", "Admitted", "Admitted by ClusterQueue cq, wait time since reservation was Ns"),
            }
            await c.until(lambda: _described_by_jobs(c, "a"), of_job)
            await c.until(lambda: _described(c, name), of_workload)

    run(scenario())


async def _described(c: Cluster, workload: str) -> set[tuple[str, str, str]]:
    return {(severity, reason, plain(text)) for severity, reason, text in await c.events(workload)}


async def _described_by_jobs(c: Cluster, job: str) -> set[tuple[str, str, str]]:
    return set(await c.events(job, component="batch/job-kueue-controller"))


READY = ("True", "Started", "All pods reached readiness and the workload is running")
FINISHED = ("True", "Succeeded", "Reached expected number of succeeded pods")


async def _finalizers(c: Cluster, job: str) -> list[str]:
    return (await c.workload(job))["metadata"].get("finalizers", [])


def test_the_workload_of_a_job_is_as_in_kueue() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a", parallelism=3, completions=2)
            await c.until(c.running, ["a"])
            workload, job = await c.workload("a"), await c.job("a")
            spec = workload["spec"]
            assert (spec["queueName"], spec["priority"], spec["active"]) == ("lq", 0, True)
            (pod_set,) = spec["podSets"]
            assert (pod_set["name"], pod_set["count"]) == ("main", 2)
            assert pod_set["topologyRequest"] == {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
            assert pod_set["template"]["metadata"]["labels"] == {"batch.kubernetes.io/job-name": "a"}
            assert pod_set["template"]["spec"]["containers"] == job["spec"]["template"]["spec"]["containers"]
            (owner,) = workload["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "a", True)
            assert workload["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]

    run(scenario())


def test_from_creation_to_running_takes_at_most_four_writes_of_ours() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await asyncio.sleep(3)
            before = len(c.world.history)
            await c.submit("a")
            await c.until(c.running, ["a"])

            async def is_started() -> bool:
                return any(b'"suspend":false' in line for line in c.world.history[before:])

            await c.until(is_started, True)  # the history of a write is complete when its answer has been read
            workload_writes = [h for h in c.world.history[before:] if h.split(b" ")[1] == _WORKLOADS]
            assert len(workload_writes) <= 3

    run(scenario())


_WORKLOADS = b"workloads.kueue.x-k8s.io"


def test_a_pending_job_names_the_missing_quota_and_starts_once_it_is_free() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("first")
            await c.submit("second")
            await c.until(lambda: c.condition("second", "QuotaReserved"), ("False", "WaitingForQuota", WAITING))
            assert await c.condition("second", "Admitted") == (
                "False",
                "NoReservation",
                "The workload has no reservation",
            )
            requests = (await c.workload("second"))["status"]["resourceRequests"]
            assert requests == [{"name": "main", "resources": {"cpu": "1"}}]
            await c.succeed("first")
            await c.until(c.running, ["second"])
            assert "resourceRequests" not in (await c.workload("second"))["status"]

    run(scenario())


def test_priority_goes_first_then_age() -> None:
    async def scenario() -> None:
        async with cluster(**dict.fromkeys(("old", "new", "hi"), SHORT)) as c:
            await c.queues(cpu="1")
            for name, value in (("high", 100), ("low", 10)):
                await c.apply_class(name, value)
            await c.submit("run")
            await c.submit("old")
            await asyncio.sleep(1)
            await c.submit("new")
            await c.submit("hi", labels={"kueue.x-k8s.io/priority-class": "high"})
            await c.until(lambda: _waits(c, "hi"), True)
            await c.succeed("run")
            await c.until(lambda: c.condition("new", "Finished"), FINISHED)
            starts = {j["metadata"]["name"]: j["status"]["startTime"] for j in await c.client.list(JOBS, NS)}
            assert sorted(starts, key=starts.__getitem__) == ["run", "hi", "old", "new"]
            workload = await c.workload("hi")
            assert workload["spec"]["priority"] == 100
            assert workload["spec"]["priorityClassRef"] == {
                "group": "kueue.x-k8s.io",
                "kind": "WorkloadPriorityClass",
                "name": "high",
            }

    run(scenario())


def test_jobs_of_the_same_second_start_in_the_order_of_their_creation() -> None:
    async def scenario() -> None:
        names = ["a", "e", "c", "d", "b", "h", "g", "f"]
        async with cluster(**dict.fromkeys(names, SHORT)) as c:
            await c.queues(cpu="1")
            for name in names:
                await c.submit(name)
            await c.until(lambda: c.condition("f", "Finished"), FINISHED)
            starts = {j["metadata"]["name"]: j["status"]["startTime"] for j in await c.client.list(JOBS, NS)}
            assert sorted(starts, key=starts.__getitem__) == names

    run(scenario())


@VIRTUAL_TIME
def test_a_head_that_does_not_fit_blocks_a_strict_queue_only() -> None:
    async def scenario(strategy: str, expected: list[str]) -> None:
        async with cluster() as c:
            await c.queues(cpu="3", strategy=strategy)
            await c.submit("run", "2")
            await c.submit("big", "2")
            await c.submit("small", "1")
            await c.until(c.running, expected)
            await c.until(lambda: _waits(c, "big"), True)
            await asyncio.sleep(35)  # a period after the last admission its numbers are right
            cycles = c.world.queue.scheduler.cycles
            await rest(60)
            assert c.world.queue.scheduler.cycles == cycles, "nothing changed, so nothing may be tried"
            assert await c.running() == expected

    run(scenario("StrictFIFO", ["run"]))
    run(scenario("BestEffortFIFO", ["run", "small"]))


def test_a_blocked_head_costs_no_cycle_and_one_event() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1", strategy="StrictFIFO")
            await c.submit("a")
            await c.submit("b")
            await c.until(lambda: _waits(c, "b"), True)
            await c.until(lambda: _warnings(c, "job-b"), 1)
            await asyncio.sleep(35)  # a period after the last admission its numbers are right
            cycles = c.world.queue.scheduler.cycles
            await rest(3600)
            assert c.world.queue.scheduler.cycles == cycles
            assert await _warnings(c, "job-b") == 1

    run(scenario())


async def _warnings(c: Cluster, name: str) -> int:
    return len([severity for severity, _, _ in await c.events(name) if severity == "Warning"])


async def _reasons(c: Cluster, name: str) -> set[str]:
    return {reason for _, reason, _ in await c.events(name)}


async def _never_fits(c: Cluster) -> bool:
    return "NeverFits" in await _reasons(c, "job-never")


async def _waits(c: Cluster, job: str) -> bool:
    return (await c.condition(job, "QuotaReserved") or ("",))[0] == "False"


def test_a_head_that_can_never_fit_is_reported_and_can_be_skipped() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1", strategy="StrictFIFO")
            head = 'sluice_cluster_queue_head_queued_timestamp_seconds{cluster_queue="cq"} '
            assert head not in c.world.metrics.exposition()
            await c.submit("never", "2")
            await c.submit("b")
            await c.until(lambda: _blocked(c), "HeadNeverFits")
            assert await c.running() == []
            await c.until(lambda: _never_fits(c), True)
            gauge = 'sluice_cluster_queue_blocked_by_never_fitting_head{cluster_queue="cq"} '
            assert gauge + "1.0" in c.world.metrics.exposition()
            created = (await c.job("never"))["metadata"]["creationTimestamp"]
            assert head + floatToGoString(datetime.fromisoformat(created).timestamp()) in c.world.metrics.exposition()
            note = {"sluice/pass-by-never-fitting-head": "true"}
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"metadata": {"annotations": note}})
            await c.until(c.running, ["b"])
            await c.until(lambda: _blocked(c), "")
            assert gauge + "0.0" in c.world.metrics.exposition()

    run(scenario())


async def _blocked(c: Cluster) -> str:
    conditions = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]["conditions"]
    return next((x["reason"] for x in conditions if x["type"] == "Blocked"), "")


def test_a_change_to_best_effort_admits_the_blocked_jobs() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="3", strategy="StrictFIFO")
            await c.submit("run", "2")
            await c.submit("big", "2")
            await c.submit("small", "1")
            await asyncio.sleep(1)
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"queueingStrategy": "BestEffortFIFO"}})
            await c.until(c.running, ["run", "small"])

    run(scenario())


def test_deleting_a_running_job_releases_everything() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.until(c.running, ["run"])
            await c.submit("wait")
            await c.client.delete(JOBS, NS, "run", propagation="Background")
            await c.until(c.running, ["wait"])
            await c.until(lambda: _names(c, WORKLOADS), [(await c.workload("wait"))["metadata"]["name"]])

    run(scenario())


def test_deleting_a_pending_job_removes_its_workload() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait")
            await c.until(lambda: c.condition("wait", "QuotaReserved"), ("False", "WaitingForQuota", WAITING))
            await c.client.delete(JOBS, NS, "wait", propagation="Background")
            await c.until(lambda: _count(c, WORKLOADS), 1)
            await c.until(lambda: _status(c, "pendingWorkloads"), 0)

    run(scenario())


async def _names(c: Cluster, resource: object) -> list[str]:
    return sorted(o["metadata"]["name"] for o in await c.client.list(resource, NS))  # type: ignore[arg-type]


async def _count(c: Cluster, resource: object) -> int:
    return len(await _names(c, resource))


async def _status(c: Cluster, field: str) -> object:
    return (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"][field]


def test_queue_status_counts_workloads_and_usage_and_is_not_rewritten() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait")
            usage = [{"name": "default", "resources": [{"name": "cpu", "total": "1"}]}]
            for resource, namespace, name in ((CLUSTER_QUEUES, "", "cq"), (LOCAL_QUEUES, NS, "lq")):

                async def counts(resource: object = resource, namespace: str = namespace, name: str = name) -> object:
                    status = (await c.client.get(resource, namespace, name))["status"]  # type: ignore[arg-type]
                    return [status[f"{kind}Workloads"] for kind in ("pending", "reserving", "admitted")]

                await c.until(counts, [1, 1, 1])
                status = (await c.client.get(resource, namespace, name))["status"]
                assert condition(status, "Active")[:2] == ("True", "Ready")  # type: ignore[index]
            assert (await c.client.get(LOCAL_QUEUES, NS, "lq"))["status"]["flavorsUsage"] == usage
            await asyncio.sleep(3)
            before = len(c.world.history)
            await rest(600)
            assert len(c.world.history) == before, "nothing may be written at rest"

    run(scenario())


RETRIES = """\
waitForPodsReady:
  {timeout: 2s, recoveryTimeout: 2s, requeuingStrategy: {backoffBaseSeconds: 5, backoffLimitCount: 1}}
"""


def test_every_write_of_workloads_and_queues_changes_something() -> None:
    async def scenario() -> None:
        async with cluster(RETRIES, a=PodScript(ready_after=None, ends_after=None)) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: is_active(c, "a"), False)
            await asyncio.sleep(2)
        for resource in (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES):
            last: dict[str, bytes] = {}
            for tree in versions(c, resource):
                name = tree["metadata"]["name"]
                for changing in ("resourceVersion", "managedFields", "generation"):
                    tree["metadata"].pop(changing, None)
                now = msgspec.json.encode(tree, order="sorted")
                assert last.get(name) != now, f"{resource} {name} was written and did not change"
                last[name] = now

    run(scenario())


async def is_active(c: Cluster, job: str) -> bool:
    return bool((await c.workload(job))["spec"]["active"])


def test_pods_run_on_nodes_of_their_flavor_and_a_stop_restores_the_template() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.flavor("gpu", nodeLabels={"kind": "gpu"}, tolerations=[{"key": "gpu", "operator": "Exists"}])
            group = {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "gpu", "resources": [{"name": "cpu", "nominalQuota": "2"}]}],
            }
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"resourceGroups": [group]}})
            await c.until(lambda: _flavors(c), ["gpu"])
            await c.submit("a", pod={"nodeSelector": {"disk": "ssd"}})
            await c.until(c.running, ["a"])
            spec = (await c.job("a"))["spec"]["template"]["spec"]
            assert spec["nodeSelector"] == {"disk": "ssd", "kind": "gpu"}
            assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
            workload = await c.workload("a")
            await c.client.patch(WORKLOADS, NS, workload["metadata"]["name"], {"spec": {"active": False}})
            await c.until(c.running, [])
            await c.until(lambda: c.condition("a", "QuotaReserved"), ("False", "Deactivated", DEACTIVATED))
            template = (await c.job("a"))["spec"]["template"]
            assert template["spec"]["nodeSelector"] == {"disk": "ssd"}
            assert not template["spec"].get("tolerations")
            assert not template["metadata"].get("annotations")
            assert not [k for k in template["metadata"]["labels"] if "kueue" in k]
            assert await _count(c, PODS) == 0

    run(scenario())


async def _flavors(c: Cluster) -> list[str]:
    """The flavors that the controllers know of the ClusterQueue."""
    status = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]
    return [usage["name"] for usage in status["flavorsUsage"]]


DEACTIVATED = "The workload is deactivated"

"""Attempts of users to run pods outside of quota."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
import pytest

from job_controller.times import timestamp
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import NS, Cluster, cluster
from tests.local.queue.environments import VIRTUAL_TIME, rest, run

pytestmark = pytest.mark.usefixtures("environment")

QUEUE = "kueue.x-k8s.io/queue-name"
EVERYTHING = "manageJobsWithoutQueueName: true"
DEFAULT = {"cpu": "default"}


def pods_created(c: Cluster, job: str) -> int:
    """How many pods this Job has ever had, by the history of the store."""
    created = [line.split(b" ", 2) for line in c.world.history]
    pods = [msgspec.json.decode(data) for what, kind, data in created if (what, kind) == (b"ADDED", b"pods")]
    return sum(pod["metadata"]["ownerReferences"][0]["name"] == job for pod in pods)


async def edit(c: Cluster, job: str, **spec: Any) -> None:
    await c.client.patch(JOBS, NS, job, {"spec": spec})


async def suspended(c: Cluster, job: str) -> bool:
    return bool((await c.job(job))["spec"].get("suspend"))


async def has_workload(c: Cluster, job: str) -> bool:
    try:
        await c.workload(job)
    except LookupError:
        return False
    return True


@contextmanager
def without_webhooks(c: Cluster) -> Iterator[None]:
    """As on a cluster whose webhooks do not answer and may be skipped."""
    rules, c.world.admission[:] = list(c.world.admission), []
    yield
    c.world.admission[:] = rules


async def beside_a_full_queue(c: Cluster, **submitted: Any) -> None:
    """`run` uses all of the one cpu of quota; `wait` is pending."""
    await c.queues(cpu="1")
    await c.submit("run")
    await c.until(c.running, ["run"])
    await c.submit("wait", **submitted)
    await c.until(lambda: has_workload(c, "wait"), True)
    await asyncio.sleep(1)


@pytest.mark.parametrize(("config", "queue"), [("", "lq"), (EVERYTHING, "lq"), (EVERYTHING, None)])
def test_no_pod_is_created_when_a_waiting_job_is_unsuspended(config: str, queue: str | None) -> None:
    """The Job controller asks for a permit, so that no pod starts between the user's write and the next suspension."""

    async def scenario() -> None:
        async with cluster(config) as c:
            await beside_a_full_queue(c, queue=queue)
            for _ in range(100):
                await edit(c, "wait", suspend=False)
                await asyncio.sleep(0.03)
            await c.until(lambda: suspended(c, "wait"), True)
            assert pods_created(c, "wait") == 0

    run(scenario())


def test_no_pod_is_created_before_admission_when_no_webhook_suspended_the_job() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.until(c.running, ["run"])
            with without_webhooks(c):
                await c.submit("wait", suspend=False)
            await c.until(lambda: suspended(c, "wait"), True)
            assert pods_created(c, "wait") == 0
            await c.client.delete(JOBS, NS, "run", propagation="Background")
            await c.until(c.running, ["wait"])
            await c.until(lambda: created(c, "wait"), 1)

    run(scenario())


async def created(c: Cluster, job: str) -> int:
    return pods_created(c, job)


def test_a_waiting_job_stays_suspended_when_its_queue_label_is_removed() -> None:
    """Unsuspending is undone until the Workload is deleted; from then on the Job is not managed."""

    async def scenario() -> None:
        async with cluster() as c:
            await beside_a_full_queue(c)
            with without_webhooks(c):
                leaves = {"metadata": {"labels": {QUEUE: None}}, "spec": {"suspend": False}}
                await c.client.patch(JOBS, NS, "wait", leaves)
            await c.until(lambda: has_workload(c, "wait"), False)
            assert await suspended(c, "wait")
            assert pods_created(c, "wait") == 0
            await edit(c, "wait", suspend=False)
            await c.until(lambda: created(c, "wait"), 1)

    run(scenario())


def test_no_pod_is_added_when_a_running_job_is_made_bigger_than_admitted() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="2")
            await c.submit("a", parallelism=1, completions=4)
            await c.until(c.running, ["a"])
            await c.until(lambda: created(c, "a"), 1)
            await edit(c, "a", parallelism=4)
            await c.until(lambda: suspended(c, "a"), True)
            await rest(5)
            assert await suspended(c, "a")
            assert pods_created(c, "a") == 1
            await edit(c, "a", parallelism=2)
            await c.until(lambda: created(c, "a"), 3)

    run(scenario())


def test_no_pod_is_created_when_an_evicted_job_is_unsuspended() -> None:
    """Its pod fails at the same moment, and its replacement must not run without quota."""

    async def scenario() -> None:
        config = "waitForPodsReady: {timeout: 2s, requeuingStrategy: {backoffBaseSeconds: 60}}"
        async with cluster(config, a=PodScript(ready_after=None, ends_after=None, stops_within=5.0)) as c:
            await c.queues(cpu="1")
            await c.submit("a", backoffLimit=6)
            await c.until(lambda: evicted(c, "a"), True)
            await edit(c, "a", suspend=False)
            await asyncio.sleep(10)
            assert pods_created(c, "a") == 1

    run(scenario())


async def evicted(c: Cluster, job: str) -> bool:
    found = await c.condition(job, "Evicted")
    return found is not None and found[0] == "True"


# --- Jobs that belong to others ----------------------------------------------------------------------------


def owned_by(uid: str, api_version: str = "batch/v1") -> dict[str, Any]:
    owner = {"apiVersion": api_version, "kind": "Job", "name": "run", "uid": uid, "controller": True}
    return {"ownerReferences": [owner]}


async def make_child(c: Cluster, **meta: Any) -> dict[str, Any]:
    """Create an unsuspended Job `child` without queue name; returns the API server's answer."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    tree = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "child", "namespace": NS, **meta}}
    return await c.create(JOBS, {**tree, "spec": {"backoffLimit": 0, "template": template}})


@pytest.mark.parametrize("api_version", ["batch.volcano.sh/v1alpha1", "batchx/v1", "v1"])
def test_an_owner_of_kind_job_in_another_group_makes_no_child(api_version: str) -> None:
    """The owner even has the UID of a managed Job that is admitted."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.local_queue("default")
            await c.submit("run")
            await c.until(c.running, ["run"])
            await c.until_default_queue()
            child = await make_child(c, **owned_by((await c.job("run"))["metadata"]["uid"], api_version))
            assert child["metadata"]["labels"][QUEUE] == "default"
            assert child["spec"]["suspend"]
            await asyncio.sleep(1)
            assert pods_created(c, "child") == 0

    run(scenario())


def test_an_owner_that_the_queue_does_not_manage_makes_no_child() -> None:
    """The owner is older than the default queue: the Jobs that it owns are queued like any other."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run", queue=None)
            await c.local_queue("default")
            await c.until_default_queue()
            child = await make_child(c, **owned_by((await c.job("run"))["metadata"]["uid"]))
            assert child["metadata"]["labels"][QUEUE] == "default"

    run(scenario())


def test_a_child_of_a_finished_job_gets_no_pod() -> None:
    """The quota of its parent is given back and covers nothing any more."""

    async def scenario() -> None:
        async with cluster(run=PodScript(ready_after=0.2, ends_after=0.5)) as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.until(lambda: condition_of(c, "run", "Complete"), True)
            await c.until(lambda: finished(c, "run"), True)
            await make_child(c, **owned_by((await c.job("run"))["metadata"]["uid"]))
            await c.until(lambda: suspended(c, "child"), True)
            assert pods_created(c, "child") == 0
            await c.client.patch(JOBS, NS, "child", {"metadata": {"labels": {QUEUE: "lq"}}})
            await c.until(lambda: created(c, "child"), 1)

    run(scenario())


def test_a_child_is_suspended_when_its_parent_ends() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.until(c.running, ["run"])
            await make_child(c, **owned_by((await c.job("run"))["metadata"]["uid"]))
            await c.until(lambda: created(c, "child"), 1)
            await c.succeed("run")
            await c.until(lambda: suspended(c, "child"), True)
            assert await condition_of(c, "run", "Complete")

    run(scenario())


async def finished(c: Cluster, job: str) -> bool:
    return await c.condition(job, "Finished") is not None


async def condition_of(c: Cluster, job: str, kind: str) -> bool:
    conditions = (await c.job(job))["status"].get("conditions", ())
    return any(found["type"] == kind and found["status"] == "True" for found in conditions)


# --- usage that users write ----------------------------------------------------------------------------


def admission(usage: str, now: datetime, *, flavors: dict[str, str] = DEFAULT, queue: str = "cq") -> dict[str, Any]:
    given = {"name": "main", "flavors": flavors, "resourceUsage": {"cpu": usage}, "count": 1}
    true = {"lastTransitionTime": timestamp(now), "reason": "Admitted", "message": "forged", "status": "True"}
    conditions = [{**true, "type": kind} for kind in ("QuotaReserved", "Admitted")]
    return {"status": {"admission": {"clusterQueue": queue, "podSetAssignments": [given]}, "conditions": conditions}}


async def forge(c: Cluster, job: str, usage: str, **more: Any) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    await c.client.patch(WORKLOADS, NS, name, admission(usage, c.world.clock.now(), **more), subresource="status")


@pytest.mark.parametrize(
    ("usage", "flavors"),
    [
        ("0", DEFAULT),
        pytest.param("1e-9", DEFAULT, marks=VIRTUAL_TIME),
        ("1e9", DEFAULT),
        pytest.param("1", {}, marks=VIRTUAL_TIME),
        pytest.param("1", {"memory": "default"}, marks=VIRTUAL_TIME),
    ],
)
def test_usage_is_computed_from_pods_and_not_read_from_the_status(usage: str, flavors: dict[str, str]) -> None:
    """Of six Jobs at a quota of one, one is admitted by the queue and one by the forger, and no third."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            for name in "abcdef":
                await c.submit(name)
            await c.until(c.running, ["a"])
            await asyncio.sleep(1)
            await forge(c, "f", usage, flavors=flavors)
            await c.until(c.running, ["a", "f"])
            await rest(5)
            assert await c.running() == ["a", "f"]
            await c.until(lambda: used(c), "2")
            await c.client.delete(JOBS, NS, "a", propagation="Background")
            await c.client.delete(JOBS, NS, "f", propagation="Background")
            await c.until(c.running, ["b"])

    run(scenario())


def test_a_job_admitted_to_a_cluster_queue_that_does_not_exist_waits_until_it_does() -> None:
    """Its pods would count against no quota."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            for name in "ab":
                await c.submit(name)
            await c.until(c.running, ["a"])
            await asyncio.sleep(1)
            await forge(c, "b", "1", queue="nowhere")
            event = ("Warning", "Misconfigured", "Cannot be started: ClusterQueue nowhere doesn't exist")
            await c.until(lambda: has_event(c, "b", event), True)
            assert await c.running() == ["a"]
            quota = {"flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}
            spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], **quota}]}
            await c.create(CLUSTER_QUEUES, {"metadata": {"name": "nowhere"}, "spec": spec})
            await c.until(c.running, ["a", "b"])

    run(scenario())


async def has_event(c: Cluster, name: str, event: tuple[str, str, str]) -> bool:
    return event in await c.events(name)


@pytest.mark.parametrize("usage", ["-1", "-100m", -1])
def test_negative_usage_is_refused(usage: str) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("a", "2")
            await c.until(lambda: has_workload(c, "a"), True)
            with pytest.raises(ApiError) as refused:
                await forge(c, "a", usage)
            assert refused.value.status == 422
            assert "status.admission.podSetAssignments[0].resourceUsage.cpu" in refused.value.message

    run(scenario())


async def used(c: Cluster) -> str:
    status = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]
    return str(status["flavorsUsage"][0]["resources"][0]["total"])

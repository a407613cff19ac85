"""A small cluster for tests of the queue: create queues, submit Jobs, read what they have become."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.configuration import KueueConfig, loads
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.simulation.kubelet import PodScript, pod_status
from tests.local.queue.environments import RunningCluster, current

NS = "ns"
API = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
RUNS_WITHOUT_END = PodScript(ready_after=0.2, ends_after=None)


class Cluster:
    """A running cluster with namespace ns, flavor default, ClusterQueue cq and LocalQueue lq."""

    def __init__(self, world: RunningCluster, outcomes: dict[str, PodScript]) -> None:
        self.world = world
        self.client = world.client
        self.outcomes = outcomes  # by Job name; the others run without end

    async def queues(self, cpu: str = "2", *, strategy: str = "BestEffortFIFO", **spec: Any) -> None:
        await self.namespace()
        await self.flavor("default")
        quota = [{"name": "cpu", "nominalQuota": cpu}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quota}]}
        body = {"namespaceSelector": {}, "queueingStrategy": strategy, "resourceGroups": [group], **spec}
        await self.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": body})
        await self.local_queue("lq")

    async def namespace(self) -> None:
        """Create the namespace, or reset its labels."""
        try:
            await self.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            await self.client.patch(NAMESPACES, "", NS, {"metadata": {"labels": {"team": None}}})

    async def flavor(self, name: str, **spec: Any) -> None:
        await self.create(RESOURCE_FLAVORS, {**API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec})

    async def local_queue(self, name: str, cluster_queue: str = "cq") -> None:
        meta = {"name": name, "namespace": NS}
        await self.create(
            LOCAL_QUEUES, {**API, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": cluster_queue}}
        )

    async def apply_class(self, name: str, value: int) -> None:
        tree = {**API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        await self.create(WORKLOAD_PRIORITY_CLASSES, tree)

    async def create(self, resource: Resource, tree: dict[str, Any]) -> dict[str, Any]:
        return await self.client.create(resource, tree["metadata"].get("namespace", ""), tree)

    async def submit(
        self,
        name: str,
        cpu: str = "1",
        *,
        queue: str | None = "lq",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        pod: dict[str, Any] | None = None,
        **spec: Any,
    ) -> None:
        own = {"kueue.x-k8s.io/queue-name": queue} if queue is not None else {}
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
        meta = {"name": name, "namespace": NS, "labels": {**own, **(labels or {})}, "annotations": annotations or {}}
        tree = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
        await self.client.create(JOBS, NS, {**tree, "spec": {"backoffLimit": 0, **spec, "template": template}})
        await asyncio.sleep(0.01)
        if queue is not None:
            await self._until_queued(name)

    async def _until_queued(self, job: str) -> None:
        """Wait until the Job has a Workload, so that the queue meets Jobs in the order in which they are submitted: it
        creates Workloads side by side, and a busy server may answer a later creation first. A second is enough for
        that; some Jobs get no Workload.
        """
        for _ in range(20):
            try:
                await self.workload(job)
                return
            except LookupError:
                await asyncio.sleep(0.05)

    # --- reading ---

    async def job(self, name: str) -> dict[str, Any]:
        return await self.client.get(JOBS, NS, name)

    async def workload(self, job: str) -> dict[str, Any]:
        found = [w for w in await self.client.list(WORKLOADS, NS) if w["metadata"]["ownerReferences"][0]["name"] == job]
        if not found:
            raise LookupError(f"no Workload of {job}")
        return found[0]

    async def condition(self, job: str, type: str) -> tuple[str, str, str] | None:
        status = (await self.workload(job)).get("status", {})
        return condition(status, type)

    async def running(self) -> list[str]:
        """Names of the Jobs that are neither suspended nor finished."""
        jobs = await self.client.list(JOBS, NS)
        return sorted(j["metadata"]["name"] for j in jobs if not j["spec"].get("suspend") and not ended(j))

    async def events(self, name: str, *, component: str = "") -> list[tuple[str, str, str]]:
        """The Events of an object, once no more arrive: Events are written after the objects."""
        known, events = -1, await self.client.list(EVENTS, NS)
        while known != len(events):
            known = len(events)
            await asyncio.sleep(0.5)
            events = await self.client.list(EVENTS, NS)
        events = [e for e in events if e["involvedObject"]["name"].startswith(name)]
        return [
            (e["type"], e["reason"], e["message"])
            for e in events
            if e["source"]["component"] != "job-controller" and component in e["source"]["component"]
        ]

    async def succeed(self, job: str) -> None:
        """Let the pods of a Job end with success, once there are any."""

        async def pods() -> list[str]:
            found = await self.client.list(PODS, NS, label_selector=f"batch.kubernetes.io/job-name={job}")
            return [pod["metadata"]["name"] for pod in found]

        async def are_there() -> bool:
            return bool(await pods())

        await self.until(are_there, True)
        status = pod_status("Succeeded", 0, self.world.clock.now())
        for pod in await pods():
            await self.client.patch(PODS, NS, pod, {"status": status}, subresource="status")

    async def until_default_queue(self) -> None:
        """Wait until a Job without queue name would join LocalQueue `default`: the rules read it from a cache."""
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "try"}, "spec": {"template": template}}
        request = Request("POST", JOBS.path(NS), query={"dryRun": "All"}, body=msgspec.json.encode(job))

        async def queue() -> str | None:
            tree = msgspec.json.decode((await self.client.transport.request(request)).body)
            return str(tree["metadata"]["labels"]["kueue.x-k8s.io/queue-name"])

        await self.until(queue, "default")

    async def until(self, question: Callable[[], Any], expected: Any, seconds: float = 30) -> None:
        """Wait until the question has this answer, at most so many seconds of the environment.

        A failure shows every answer in turn with its time: the last one alone does not say what the order was.
        """
        clock = asyncio.get_running_loop().time
        start, answers = clock(), list[tuple[str, Any]]()
        while clock() - start < seconds + current().extra_seconds:
            try:
                answer = await question()
            except (LookupError, ApiError) as error:
                answer = repr(error)
            if answer == expected:
                return
            if not answers or answers[-1][1] != answer:
                answers.append((f"{clock() - start:.2f} s", answer))
            await asyncio.sleep(0.05)
        lines = "".join(f"\n  {when}: {answer!r}" for when, answer in answers)
        raise AssertionError(f"expected {expected!r}; the answers after the start of the wait were:{lines}")


def versions(c: Cluster, resource: Resource) -> list[dict[str, Any]]:
    """Every stored version of the objects of a resource, in the order of the writes."""
    lines = (line.split(b" ", 2) for line in c.world.history)
    return [msgspec.json.decode(data) for _, kind, data in lines if kind == str(resource).encode()]


def condition(status: dict[str, Any], type: str) -> tuple[str, str, str] | None:
    found = [c for c in status.get("conditions", ()) if c["type"] == type]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def ended(job: dict[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)


@asynccontextmanager
async def cluster(config: str = "", **outcomes: PodScript) -> AsyncIterator[Cluster]:
    """A running cluster; outcomes of pods by the name of their Job."""
    chosen = dict(outcomes)

    def script(pod: Any) -> PodScript:
        return chosen.get(pod.metadata.name.rsplit("-", 1)[0], RUNS_WITHOUT_END)

    kinds = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    async with current().cluster(script, loads(kinds + config) if config else KueueConfig()) as world:
        yield Cluster(world, chosen)

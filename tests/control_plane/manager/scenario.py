"""Queues, Jobs and their observable results, for the real and the embedded API server alike."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Transport
from queue_manager.simulation.kubelet import Kubelet, PodScript, Script

Wait = Callable[[Callable[[], Awaitable[object]], str], Awaitable[None]]
Tree = dict[str, Any]
QUICK = PodScript(ready_after=0.2, ends_after=1.5)


@dataclass(frozen=True)
class Scenario:
    """One queue of 4 cpu in one namespace; the names of cluster-scoped objects contain the namespace's name."""

    api: RestClient
    namespace: str
    wait: Wait

    async def queues(self) -> None:
        name, namespace = self.namespace, self.namespace
        await self.api.create(RESOURCE_FLAVORS, "", {"metadata": {"name": name}, "spec": {}})
        flavor = {"name": name, "resources": [{"name": "cpu", "nominalQuota": "4"}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups}
        await self.api.create(CLUSTER_QUEUES, "", {"metadata": {"name": name}, "spec": spec})
        await self.api.create(LOCAL_QUEUES, namespace, {"metadata": {"name": "lq"}, "spec": {"clusterQueue": name}})

    async def submit(self, name: str, *, queue: str = "lq", pod: Tree | None = None, **spec: Any) -> Tree:
        """`pod`: further fields of the spec of its pods."""
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        body = {"suspend": True, "backoffLimit": 0, **spec, "template": template}
        return await self.api.create(JOBS, self.namespace, {"metadata": {"name": name, "labels": labels}, "spec": body})

    # --- reading ---

    async def job(self, name: str) -> Tree:
        return await self.api.get(JOBS, self.namespace, name)

    async def workload(self, job: str) -> Tree:
        for workload in await self.api.list(WORKLOADS, self.namespace):
            if workload["metadata"]["ownerReferences"][0]["name"] == job:
                return workload
        raise LookupError(f"no Workload of {job}")

    async def pods(self, job: str) -> list[Tree]:
        return await self.api.list(PODS, self.namespace, label_selector=f"batch.kubernetes.io/job-name={job}")

    async def events(self, kind: str, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the Events about an object, sorted."""
        events = await self.api.list(EVENTS, self.namespace)
        about = [e for e in events if (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == (kind, name)]
        return sorted((e["reason"], e["message"]) for e in about)

    # --- waiting ---

    async def until_condition(self, name: str, condition: str) -> Tree:
        async def so() -> bool:
            return is_true(await self.job(name), condition)

        await self.wait(so, f"{name} is {condition}")
        return await self.job(name)

    async def until_finished(self, *names: str) -> None:
        for name in names:
            await self.until_condition(name, "Complete")

    async def until_admitted(self, name: str) -> None:
        async def so() -> bool:
            return is_true(await self.workload(name), "Admitted") and not (await self.job(name))["spec"]["suspend"]

        await self._wait(so, f"{name} is admitted and started")

    async def until_pending(self, name: str) -> None:
        async def so() -> bool:
            return any(c[:2] == ("QuotaReserved", "False") for c in conditions(await self.workload(name)))

        await self._wait(so, f"{name} has been refused")

    async def _wait(self, condition: Callable[[], Awaitable[object]], what: str) -> None:
        """Wait; a failure says what the Workloads say then."""
        try:
            await self.wait(condition, what)
        except AssertionError as error:
            found = await self.api.list(WORKLOADS, self.namespace)
            states = {each["metadata"]["name"]: conditions(each) for each in found}
            raise AssertionError(f"{error}; the Workloads: {states}") from None


def is_true(obj: Tree, condition: str) -> bool:
    return any(c["type"] == condition and c["status"] == "True" for c in obj.get("status", {}).get("conditions", ()))


def conditions(obj: Tree) -> list[tuple[str, str, str, str]]:
    """(type, status, reason, message), sorted, since several controllers add conditions in any order."""
    found = obj.get("status", {}).get("conditions", ())
    return sorted((c["type"], c["status"], c.get("reason", ""), c.get("message", "")) for c in found)


@asynccontextmanager
async def kubelet(transport: Transport, script: Script) -> AsyncIterator[None]:
    """Run pods as the script says, as an ordinary client of the API server."""
    runtime = Runtime(transport, SystemClock(), random.Random(0))
    Kubelet(runtime, script)
    async with runtime:
        yield


async def one_job(scenario: Scenario) -> Tree:
    """A Job of two pods goes through the queue; returns what can be compared between servers, without uids, names and
    times.
    """
    await scenario.queues()
    await scenario.submit("a", parallelism=2, completions=2)
    job = await scenario.until_condition("a", "Complete")

    async def finished() -> bool:
        return is_true(await scenario.workload("a"), "Finished")

    await scenario.wait(finished, "the Workload is finished")
    workload, name = await scenario.workload("a"), (await scenario.workload("a"))["metadata"]["name"]

    async def all_events() -> bool:
        return {"Completed", "FinishedWorkload"} <= {reason for reason, _ in await scenario.events("Job", "a")}

    await scenario.wait(all_events, "the last Event of each controller is written")
    status = {k: v for k, v in job["status"].items() if k not in ("conditions", "startTime", "completionTime")}
    words = {scenario.namespace: "NAMESPACE", name: "WORKLOAD"}
    return _renamed(
        {
            "job conditions": conditions(job),
            "job status": status,
            "job suspend": job["spec"]["suspend"],
            "labels of pods": sorted(job["spec"]["template"]["metadata"]["labels"]),
            "workload conditions": conditions(workload),
            "admission": workload["status"]["admission"],
            "finalizers of pods": [pod["metadata"].get("finalizers", []) for pod in await scenario.pods("a")],
            "events": [e for e in await scenario.events("Job", "a") if e[0] != "SuccessfulCreate"],
        },
        words,
    )


def _renamed(tree: Tree, words: dict[str, str]) -> Tree:
    text = json.dumps(tree)
    for old, new in words.items():
        text = text.replace(old, new)
    renamed: Tree = json.loads(text)
    return renamed

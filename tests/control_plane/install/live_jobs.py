"""Jobs that run and wait while an installation is changed, and what must not have happened to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from job_controller.model import Pod
from queue_manager.api.api_resources import EVENTS, JOBS, PODS, WORKLOADS
from queue_manager.engine.rest_client import RestClient
from queue_manager.simulation.kubelet import PodScript
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.scenario import Scenario, is_true
from tests.waiting import until

Tree = dict[str, Any]
RUNNING, PENDING = ("running-1", "running-2"), ("pending-1", "pending-2")
STOPPING = ("EvictedDueTo", "Preempted", "Stopped", "Suspended")  # begin the reasons of Events about Jobs that stop
LEADS = 'leader_election_master_status{name="c1f6bfd2.kueue.x-k8s.io"}'


def endless(pod: Pod) -> PodScript:
    """Pods that run until they are deleted."""
    return PodScript(ready_after=0.1, ends_after=None, stops_within=0.1)


@dataclass(frozen=True)
class LiveJobs:
    """Two Jobs with two pods each fill the queue, and two more wait. `spec`: further fields of each Job."""

    scenario: Scenario
    spec: Tree

    async def begin(self) -> None:
        for name in (*RUNNING, *PENDING):
            await self.scenario.submit(name, parallelism=2, completions=2, **self.spec)
            if name in RUNNING:
                await self.scenario.until_admitted(name)
        for name in RUNNING:
            await until(lambda name=name: self._is_running(name), f"the pods of {name} run")
        await until(self._are_pending, "the others have no quota")

    async def end(self) -> None:
        """Once the first running Job is gone, the first pending one gets its quota."""
        await self.scenario.api.delete(JOBS, self.scenario.namespace, RUNNING[0])
        for pod in await self.scenario.pods(RUNNING[0]):  # no garbage collector runs
            await self.scenario.api.delete(PODS, self.scenario.namespace, pod["metadata"]["name"])
        await self.scenario.until_admitted(PENDING[0])
        await until(lambda: self._is_running(PENDING[0]), f"the pods of {PENDING[0]} run")

    async def _is_running(self, name: str) -> bool:
        return (await self.scenario.job(name))["status"].get("ready") == 2

    async def _are_pending(self) -> bool:
        found = [await self.scenario.workload(name) for name in PENDING]
        reserved = (c for w in found for c in w.get("status", {}).get("conditions", ()) if c["type"] == "QuotaReserved")
        return [c["status"] for c in reserved] == ["False"] * len(PENDING)


async def state(api: RestClient, namespace: str) -> Tree:
    """What a change of the installation must leave as it is: of Jobs, their Workloads and pods, by name of the Job."""
    workloads = {owner(w): w for w in await api.list(WORKLOADS, namespace)}
    jobs = await api.list(JOBS, namespace)
    pods = await api.list(PODS, namespace)
    reasons = [(e["involvedObject"]["name"], e["reason"]) for e in await api.list(EVENTS, namespace)]
    return {
        "workloads": {name: workload["metadata"]["uid"] for name, workload in workloads.items()},
        "admissions": {name: workload.get("status", {}).get("admission") for name, workload in workloads.items()},
        "admitted": {name: admitted_at(workload) for name, workload in workloads.items()},
        "suspended": {job["metadata"]["name"]: job["spec"]["suspend"] for job in jobs},
        "pods": sorted((owner(pod), pod["metadata"]["uid"]) for pod in pods),
        "stopped": [event for event in reasons if event[1].startswith(STOPPING)],
    }


def owner(obj: Tree) -> str:
    """The name of the Job to which a Workload or pod belongs."""
    return str(obj["metadata"]["ownerReferences"][0]["name"])


def admitted_at(workload: Tree) -> str:
    """Since when a Workload is admitted; "" if it is not."""
    if not is_true(workload, "Admitted"):
        return ""
    [condition] = [c for c in workload["status"]["conditions"] if c["type"] == "Admitted"]
    return str(condition["lastTransitionTime"])


async def leads(*managers: Manager) -> bool:
    """Whether one of these managers holds the Lease."""
    return sum([await manager.metric(LEADS) for manager in managers]) == 1

"""Runs a scenario on the embedded API server in virtual time, under a fate, until the Job ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

from job_controller.options import JobControllerOptions
from queue_manager.api.api_resources import JOBS
from queue_manager.engine.runtime import Runtime
from queue_manager.hosting.job_controller_port import attach_job_controller
from queue_manager.local.controllers.garbage_collector import GarbageCollector
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.simulation.kubelet import Kubelet
from queue_manager.simulation.virtual_time import run_virtual
from tests.control_plane.jobs import snapshot
from tests.unit.job_controller.crashes.mortal import Fate, MortalTransport
from tests.unit.job_controller.crashes.scenarios import Scenario
from tests.unit.job_controller.test_on_the_api_server import Cluster

REST = 90.0  # virtual seconds without a change after which a scenario has ended
LIMIT = timedelta(hours=3)


class Killed(Exception):
    """Stops a runtime as a killed process would."""


@dataclass
class End:
    """The result of a scenario."""

    job: Any
    pods: list[str]
    ended: dict[str, str]  # pod uid -> phase of every pod that ever ended
    writes: int  # of the first life
    faults: list[str] = field(default_factory=list)  # what was wrong on the way


def play(scenario: Scenario, fate: Fate) -> End:
    return run_virtual(_play(scenario, fate), until=LIMIT)


async def _play(scenario: Scenario, fate: Fate) -> End:
    cluster = Cluster()
    kubelet = Runtime(LocalTransport(cluster.server, "kubelet"), cluster.clock, Random(3))
    Kubelet(kubelet, scenario.script)
    kubelet.task(GarbageCollector(cluster.server).run)
    user = asyncio.create_task(_user(cluster, scenario))
    async with kubelet:
        first = await _life(cluster, user, fate)
        if first.dead.is_set():
            await _life(cluster, user, replace(fate, death=None))
    return _end(cluster, first.writes, scenario)


async def _user(cluster: Cluster, scenario: Scenario) -> None:
    await cluster.submit(**scenario.spec, annotations=scenario.annotations)
    passed = 0.0
    for moment, spec in scenario.edits:
        await asyncio.sleep(moment - passed)
        passed = moment
        await cluster.user.patch(JOBS, "default", "j", {"spec": spec})


async def _life(cluster: Cluster, user: asyncio.Task[None], fate: Fate) -> MortalTransport:
    """Run a controller from its start until it dies or nothing changes any more."""
    transport = MortalTransport(LocalTransport(cluster.server, "system:sluice"), fate)
    runtime = Runtime(transport, cluster.clock, Random(2))
    attach_job_controller(runtime, JobControllerOptions(writes_in_flight=2))
    try:
        async with runtime:
            rest = asyncio.create_task(_rest(cluster, user))
            death = asyncio.create_task(transport.dead.wait())
            await asyncio.wait([rest, death], return_when=asyncio.FIRST_COMPLETED)
            rest.cancel()
            death.cancel()
            raise Killed
    except Killed:
        return transport


async def _rest(cluster: Cluster, user: asyncio.Task[None]) -> None:
    await asyncio.shield(user)  # the user continues without the controller
    seen = -1
    while seen != len(cluster.history):
        seen = len(cluster.history)
        await asyncio.sleep(REST)


def _end(cluster: Cluster, writes: int, scenario: Scenario) -> End:
    jobs: list[Any] = []
    pods: dict[str, Any] = {}
    ended: dict[str, str] = {}
    for kind, resource, tree in cluster.history:
        if resource == "jobs.batch":
            jobs.append(tree)
        elif resource == "pods":
            uid = tree["metadata"]["uid"]
            pods[uid] = tree
            if kind == "DELETED":
                del pods[uid]
            if tree["status"]["phase"] in ("Succeeded", "Failed"):
                ended.setdefault(uid, tree["status"]["phase"])
    seen = snapshot.of(snapshot.seen(jobs[-1]), [snapshot.seen(tree) for tree in pods.values()])
    return End(seen["job"], seen["pods"], ended, writes, list(_faults(jobs, ended, scenario)))


def _faults(jobs: list[Any], ended: dict[str, str], scenario: Scenario) -> Iterator[str]:
    """Pods that were counted twice or not at all."""
    recorded: dict[str, str] = {}
    for before, after in pairwise(jobs):
        for kind in ("succeeded", "failed"):
            lists = [set((job["status"].get("uncountedTerminatedPods") or {}).get(kind, ())) for job in (before, after)]
            for uid in sorted(lists[1] - lists[0]):
                if uid in recorded:
                    yield f"pod {uid} was noted twice"
                recorded[uid] = kind
    status = jobs[-1]["status"]
    if scenario.counts_pods:
        for kind, phase in (("succeeded", "Succeeded"), ("failed", "Failed")):
            number = sum(1 for found in ended.values() if found == phase)
            if status.get(kind, 0) != number:
                yield f"{number} pods {kind}, the status says {status.get(kind, 0)}"

"""Disruptions: a Job that ignores them does not fail, whatever caused the disruption."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from job_controller.model import Pod
from queue_manager.api.api_resources import JOBS, NODES, PODS, PRIORITY_CLASSES
from queue_manager.engine.rest_client import RestClient
from tests.local.cluster.conftest import Up, processes_of
from tests.waiting import until

Start = Callable[..., Up]
IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
UNTIL_TOLD = "while ! [ -e {flag} ]; do sleep 0.05; done"


def job(command: str) -> dict[str, Any]:
    """A Job that fails with its first failure that is not a disruption."""
    container = {"name": "main", "image": "local", "command": ["sh", "-c", command]}
    container |= {"resources": {"requests": {"cpu": "1500m"}}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    spec = {"backoffLimit": 0, "podFailurePolicy": IGNORE, "template": {"spec": pod}}
    return {"metadata": {"name": "patient", "annotations": {"sluice/backoff-seconds": "0"}}, "spec": spec}


async def preempt(client: RestClient, victim: str) -> None:
    await client.create(PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 1000})
    container = {"name": "main", "image": "local", "command": ["sleep", "1"]}
    container |= {"resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "priorityClassName": "urgent", "containers": [container]}
    await client.create(PODS, "default", {"metadata": {"name": "urgent"}, "spec": spec})


async def taint(client: RestClient, victim: str) -> None:
    bad = [{"key": "example.com/broken", "effect": "NoExecute"}]
    await client.patch(NODES, "", "node-1", {"spec": {"taints": bad}})

    async def gone() -> bool:
        return victim not in [pod.metadata.name for pod in await client.list(PODS, "default", type=Pod)]

    await until(gone, "the pod leaves the node")
    await client.patch(NODES, "", "node-1", {"spec": {"taints": None}})


async def evict(client: RestClient, victim: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim}}
    await client.create(PODS, "default", eviction, name=victim, subresource="eviction")


# It names its node, so that the node agent preempts others, not placement.
CRITICAL = {
    "metadata": {"name": "critical"},
    "spec": {
        "restartPolicy": "Never",
        "nodeName": "node-1",
        "priorityClassName": "system-node-critical",
        "containers": [
            {
                "name": "main",
                "image": "local",
                "command": ["sleep", "1"],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
    },
}


async def admit_critical(client: RestClient, victim: str) -> None:
    await client.create(PODS, "default", CRITICAL)
    await until(lambda: _has_failed(client, victim), "the node ends the pod")


async def test_kill_9_while_the_node_ends_a_pod_does_not_make_it_a_failure(start: Start, tmp_path: Path) -> None:
    """The pod ends while `sluice up` is dead; after the restart it is still known that the node ended it."""
    trapped, asked, end, go = (tmp_path / name for name in ("trapped", "asked", "end", "go"))
    wait = f"until [ -e {end} ] || [ -e {go} ]; do sleep 0.05; done; [ -e {go} ]"
    script = f"trap 'touch {asked}' TERM; touch {trapped}; {wait}"
    patient = job(script)
    patient["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 600
    first = start("--cpu", "2")
    async with first.client() as client:
        await client.create(JOBS, "default", patient)
        names: list[str] = []

        async def runs() -> bool:
            names[:] = [
                pod.metadata.name
                for pod in await client.list(PODS, "default", label_selector="job-name=patient", type=Pod)
                if pod.status.phase == "Running"
            ]
            return len(names) == 1

        await until(runs, "the pod of the Job runs")
        await until(lambda: _exists(trapped), "its shell would notice a SIGTERM")
        await client.create(PODS, "default", CRITICAL)
        await until(lambda: _exists(asked), "the pod is asked to end")
    first.kill()
    end.touch()
    await until(lambda: _none_left(str(end)), "the pod's processes have ended")
    second = start("--cpu", "2")
    async with second.client() as client:
        await until(lambda: _has_failed(client, names[0]), "the node says why the pod ended")
        go.touch()
        await until(lambda: _is_complete(client), "the Job is complete")
        status = (await client.get(JOBS, "default", "patient"))["status"]
        assert (status["succeeded"], status.get("failed", 0)) == (1, 0)


async def _exists(path: Path) -> bool:
    return path.exists()


async def _none_left(marker: str) -> bool:
    return not processes_of(marker)


async def _is_complete(client: RestClient) -> bool:
    status = (await client.get(JOBS, "default", "patient"))["status"]
    return any(c["type"] == "Complete" for c in status.get("conditions") or ())


async def _has_failed(client: RestClient, name: str) -> bool:
    status = (await client.get(PODS, "default", name))["status"]
    return (status["phase"], status.get("reason")) == ("Failed", "Preempting")


@pytest.mark.parametrize("disrupt", [preempt, taint, evict, admit_critical])
async def test_a_job_that_ignores_disruptions_completes(
    start: Start, tmp_path: Path, disrupt: Callable[[RestClient, str], Awaitable[None]]
) -> None:
    up = start("--cpu", "2")
    flag = tmp_path / "go"
    async with up.client() as client:
        await client.create(JOBS, "default", job(UNTIL_TOLD.format(flag=flag)))
        names: list[str] = []

        async def runs() -> bool:
            names[:] = [
                pod.metadata.name
                for pod in await client.list(PODS, "default", label_selector="job-name=patient", type=Pod)
                if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
            ]
            return len(names) == 1

        await until(runs, "the pod of the Job runs")
        [victim] = names
        await disrupt(client, victim)

        async def runs_anew() -> bool:
            return await runs() and names != [victim]

        await until(runs_anew, "the Job has another pod")
        flag.touch()
        await until(lambda: _is_complete(client), "the Job is complete")
        status = (await client.get(JOBS, "default", "patient"))["status"]
        assert (status["succeeded"], status.get("failed", 0)) == (1, 0)

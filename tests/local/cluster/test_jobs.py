"""Queued Jobs as real processes of a node agent, on the embedded and on a real server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from job_controller.labels import COMPLETION_INDEX
from job_controller.model import Pod
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, PODS, PRIORITY_CLASSES, WORKLOADS
from queue_manager.api.types import ClusterQueue, Workload
from queue_manager.engine.transport_protocol import ApiError
from tests.local.cluster.conftest import Up, processes_of
from tests.local.cluster.fleet import Fleet
from tests.local.cluster.work import ended, job, running
from tests.waiting import until

Begin = Callable[..., Up | Fleet]


async def test_a_queued_job_runs_as_a_process_and_releases_its_quota(cluster: Begin, tmp_path: Path) -> None:
    up = cluster()
    proof = tmp_path / "proof"
    async with up.client() as client:
        await client.create(JOBS, "default", job("writes", f"echo $HOSTNAME > {proof}"))
        done = await ended(client, "writes")
        assert done.status.succeeded == 1
        assert proof.read_text().startswith("writes-")

        async def free() -> bool:
            queue = await client.get(CLUSTER_QUEUES, "", "cluster-queue", type=ClusterQueue)
            usage = [r.total for flavor in queue.status.flavors_reservation or () for r in flavor.resources]
            return usage != [] and all(str(total) == "0" for total in usage)

        await until(free, "the quota is free again")


async def test_the_system_priority_classes_exist_and_cannot_be_deleted(cluster: Begin) -> None:
    up = cluster()
    critical = job("critical", "true")
    critical["spec"]["template"]["spec"]["priorityClassName"] = "system-cluster-critical"
    async with up.client() as client:
        await client.create(JOBS, "default", critical)
        await ended(client, "critical")
        (workload,) = await client.list(WORKLOADS, "default")
        assert workload["spec"]["priority"] == 2_000_000_000
        with pytest.raises(ApiError, match="this is a system priority class and cannot be deleted"):
            await client.delete(PRIORITY_CLASSES, "", "system-cluster-critical")


async def test_deleting_a_job_ends_its_process_and_its_workload(cluster: Begin) -> None:
    up = cluster()
    marker = f"32{os.getpid()}"
    async with up.client() as client:
        await client.create(JOBS, "default", job("goes", f"sleep {marker}"))
        await running(client, "goes")
        await client.delete(JOBS, "default", "goes", propagation="Background")

        async def gone() -> bool:
            left = [*await client.list(WORKLOADS, type=Workload), *await client.list(PODS, type=Pod)]
            return not left and not processes_of(marker)

        await until(gone, "workload, pod and process are gone")


ON_42 = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}
INDEXED = {"completionMode": "Indexed", "parallelism": 2, "completions": 2}
# Name: (command, spec, type and reason of the last condition, more of the status)
POLICIES: dict[str, tuple[str, dict[str, Any], tuple[str, str], dict[str, Any]]] = {
    "works": ("true", {}, ("Complete", "CompletionsReached"), {"succeeded": 1}),
    "fails": ("exit 1", {"backoffLimit": 0}, ("Failed", "BackoffLimitExceeded"), {"failed": 1}),
    "policy": (
        "exit 42",
        {"podFailurePolicy": {"rules": [ON_42]}},
        ("Failed", "PodFailurePolicy"),
        {"failed": 1},
    ),
    "deadline": ("sleep 600", {"activeDeadlineSeconds": 2}, ("Failed", "DeadlineExceeded"), {"failed": 1}),
    "index": (
        "exit $JOB_COMPLETION_INDEX",
        {**INDEXED, "backoffLimitPerIndex": 0},
        ("Failed", "FailedIndexes"),
        {"completedIndexes": "0", "failedIndexes": "1"},
    ),
    "leader": (
        "test $JOB_COMPLETION_INDEX = 0 || sleep 600",
        {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
        ("Complete", "SuccessPolicy"),
        {"completedIndexes": "0"},
    ),
}


async def test_the_job_controller_ends_each_job_as_its_policies_say(cluster: Begin) -> None:
    """Jobs of no queue, all at once."""
    async with cluster().client() as client:
        for name, (command, spec, *_) in POLICIES.items():
            body = job(name, command, **{**spec, "suspend": False})
            await client.create(JOBS, "default", {**body, "metadata": {"name": name}})
        for name, (_, _, end, expected) in POLICIES.items():
            await ended(client, name, end[0])
            status = (await client.get(JOBS, "default", name))["status"]
            (reason,) = [c["reason"] for c in status["conditions"] if c["type"] == end[0]]
            assert (name, reason) == (name, end[1])
            assert {key: status.get(key) for key in expected} == expected


async def test_a_job_is_suspended_resumed_and_deleted_after_its_ttl(cluster: Begin, tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with cluster().client() as client:
        body = job("waits", f"until [ -e {go} ]; do sleep 0.05; done", suspend=False, ttlSecondsAfterFinished=1)
        await client.create(JOBS, "default", {**body, "metadata": {"name": "waits"}})
        await running(client, "waits")
        await client.patch(JOBS, "default", "waits", {"spec": {"suspend": True}})
        await ended(client, "waits", "Suspended")

        async def no_pods() -> bool:
            return await client.list(PODS, "default") == []

        await until(no_pods, "its pod is gone")
        await client.patch(JOBS, "default", "waits", {"spec": {"suspend": False}})
        await running(client, "waits")
        go.touch()

        async def gone() -> bool:
            return await client.list(JOBS, "default") == [] and await no_pods()

        await until(gone, "the Job is removed, and its pods with it")


async def test_a_job_above_its_memory_limit_fails_by_the_rule_for_its_exit_code(cluster: Begin) -> None:
    """OOMKilled with 137: the pod failure policy matches as on a real node."""
    up = cluster()
    hold = "import time; held = bytearray(100 << 20); time.sleep(1000)"
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [137]}}
    greedy = job("greedy", "", backoffLimit=6, podFailurePolicy={"rules": [rule]})
    (container,) = greedy["spec"]["template"]["spec"]["containers"]
    container |= {"command": [sys.executable, "-S", "-c", hold]}
    container["resources"] |= {"limits": {"memory": "64Mi"}}
    async with up.client() as client:
        await client.create(JOBS, "default", greedy)
        failed = await ended(client, "greedy", "Failed")
        assert "PodFailurePolicy" in [c.reason for c in failed.status.conditions]
        (pod,) = await client.list(PODS, "default", type=Pod)
        (end,) = [status.state.terminated for status in pod.status.container_statuses]
        assert end is not None
        assert (end.exit_code, end.reason) == (137, "OOMKilled")


async def test_each_index_runs_once_after_a_users_edit_of_its_label(cluster: Begin, tmp_path: Path) -> None:
    """There is room for one pod; label and annotation of the other one are changed while it is pending."""
    up = cluster(cpu="1")
    go, proof = tmp_path / "go", tmp_path / "proof"
    command = f"echo $JOB_COMPLETION_INDEX >> {proof}; until [ -e {go} ]; do sleep 0.05; done"
    twice = job("twice", command, **{**INDEXED, "suspend": False})
    (container,) = twice["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "600m"}}
    async with up.client() as client:
        await client.create(JOBS, "default", {**twice, "metadata": {"name": "twice"}})

        async def without_node() -> list[Pod]:
            return [pod for pod in await client.list(PODS, "default", type=Pod) if not pod.spec.node_name]

        async def one_runs() -> bool:
            return proof.exists() and len(await without_node()) == 1

        await until(one_runs, "one pod runs, the other waits for room")
        ran = proof.read_text().strip()
        forged = {"labels": {COMPLETION_INDEX: ran}, "annotations": {COMPLETION_INDEX: ran}}
        (waiting,) = await without_node()
        await client.patch(PODS, "default", waiting.metadata.name, {"metadata": forged})
        go.touch()
        assert (await ended(client, "twice")).status.completed_indexes == "0,1"
        assert sorted(proof.read_text().split()) == ["0", "1"]

"""A preemption across namespaces: neither side reads the name of the other one's Job."""

from __future__ import annotations

import json

import pytest

from queue_manager.api.api_resources import EVENTS, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from tests.local.queue.cluster import API, NS, Cluster, cluster, condition
from tests.local.queue.environments import run

pytestmark = pytest.mark.usefixtures("environment")

OTHERS = "rivals"
VICTIM, PREEMPTOR = "confidential-victim", "confidential-preemptor"


def test_a_preemption_names_no_workload_of_another_namespace() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1", preemption={"withinClusterQueue": "LowerPriority"})
            await c.apply_class("high", 100)
            await c.submit(VICTIM)
            await c.until(c.running, [VICTIM])
            await submit_urgent(c)
            await c.until(lambda: preempted(c), "Preempted")
            victims, preemptors = await readable(c, NS), await readable(c, OTHERS)
            assert PREEMPTOR not in victims
            assert OTHERS not in victims
            assert VICTIM not in preemptors
            assert "for priority 100 of ClusterQueue cq" in victims

    run(scenario())


async def submit_urgent(c: Cluster) -> None:
    """A Job of another namespace, and of a higher priority."""
    await c.client.create(NAMESPACES, "", {"metadata": {"name": OTHERS}})
    queue = {**API, "kind": "LocalQueue", "metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}}
    await c.client.create(LOCAL_QUEUES, OTHERS, queue)
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "high"}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    await c.client.create(JOBS, OTHERS, {"metadata": {"name": PREEMPTOR, "labels": labels}, "spec": spec})


async def preempted(c: Cluster) -> str:
    """The reason why the victim is evicted, once both sides have their Events."""
    mine, theirs = [[e["reason"] for e in await c.client.list(EVENTS, space)] for space in (NS, OTHERS)]
    complete = "Preempted" in mine and "PreemptedWorkload" in theirs
    found = condition((await c.workload(VICTIM)).get("status", {}), "Evicted")
    return found[1] if complete and found is not None else ""


async def readable(c: Cluster, namespace: str) -> str:
    """What a user of the namespace can read of Workloads, Jobs and Events."""
    return json.dumps([await c.client.list(kind, namespace) for kind in (WORKLOADS, JOBS, EVENTS)])

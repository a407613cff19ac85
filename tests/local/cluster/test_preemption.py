"""Preemption of real processes: a victim has its grace period, and its quota is free when its pods have ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from queue_manager.api import condition_types
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES
from tests.local.cluster.conftest import Up
from tests.local.cluster.fleet import Fleet
from tests.local.cluster.test_stories import queue, submission, until_workload, workload
from tests.local.cluster.work import ended, running
from tests.waiting import until

Begin = Callable[..., Up | Fleet]


def submit(name: str, command: str, *, priority: str, grace: int = 1) -> dict[str, Any]:
    tree = submission(name, "sh", "-c", command)
    tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    tree["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    return tree


async def test_a_preemptor_starts_only_when_its_victim_has_ended(cluster: Begin, tmp_path: Path) -> None:
    """`saves` needs more than a second to save its work, and is not killed; `deaf` ignores the signal, and is."""
    saved, again = tmp_path / "saved", tmp_path / "again"
    up = cluster()
    async with up.client() as client:
        await queue(client, {"default": {}}, "400m")
        preemption = {"preemption": {"withinClusterQueue": "LowerPriority"}}
        await client.patch(CLUSTER_QUEUES, "", "story", {"spec": preemption})
        for name, value in (("low", 1), ("high", 100)):
            await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
        began = [tmp_path / name for name in ("saves-began", "deaf-began")]  # the signal before the trap would kill
        loop = "while :; do sleep 0.1; done"
        save = f"trap 'sleep 1.5; touch {saved}; exit 1' TERM"
        work = f"[ -e {again} ] && exit 0; {save}; touch {began[0]}; {loop}"
        deaf = f"[ -e {again} ] && exit 0; trap '' TERM; touch {began[1]}; {loop}"
        await client.create(JOBS, "default", submit("saves", work, priority="low", grace=30))
        await client.create(JOBS, "default", submit("deaf", deaf, priority="low", grace=1))
        await running(client, "saves")
        await running(client, "deaf")
        await until(lambda: all(file.exists() for file in began), "both have set their traps")
        urgent = submit("urgent", f"test -e {saved} && touch {again}", priority="high")
        urgent["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "400m"
        urgent["spec"]["backoffLimit"] = 0
        await client.create(JOBS, "default", urgent)
        for name in ("saves", "deaf"):
            victim = await until_workload(
                client, name, lambda w: w.condition(condition_types.PREEMPTED) is not None, f"{name} is preempted"
            )
            history = victim.status.requeue_history
            assert history is not None
            assert history.attempts[-1].cause == "for priority 100 of ClusterQueue story"
        await ended(client, "urgent")  # it fails if it was started before the work was saved
        await ended(client, "saves")
        await ended(client, "deaf")
        preempted = (await workload(client, "saves")).condition(condition_types.PREEMPTED)
        assert preempted is not None
        assert (preempted.status, preempted.reason) == ("False", "QuotaReserved")

"""The writes of one eviction, from the timeout until the Workload is pending again."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import cluster
from tests.local.queue.invariants import condition, is_true

CONFIG = "waitForPodsReady: {timeout: 10s, requeuingStrategy: {backoffBaseSeconds: 5}}\n"
KINDS = ("jobs.batch", "workloads.kueue.x-k8s.io")


async def round_trip(ready_first: bool = False) -> list[str]:
    """The writes of Job and Workload, by what each changed. `ready_first`: the pods were ready, and one was lost."""
    never = PodScript(ready_after=None, ends_after=None)
    async with cluster(CONFIG, a=PodScript(1.0, 5.0, exit_code=1) if ready_first else never) as c:
        await c.queues("1")
        await c.submit("a", backoffLimit=6)
        await asyncio.sleep(40 if ready_first else 18)
        return [text for text in _writes(c.world.history) if text]


def _writes(history: list[bytes]) -> list[str]:
    """The writes from the first eviction until the next reservation."""
    seen: dict[str, dict[str, Any]] = {}
    begun, found = False, []
    for line in history:
        what, resource, data = line.split(b" ", 2)
        if resource.decode() not in KINDS:
            continue
        tree = msgspec.json.decode(data)
        old = seen.get(tree["metadata"]["uid"], {})
        seen[tree["metadata"]["uid"]] = tree
        if tree["kind"] == "Workload":
            begun = begun or is_true(tree, "Evicted")
            if begun and is_true(tree, "QuotaReserved") and not is_true(old, "QuotaReserved"):
                return found
        if begun and what == b"MODIFIED":
            found.append(f"{tree['kind']}: {', '.join(_changed(old, tree))}")
    return found


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The parts of an object that a write changed."""
    parts = [f"spec.{key}" for key in new["spec"] if new["spec"].get(key) != (old.get("spec") or {}).get(key)]
    status, before = new.get("status") or {}, old.get("status") or {}
    for one in status.get("conditions") or ():
        if condition(old, one["type"]) != one:
            parts.append(f"{one['type']}={one['status']}/{one.get('reason', '')}")
    keys = [key for key in {**status, **before} if key != "conditions" and status.get(key) != before.get(key)]
    return parts + [f"status.{key}" for key in keys]

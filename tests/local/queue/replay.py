"""Plays a recorded scenario of the real Kueue on our own cluster, and compares what the objects went through.

Compared are, per object, the sequence of values of each condition and the set of Events; not times, not the
number of writes, not what the recordings themselves disagree about (see the README of the recordings).
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec

from queue_manager.configuration import loads
from queue_manager.engine.resources import NAMESPACES, PODS, by_kind
from queue_manager.engine.transport import STRATEGIC_PATCH, ApiError
from queue_manager.simulation.kubelet import Outcome, pod_status
from queue_manager.simulation.world import World

TRACES = Path(__file__).parents[2] / "golden" / "kueue" / "traces"
STILL = Outcome(ready_after=None, ends_after=None, stops_within=0.0)
API_VERSIONS = {"Job": "batch/v1", "Namespace": "v1", "PriorityClass": "scheduling.k8s.io/v1"}
Values = dict[tuple[str, str], list[tuple[str, str, str]]]  # (object, condition type) -> values in order


async def play(trace: dict[str, Any]) -> World:
    """Run the steps of a trace at their times, up to the end of the recording."""
    config = {k: v for k, v in trace["config"].items() if k in CONFIGURED}
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    async with World(1, lambda pod: STILL, loads(json.dumps({**head, **config}))) as world:
        for name, team in (("ns", "a"), ("ns2", "b")):
            meta = {"name": name, "labels": {"team": team}}
            await world.client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        start = asyncio.get_running_loop().time()
        for step in trace["steps"]:
            await asyncio.sleep(max(0.0, start + step.get("t", 0) - asyncio.get_running_loop().time()))
            await _do(world, step)
        end = max(change["t"] for change in trace["history"]) + 0.5
        await asyncio.sleep(max(0.0, start + end - asyncio.get_running_loop().time()))
        return world


CONFIGURED = (
    "waitForPodsReady",
    "manageJobsWithoutQueueName",
    "managedJobsNamespaceSelector",
    "objectRetentionPolicies",
    "resources",
)


async def _do(world: World, step: dict[str, Any]) -> None:
    what, obj, body = step["do"], step.get("obj", ""), step.get("body")
    if what == "kubelet":
        await _kubelet(world, obj.removeprefix("Pods of "), body)
        return
    if what not in ("create", "patch", "patch status", "delete"):
        return
    kind, *rest = obj.split("/")
    resource = by_kind(API_VERSIONS.get(kind, "kueue.x-k8s.io/v1beta2"), kind)
    namespace, name = rest if len(rest) == 2 else ("", rest[0])
    if kind == "Workload":
        name = await _real_name(world, namespace, name)
    try:
        if what == "create":
            await world.client.create(resource, namespace, body)
        elif what == "delete":
            await world.client.delete(resource, namespace, name, propagation=(body or {}).get("propagationPolicy", ""))
        else:
            sub = "status" if what == "patch status" else ""
            await world.client.patch(resource, namespace, name, body, subresource=sub)
        code = 200
    except ApiError as error:
        code = error.status
    assert (code < 300) == (step["code"] < 300), (step, code)


async def _real_name(world: World, namespace: str, name: str) -> str:
    resource = by_kind("kueue.x-k8s.io/v1beta2", "Workload")
    names = [w["metadata"]["name"] for w in await world.client.list(resource, namespace)]
    return next((n for n in names if plain(n) == name), name)


async def _kubelet(world: World, job: str, body: dict[str, Any]) -> None:
    """Change so many pods of a Job: pending ones first for Running, running ones first otherwise."""
    namespace, name = job.split("/")
    for _ in range(100):
        pods = [p for p in await world.client.list(PODS, namespace) if _owner(p) == name and _alive(p)]
        if len(pods) >= body["count"]:
            break
        await asyncio.sleep(0.05)
    first = "Pending" if body["phase"] in ("Running", "Pending") else "Running"
    pods.sort(key=lambda p: (p["status"].get("phase") != first, p["metadata"]["creationTimestamp"]))
    for pod in pods[: body["count"]]:
        failed = body["phase"] == "Failed"
        status = pod_status(body["phase"], 1 if failed else 0, world.clock.now())
        status["conditions"][0]["status"] = "True" if body["ready"] else "False"
        await world.client.patch(
            PODS,
            namespace,
            pod["metadata"]["name"],
            {"status": status},
            subresource="status",
            content_type=STRATEGIC_PATCH,
        )


def _owner(pod: dict[str, Any]) -> str:
    return str((pod["metadata"].get("ownerReferences") or [{}])[0].get("name"))


def _alive(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


# --- what happened -----------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Workload names without their hash, waiting times without their seconds."""
    text = re.sub(r"\b(job-[a-z0-9-]*?)-[0-9a-f]{5}\b", r"\1-HASH", text)
    return re.sub(r"wait time since (\w+) was \d+s", r"wait time since \1 was Ns", text)


def recorded(trace: dict[str, Any], kind: str = "Workload", *, transient: bool = True) -> Values:
    """Values as recorded; without transient ones, that is those overwritten within 0.2 s, if asked so."""
    values: Values = {}
    times: dict[tuple[str, str], float] = {}
    for change in trace["history"]:
        obj = change.get("obj", "")
        if not obj.startswith(f"{kind}/"):
            continue
        for name, value in (change.get("set") or {}).items():
            if not name.startswith("cond."):
                continue
            key = (obj, name.removeprefix("cond."))
            if not transient and change["t"] - times.get(key, -1.0) <= 0.2 and values.get(key):
                values[key].pop()
            times[key] = change["t"]
            _append(values, key, value)
    return values


def differences(trace: dict[str, Any], world: World) -> dict[str, tuple[object, object]]:
    """What we did otherwise: by object and condition (or "events"), as (recorded, ours)."""
    full, least, ours = recorded(trace), recorded(trace, transient=False), played(world)
    result: dict[str, tuple[object, object]] = {}
    for key in sorted({*full, *ours}):
        did = ours.get(key, [])
        if not (_within(least.get(key, []), did) and _within(did, full.get(key, []))):
            result[" ".join(key)] = (full.get(key), did)
    theirs, events = recorded_events(trace), played_events(world)
    if theirs != events:
        result["events"] = (sorted(theirs - events), sorted(events - theirs))
    return result


def _within(few: list[Any], many: list[Any]) -> bool:
    """All of `few` occur in `many`, in this order."""
    rest = iter(many)
    return all(value in rest for value in few)


def played(world: World, kind: str = "Workload") -> Values:
    values: Values = {}
    for line in world.history:
        _, _, data = line.split(b" ", 2)
        tree = msgspec.json.decode(data)
        if tree.get("kind") != kind:
            continue
        meta = tree["metadata"]
        obj = "/".join(filter(None, (kind, meta.get("namespace"), plain(meta["name"]))))
        for condition in (tree.get("status") or {}).get("conditions") or ():
            _append(values, (obj, condition["type"]), condition)
    return values


def _append(values: Values, key: tuple[str, str], value: dict[str, Any]) -> None:
    seen = values.setdefault(key, [])
    new = (value["status"], value["reason"], plain(value["message"]))
    if not seen or seen[-1] != new:
        seen.append(new)


def recorded_events(trace: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    events = (change["event"] for change in trace["history"] if "event" in change)
    return {
        (e["type"], e["reason"], plain(e["note"]), e["regarding"]) for e in events if e.get("by") != "job-controller"
    }


def played_events(world: World) -> set[tuple[str, str, str, str]]:
    result = set()
    for line in world.history:
        if line.split(b" ")[1] != b"events":
            continue
        e = msgspec.json.decode(line.split(b" ", 2)[2])
        if e["source"]["component"] != "job-controller":
            on = e["involvedObject"]
            where = "/".join(filter(None, (on["kind"], on.get("namespace"), plain(on["name"]))))
            result.add((e["type"], e["reason"], plain(e["message"]), where))
    return result

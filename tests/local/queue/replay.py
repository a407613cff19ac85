"""Replays a recorded scenario of the real Kueue on our cluster in virtual time, or on the real server in real time.

The steps are taken at their recorded times; pods do what the recording says and nothing else; killing and starting the
manager kills and starts our controllers. `compare` judges the result.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from job_controller.ports import Clock
from queue_manager.api.api_resources import NAMESPACES, PODS, by_kind
from queue_manager.configuration import KueueConfig, loads
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, ApiError
from queue_manager.simulation.kubelet import pod_status
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue import compare
from tests.local.queue.facts import plain

GOLDEN = Path(__file__).parents[2] / "golden" / "kueue"
TRACES = GOLDEN / "traces"
API_VERSIONS = {"Job": "batch/v1", "Namespace": "v1", "PriorityClass": "scheduling.k8s.io/v1"}


LAG_SECONDS = 2.0  # queues and the Job controller batch their status writes
TIMEOUT_SECONDS = 30.0


TEAMS = {"ns": "a", "ns2": "b"}  # namespaces


class ReplayTarget(Protocol):
    """Where a recording is replayed: the queue's controllers can be killed and started."""

    client: RestClient
    history: list[bytes]

    @property
    def clock(self) -> Clock: ...

    async def start(self) -> None: ...

    async def kill(self) -> None: ...


class Played(NamedTuple):
    history: list[bytes]
    later: list[bytes]  # with the counters of the queues, which lag behind
    start: datetime
    answers: dict[str, tuple[object, object]]  # answers that differ, by step: (recorded, ours)


def load(name: str) -> dict[str, Any]:
    """A recording by the name of its file, or the beginning of that name."""
    (path,) = TRACES.glob(f"{name}*.json")
    trace: dict[str, Any] = json.loads(path.read_text().replace("-HASH2", "-HASH"))
    return trace


def played(trace: dict[str, Any]) -> compare.Course:
    """Our history of a recording."""
    result = run_virtual(play(trace))
    return compare.played(result.history, result.start)


def differences(trace: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """Replay a recording; returns what differs from it."""
    return compared(trace, run_virtual(play(trace)))


def compared(trace: dict[str, Any], result: Played, *, in_real_time: bool = False) -> dict[str, tuple[object, object]]:
    """What differs from the recording. In real time a kill may also lose Events of ours that are in flight."""
    unstable = json.loads((GOLDEN / "stability.json").read_text()).get(trace["scenario"], "same")
    theirs, ours = compare.recorded(trace), compare.played(result.history, result.start)
    later = compare.played(result.later, result.start).end
    chance = {} if isinstance(unstable, str) else dict(unstable)
    chance["killed"] = any(step["do"] == "kill -9" for step in trace["steps"])
    if in_real_time and chance["killed"]:
        chance["events"] = []
    return result.answers | compare.differences(theirs, ours, later, chance)


def configuration(trace: dict[str, Any]) -> KueueConfig:
    config = {k: v for k, v in trace["config"].items() if k in CONFIGURED}
    config["pendingReasonPeriod"] = "0s"  # Kueue writes each change of a message
    if trace["config"].get("featureGates", {}).get("DisableWaitForPodsReady"):
        config = {"apiVersion": "config.kueue.x-k8s.io/v1beta1", **config, "waitForPodsReady": {"enable": False}}
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    return loads(json.dumps({**head, **config}))


def embedded(config: KueueConfig) -> AbstractAsyncContextManager[ReplayTarget]:
    return World(1, None, config, separate_queue=True)


async def play(
    trace: dict[str, Any],
    scene: Callable[[KueueConfig], AbstractAsyncContextManager[ReplayTarget]] = embedded,
    is_done: Callable[[Played], bool] = lambda played: True,
) -> Played:
    """Run the steps of a recording at their times, up to its end.

    On a busy machine the end comes later than recorded: the replay goes on until `is_done`, for at most
    TIMEOUT_SECONDS.
    """
    answers: dict[str, tuple[object, object]] = {}
    async with scene(configuration(trace)) as world:
        await begin_namespaces(world.client, TEAMS)
        time = asyncio.get_running_loop().time
        await asyncio.sleep(1.0 - world.clock.now().microsecond / 1e6)
        start, zero = time(), world.clock.now()
        for step in trace["steps"]:
            await asyncio.sleep(max(0.0, start + step.get("t", 0) - time()))
            answer, expected = await do_step(world, step), _expected(step)
            if answer != expected:
                answers[f"step {step['n']}"] = expected, answer
        await asyncio.sleep(max(0.0, start + max(change["t"] for change in trace["history"]) + 0.5 - time()))
        end = time() + TIMEOUT_SECONDS
        while True:
            history = list(world.history)
            await asyncio.sleep(LAG_SECONDS)
            result = Played(history, list(world.history), zero, answers)
            if is_done(result) or time() >= end:
                return result


async def begin_namespaces(client: RestClient, teams: dict[str, str]) -> None:
    """The namespaces of the recording with their labels; the real server may have them already."""
    for name, team in teams.items():
        try:
            await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        await client.patch(NAMESPACES, "", name, {"metadata": {"labels": {"team": team}}})


def _expected(step: dict[str, Any]) -> object:
    """The recorded answer of a step. All codes of success are equal; a refusal counts with its body, a lookup with what
    it found.
    """
    if step["do"] == "get":
        return step.get("finalizers", step["code"])
    answer = step.get("answer")
    return (step["code"], answer.get("reason", ""), answer.get("message", "")) if answer else "done"


CONFIGURED = (
    "waitForPodsReady",
    "manageJobsWithoutQueueName",
    "managedJobsNamespaceSelector",
    "objectRetentionPolicies",
    "resources",
)


async def do_step(world: ReplayTarget, step: dict[str, Any]) -> object:
    """Take one step of a recording; returns "done", what a lookup found, or the refusal."""
    what, obj, body = step["do"], step.get("obj", ""), step.get("body")
    match what:
        case "kill -9":
            await world.kill()
        case "start":
            await world.start()
        case "kubelet":
            await _kubelet(world, obj.removeprefix("Pods of "), body)
        case "create" | "patch" | "patch status" | "delete" | "get":
            try:
                return await _request(world, what, obj, _with_times(await with_uids(body, world), world))
            except ApiError as error:
                return error.status if what == "get" else (error.status, error.reason, plain(error.message))
    return "done"


async def _request(world: ReplayTarget, what: str, obj: str, body: Any) -> object:
    kind, *rest = obj.split("/")
    resource = by_kind(API_VERSIONS.get(kind, "kueue.x-k8s.io/v1beta2"), kind)
    namespace, name = rest if len(rest) == 2 else ("", rest[0])
    if kind == "Workload":
        name = await _real_name(world, namespace, name)
    match what:
        case "create":
            await world.client.create(resource, namespace, body)
        case "get":
            return (await world.client.get(resource, namespace, name))["metadata"].get("finalizers", 200)
        case "delete":
            await world.client.delete(resource, namespace, name, propagation=(body or {}).get("propagationPolicy", ""))
        case _:
            sub = "status" if what == "patch status" else ""
            await world.client.patch(resource, namespace, name, body, subresource=sub)
    return "done"


async def with_uids(body: Any, world: ReplayTarget) -> Any:
    """The body with the uids that the referenced objects have here."""
    text = json.dumps(body)
    for kind, name in re.findall(r"<uid (\w+):([^>]*)>", text):
        resource = by_kind(API_VERSIONS.get(kind, "kueue.x-k8s.io/v1beta2"), kind)
        uid = (await world.client.get(resource, "ns" if resource.namespaced else "", name))["metadata"]["uid"]
        text = text.replace(f"<uid {kind}:{name}>", uid)
    return json.loads(text)


def _with_times(body: Any, world: ReplayTarget) -> Any:
    """The body with absolute times. Recorded times are seconds since the start; a transition time need not be exact."""
    if isinstance(body, dict):
        now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            k: now if k == "lastTransitionTime" and isinstance(v, float) else _with_times(v, world)
            for k, v in body.items()
        }
    return [_with_times(item, world) for item in body] if isinstance(body, list) else body


async def _real_name(world: ReplayTarget, namespace: str, name: str) -> str:
    resource = by_kind("kueue.x-k8s.io/v1beta2", "Workload")
    names = [w["metadata"]["name"] for w in await world.client.list(resource, namespace)]
    return next((n for n in names if plain(n) == name), name)


async def _kubelet(world: ReplayTarget, job: str, body: dict[str, Any]) -> None:
    """Change so many pods of a Job: pending pods first for Running, running pods first otherwise."""
    namespace, name = job.split("/")
    for _ in range(100):
        pods = [p for p in await world.client.list(PODS, namespace) if _owner(p) == name and _alive(p)]
        if sum(_changes(pod, body) for pod in pods) >= body["count"]:
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


def _changes(pod: dict[str, Any], body: dict[str, Any]) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
    return (pod["status"].get("phase"), ready) != (body["phase"], body["ready"])


def _owner(pod: dict[str, Any]) -> str:
    return str((pod["metadata"].get("ownerReferences") or [{}])[0].get("name"))


def _alive(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]

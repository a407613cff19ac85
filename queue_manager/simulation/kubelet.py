"""A kubelet without processes: each pod follows a script, in virtual time, through the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from job_controller import pod_phases
from job_controller.model import Key, Pod
from job_controller.pod_facts import is_terminal
from job_controller.times import timestamp
from queue_manager.api.api_resources import PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, ApiError, Request
from queue_manager.engine.workqueue import WorkQueue

NODE = "simulated"


@dataclass(frozen=True, slots=True)
class PodScript:
    """What a pod does, in seconds after its creation; None: never."""

    ready_after: float | None = 1.0
    ends_after: float | None = 10.0
    exit_code: int = 0
    stops_within: float = 0.5  # after its deletion
    no_node: str = ""  # the scheduler's message if no node can take it; "": it is bound


Script = Callable[[Pod], PodScript]


class Kubelet:
    """Binds every pod to one node and reports its scripted states: Running and ready, then Succeeded or Failed."""

    def __init__(self, runtime: Runtime, script: Script) -> None:
        self._client = runtime.client
        self._clock = runtime.clock
        self._script = script
        self._pods = runtime.cache(PODS, Pod)
        self._queue: WorkQueue[Key] = WorkQueue("kubelet")
        self._pods.subscribe(self._changed)
        runtime.worker(self._queue, self._sync, concurrency=1)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._queue.add(new.metadata.key)

    async def _sync(self, key: Key) -> None:
        pod = self._pods.get(key.namespace, key.name)
        if pod is None:
            return
        try:
            await self._play(pod)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def _play(self, pod: Pod) -> None:
        outcome = self._script(pod)
        if pod.metadata.deletion_timestamp is not None:
            await self._stop(pod, outcome)
        elif is_terminal(pod):
            return
        elif not pod.spec.node_name and outcome.no_node:
            await self._mark_unschedulable(pod, outcome.no_node)
        elif not pod.spec.node_name:
            await self._bind(pod)
        elif not _is_ready(pod) and self._due(pod, outcome.ready_after):
            await self._report(pod, pod_phases.RUNNING, outcome)
        elif _is_ready(pod) and self._due(pod, outcome.ends_after):
            await self._report(pod, pod_phases.FAILED if outcome.exit_code else pod_phases.SUCCEEDED, outcome)

    def _due(self, pod: Pod, after: float | None) -> bool:
        """Whether `after` seconds have passed since the creation of the pod; if not, sync the pod again then."""
        if after is None:
            return False
        created = pod.metadata.creation_timestamp
        remaining = after - (self._clock.now() - created).total_seconds() if created else 0.0
        if remaining > 0:
            self._queue.add_after(pod.metadata.key, remaining)
        return remaining <= 0

    async def _bind(self, pod: Pod) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.metadata.name}, "target": target}
        path = PODS.path(pod.metadata.namespace, pod.metadata.name, "binding")
        answer = await self._client.transport.request(Request("POST", path, body=msgspec.json.encode(binding)))
        if not answer.is_success:
            raise ApiError.of(answer.status, answer.body)

    async def _mark_unschedulable(self, pod: Pod, message: str) -> None:
        """Set PodScheduled=False, Unschedulable, once."""
        if any(c.type == "PodScheduled" and c.message == message for c in pod.status.conditions):
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        await self._patch(pod, {"conditions": [condition]})

    async def _report(self, pod: Pod, phase: str, outcome: PodScript) -> None:
        await self._patch(pod, pod_status(phase, outcome.exit_code, self._clock.now()))

    async def _patch(self, pod: Pod, status: dict[str, Any]) -> None:
        await self._client.patch(
            PODS,
            pod.metadata.namespace,
            pod.metadata.name,
            {"status": status},
            subresource="status",
            content_type=STRATEGIC_PATCH,
            type=Pod,
        )

    async def _stop(self, pod: Pod, outcome: PodScript) -> None:
        await asyncio.sleep(outcome.stops_within)
        if not is_terminal(pod):
            await self._report(pod, pod_phases.FAILED, PodScript(exit_code=143))
        await self._client.delete(PODS, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid, grace_period=0)


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.is_true for c in pod.status.conditions)


def pod_status(phase: str, exit_code: int, now: datetime) -> dict[str, Any]:
    """The status that a kubelet writes for a pod with one container, `main`."""
    at = timestamp(now)
    running = phase == pod_phases.RUNNING
    state: dict[str, Any] = {"running": {"startedAt": at}}
    if not running:
        reason = "Error" if exit_code else "Completed"
        state = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": at}}
    ready = "True" if running else "False"
    return {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at}],
        "containerStatuses": [
            {"name": "main", "ready": running, "restartCount": 0, "image": "", "imageID": "", "state": state}
        ],
    }

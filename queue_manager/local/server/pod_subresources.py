"""The pod subresources `binding`, `eviction` and `log`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

import orjson

from job_controller import pod_phases
from job_controller.api_rules.field_errors import required
from job_controller.disruption_target import announcement, is_announced
from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.api.api_resources import Resource
from queue_manager.engine.transport_protocol import Response
from queue_manager.local import status_errors
from queue_manager.local.container_logs_protocol import ContainerLogs
from queue_manager.local.server import log_requests
from queue_manager.local.server.deletion import DeleteOptions, Deleter
from queue_manager.local.server.http_messages import Stream
from queue_manager.local.server.request_bodies import read_body
from queue_manager.local.server.request_info import Call
from queue_manager.local.server.writing import Writer
from queue_manager.local.storage.store import Store, decode

BINDING = Resource("", "v1", "pods/binding", "Binding")
EVICTION_REASON, EVICTION_MESSAGE = "EvictionByEvictionAPI", "Eviction API: evicting"


class PodSubresources:
    """The subresources of pods."""

    def __init__(self, store: Store, writer: Writer, deleter: Deleter, logs: ContainerLogs | None) -> None:
        self._store = store
        self._writer = writer
        self._deleter = deleter
        self._logs = logs

    def bind(self, call: Call) -> bytes:
        """POST of a Binding: give the pod its node. Raises 404, 409 when it has one, 422."""
        binding = read_body(call.request)
        node = (binding.get("target") or {}).get("name")
        if not node:
            raise status_errors.invalid(BINDING, call.name, [required("target.name")])
        stored = self._writer.require(call)
        pod, old = decode(stored), decode(stored)
        meta = binding.get("metadata") or {}
        self._check_bindable(call, pod, meta)
        pod["spec"]["nodeName"] = node
        (pod.get("status") or {}).pop("nominatedNodeName", None)  # the nomination ends when the pod is bound
        for name in ("labels", "annotations"):
            if meta.get(name):
                pod["metadata"][name] = {**(pod["metadata"].get(name) or {}), **meta[name]}
        now = timestamp(self._store.now())
        set_condition(pod, {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})
        self._writer.store(call, pod, old)
        return done()

    def _check_bindable(self, call: Call, pod: Json, meta: Json) -> None:
        problem = ""
        if meta.get("uid") and meta["uid"] != pod["metadata"]["uid"]:
            uid = pod["metadata"]["uid"]
            problem = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {uid}"
        elif "deletionTimestamp" in pod["metadata"]:
            problem = f"pod {call.name} is being deleted, cannot be assigned to a host"
        elif node := pod["spec"].get("nodeName"):
            problem = f'pod {call.name} is already assigned to node "{node}"'
        if problem:
            raise status_errors.conflict(BINDING, call.name, problem)

    def evict(self, call: Call) -> bytes:
        """POST of an Eviction: add DisruptionTarget to the pod's status, then delete the pod (KEP-3329)."""
        eviction = read_body(call.request)
        tree = eviction.get("deleteOptions") or {}
        options = DeleteOptions.of_tree(tree | ({"dryRun": ["All"]} if call.dry_run else {}))
        stored = self._writer.require(call)
        self._deleter.delete(call, replace(options, dry_run=True))  # a pod that cannot be deleted gets no condition
        if options.dry_run:
            return done()
        pod, old = decode(stored), decode(stored)
        if _may_be_announced(pod):
            set_condition(pod, announcement(EVICTION_REASON, EVICTION_MESSAGE, self._store.now()))
            self._writer.store(call, pod, old)
        self._deleter.delete(call, replace(options, resource_version=""))  # the condition changed the version
        return done()

    def log(self, call: Call) -> Response | Stream:
        """GET of a container's output, which is empty for an unscheduled pod. Raises 400, 404, 422."""
        options = log_requests.parse(call)
        pod = decode(self._writer.require(call))
        container = log_requests.container_of(pod, call.option("container"))
        if self._logs is None or not (pod.get("spec") or {}).get("nodeName"):
            return Response(204, {}, b"")
        lines = self._logs.open(pod, container, options)
        return Stream(200, {"Content-Type": "text/plain"}, _relay(lines))


async def _relay(lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in lines:
            yield chunk
    finally:
        if isinstance(lines, AsyncGenerator):
            await lines.aclose()


def _may_be_announced(pod: Json) -> bool:
    """Whether the pod gets DisruptionTarget: it has not ended, is not being deleted, and does not have it yet."""
    status = pod.get("status") or {}
    if status.get("phase") in pod_phases.TERMINAL or "deletionTimestamp" in pod["metadata"]:
        return False
    return not is_announced((c.get("type"), c.get("status")) for c in status.get("conditions") or ())


def set_condition(pod: Json, condition: Json) -> None:
    """Set or replace a condition in status. Keep the transition time if the condition's status does not change."""
    status = pod.setdefault("status", {})
    conditions: list[Any] = status.get("conditions") or []
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            if present.get("status") == condition["status"]:
                condition["lastTransitionTime"] = present.get("lastTransitionTime")
            conditions[index] = condition
            break
    else:
        conditions.append(condition)
    status["conditions"] = conditions


def done() -> bytes:
    """Return the Status of an action that returns no object."""
    return orjson.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})

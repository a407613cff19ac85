"""The placement loop: keeps the pending pods, tries them in order and writes the results.

Pending pods are kept in memory in the order of kube-scheduler (priority, then age). Whenever a pod, a node or the room
on a node changes, all pending pods are tried again. A pod that fits nowhere gets the reason in its PodScheduled
condition, which is written again only when the reason changes. Pods with the same signature (requests and constraints)
fail together: after the first one, the others of a round are refused without filtering.

    waiting --a node fits--> binding --> bound
       | fits nowhere, and pods of lower priority hold enough room (pod_preemption.py)
       v
    nominated: the victims are deleted, and their room is reserved for the pod --> binding --> bound

While the room of terminating pods suffices for a pod, no further pods are preempted for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Key
from queue_manager.api.api_resources import NODES, PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.local.placement.node_choice import NodeRoom, PlacementPod, Unschedulable, place
from queue_manager.local.placement.node_usage import NodeUsage
from queue_manager.local.placement.placement_objects import (
    UNFINISHED,
    NodeObject,
    PodObject,
    held_by,
    is_ours,
    node_of,
    priority_of,
    requests_of,
)
from queue_manager.local.placement.placement_writes import PlacementWrites
from queue_manager.local.placement.pod_preemption import NEVER, PlacedPod, preempt

WRITES_IN_FLIGHT = 16
BINDING_RETRY_SECONDS = 1.0
# The fields of a pod's spec that decide on its placement.
PLACEMENT_FIELDS = (
    "containers",
    "initContainers",
    "overhead",
    "resources",
    "nodeSelector",
    "affinity",
    "tolerations",
    "priority",
    "preemptionPolicy",
)


class PendingPod(NamedTuple):
    """A pod without a node. `order`: its place among pending pods, by priority and age."""

    pod: PlacementPod
    priority: int
    order: tuple[int, str, Key]
    signature: bytes  # pods with equal signatures fit the same nodes


@dataclass(frozen=True, slots=True)
class PlacementRound:
    """State of one round: the nodes, and what is known of pods by their signature (`PendingPod.signature`).

    `refused`: why no node takes such a pod. `unresolvable`: no preemption makes room for such a pod.
    """

    nodes: Sequence[NodeRoom]
    refused: dict[bytes, Unschedulable] = field(default_factory=dict)
    unresolvable: set[bytes] = field(default_factory=set)


class Placement:
    """Binds pods to nodes. Construct it before the runtime starts."""

    def __init__(self, runtime: Runtime) -> None:
        self._reports = PlacementWrites(runtime)
        self._rounds: WorkQueue[str] = WorkQueue("placement")
        self._writes: WorkQueue[str] = WorkQueue("placement-writes")
        self._waiting: dict[str, PendingPod] = {}  # by uid
        self._binding: dict[str, PendingPod] = {}  # placed; the binding is being written
        self._refused: dict[str, Unschedulable] = {}
        self._victims: dict[str, str] = {}  # uid -> uid of the preemptor
        self._room = NodeUsage()
        self._nodes = runtime.cache(NODES, NodeObject)
        self._pods = runtime.cache(PODS, PodObject, field_selector=UNFINISHED)
        self._nodes.subscribe(lambda old, new: self._rounds.add("nodes"))
        self._pods.subscribe(self._pod_changed)
        runtime.worker(self._rounds, self._round, 1)
        runtime.worker(self._writes, self._write, WRITES_IN_FLIGHT)

    # --- watched objects -

    def _pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        if new is None:
            if old is not None:
                self._forget_pod(old.metadata.uid)
            return
        uid, spec = new.metadata.uid, msgspec.json.decode(new.spec)
        if spec.get("nodeName"):
            self._set_bound(new, spec)
        elif uid not in self._binding and is_ours(new, spec):
            self._set_pending(new, spec)
        elif new.metadata.deletion_timestamp is not None:
            self._waiting.pop(uid, None)
            self._room.withdraw(uid)

    def _set_pending(self, pod: PodObject, spec: Json) -> None:
        meta = pod.metadata
        before = self._waiting.get(meta.uid)
        signature = msgspec.json.encode([spec.get(name) for name in PLACEMENT_FIELDS])
        if before is not None and before.signature == signature:
            return  # only its status changed
        known = PlacementPod(meta.key, meta.uid, spec, requests_of(meta.key, spec))
        created = meta.creation_timestamp.isoformat() if meta.creation_timestamp else ""
        priority = priority_of(spec)
        if before is None and (node := pod.status.nominated_node_name):  # nominated by an earlier run
            self._room.nominate(PlacedPod(meta.uid, node, known.requests, priority))
        self._waiting[meta.uid] = PendingPod(known, priority, (-priority, created, meta.key), signature)
        self._rounds.add("pods")

    def _set_bound(self, pod: PodObject, spec: Json) -> None:
        uid, held = pod.metadata.uid, held_by(pod, spec)
        for table in (self._waiting, self._binding, self._refused):
            table.pop(uid, None)
        if self._room.held(uid) != held:
            self._room.take(held)
        if pod.metadata.deletion_timestamp is not None:
            self._room.leaving.add(uid)

    def _forget_pod(self, uid: str) -> None:
        """Release the room of a pod that was deleted or has finished."""
        for table in (self._waiting, self._binding, self._refused, self._victims):
            table.pop(uid, None)
        self._room.withdraw(uid)
        self._release(uid)

    def _release(self, uid: str) -> None:
        if self._room.release(uid) and self._waiting:
            self._rounds.add("room")

    # --- decisions ---

    async def _round(self, _cause: str) -> None:
        """Try all pending pods in order."""
        if not self._waiting:
            return
        attempt = PlacementRound(
            [node_of(node) for node in sorted(self._nodes.values(), key=lambda node: node.metadata.name)]
        )
        for n, waiting in enumerate(sorted(self._waiting.values(), key=lambda waiting: waiting.order)):
            if n % 100 == 99:
                await asyncio.sleep(0)  # yield to the event loop
            if waiting.pod.uid in self._waiting:
                self._decide(waiting, attempt)

    def _decide(self, waiting: PendingPod, attempt: PlacementRound) -> None:
        pod, room = waiting.pod, self._room
        uid = pod.uid
        answer: str | Unschedulable | None = None
        if not room.nominated(
            uid
        ):  # a nominated pod may use the room reserved for it, so a refusal of others does not apply
            answer = attempt.refused.get(waiting.signature)
        if answer is None:
            answer = place(pod, attempt.nodes, room.usage(uid, waiting.priority))
        if isinstance(answer, Unschedulable):
            attempt.refused[waiting.signature] = answer
            self._refuse(uid, answer._replace(nominated=self._make_room(waiting, attempt)))
            return
        self._refused.pop(uid, None)
        self._binding[uid] = self._waiting.pop(uid)
        room.take(PlacedPod(uid, answer, pod.requests, waiting.priority))
        self._writes.add(uid)

    def _refuse(self, uid: str, refusal: Unschedulable) -> None:
        if self._refused.get(uid) != refusal:
            self._refused[uid] = refusal
            self._writes.add(uid)

    def _make_room(self, waiting: PendingPod, attempt: PlacementRound) -> str:
        """The node on which pods are preempted for the pod, choosing victims if needed; empty if none."""
        pod, room = waiting.pod, self._room
        uid, priority = pod.uid, waiting.priority
        found = None
        if self._may_preempt(waiting, attempt):
            usage = room.usage_after_deletions(uid, priority)
            if isinstance(place(pod, attempt.nodes, usage), str):
                return room.nominated(uid)
            found = preempt(pod, attempt.nodes, usage, room.preemptable(priority, self._binding))
        if found is None:
            attempt.unresolvable.add(waiting.signature)
            room.withdraw(uid)
            return ""
        room.nominate(PlacedPod(uid, found.node, pod.requests, priority))
        for victim in found.victims:
            room.leaving.add(victim.uid)
            self._victims[victim.uid] = uid
            self._writes.add(victim.uid)
        return found.node

    def _may_preempt(self, waiting: PendingPod, attempt: PlacementRound) -> bool:
        if waiting.signature in attempt.unresolvable and not self._room.nominated(waiting.pod.uid):
            return False
        return waiting.pod.spec.get("preemptionPolicy") != NEVER and self._room.has_lower_priority(waiting.priority)

    # --- writes ---

    async def _write(self, uid: str) -> None:
        """Bind the pod, delete it for its preemptor, or write why it is pending."""
        pod = self._pods.by_uid(uid)
        if pod is None:
            return
        held = self._room.held(uid)
        if uid in self._binding and held is not None:
            if not await self._reports.bind(pod, held.node):
                self._retry_binding(uid)
        elif uid in self._victims and held is not None:
            if pod.metadata.deletion_timestamp is None:
                await self._reports.preempt(pod, self._victims[uid], held.node)
        elif (refusal := self._refused.get(uid)) is not None:
            await self._reports.refuse(pod, refusal)

    def _retry_binding(self, uid: str) -> None:
        """Retry a refused binding later. If the pod is gone or already bound, the watch removes it before."""
        waiting = self._binding.pop(uid, None)
        if waiting is not None:
            self._release(uid)
            self._waiting[uid] = waiting
            self._rounds.add_after("refused binding", BINDING_RETRY_SECONDS)

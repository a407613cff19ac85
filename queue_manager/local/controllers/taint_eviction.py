"""Evict pods from nodes with NoExecute taints, immediately or when the pod's toleration ends.

The time counts from when both the taint and the pod are on the node. A taint starts at its timeAdded or, without one,
when this process first saw it; such taints start anew when the process restarts. A start that lies in the future,
because the clock was set back, counts from when that is first observed (`job_controller.times.wait_start`). Pods that
have ended or are being deleted are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from job_controller.json_tree import Json
from job_controller.times import WaitStart, later, wait_start
from queue_manager.api.api_resources import NODES, PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.local.placement.placement_objects import UNFINISHED, NodeObject, PodObject
from queue_manager.local.placement.tolerations import tolerated_for
from queue_manager.local.pod_disruption import disrupt

NO_EXECUTE = "NoExecute"
COMPONENT = "taint-eviction-controller"
REASON = "DeletionByTaintManager"
MESSAGE = "Taint manager: deleting due to NoExecute taint"
EVENT = "TaintManagerEviction"
EVICTIONS_IN_FLIGHT = 8
MAX_TOLERATION_SECONDS = 100 * 365 * 86_400  # seconds; longer tolerations would exceed the range of datetime


class Tainted(NamedTuple):
    """A NoExecute taint and since when it has been on the node."""

    taint: Json
    start: WaitStart


def no_execute(taints: Iterable[Json], before: Sequence[Tainted], now: datetime) -> list[Tainted]:
    """Return the NoExecute taints of a node. Taints that are in `before` keep their start."""
    known = {_identity(tainted.taint): tainted.start for tainted in before}
    found = [taint for taint in taints if taint.get("effect") == NO_EXECUTE]
    return [Tainted(taint, _start(taint, known.get(_identity(taint)), now)) for taint in found]


def evicted_at(tolerations: Sequence[Json], taints: Iterable[Tainted], bound: datetime) -> datetime | None:
    """Return when a pod that has been on the node since `bound` is evicted; None means never."""
    ends = []
    for tainted in taints:
        seconds = tolerated_for(tolerations, tainted.taint)
        if seconds is not None and seconds < MAX_TOLERATION_SECONDS:
            ends.append(later(max(tainted.start.effective, bound), seconds))
    return min(ends, default=None)


def _identity(taint: Json) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("value") or ""


def _start(taint: Json, before: WaitStart | None, now: datetime) -> WaitStart:
    text = taint.get("timeAdded")
    if text:
        return wait_start(datetime.fromisoformat(text), before, now)
    return wait_start(before.time if before is not None else now, before, now)


class TaintEviction:
    """Deletes pods that do not tolerate a NoExecute taint of their node. Construct it before the runtime starts."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._events = runtime.recorder(COMPONENT)
        self._queue: WorkQueue[str] = WorkQueue("taint_eviction")
        self._tainted: dict[str, list[Tainted]] = {}  # by node; only nodes that have such taints
        self._announced: set[str] = set()  # uids of pods with a pending eviction
        self._bound: dict[str, WaitStart] = {}  # by uid of a pod on a tainted node: since when it is on the node
        self._pods = runtime.cache(PODS, PodObject, field_selector=UNFINISHED)
        runtime.cache(NODES, NodeObject).subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)
        runtime.worker(self._queue, self._sync, EVICTIONS_IN_FLIGHT)

    def _node_changed(self, old: NodeObject | None, new: NodeObject | None) -> None:
        node = new if new is not None else old
        if node is None:
            return
        name = node.metadata.name
        before = self._tainted.pop(name, [])
        if new is not None:
            found = no_execute(new.spec.get("taints") or (), before, self._runtime.clock.now())
            if found:
                self._tainted[name] = found
        if before != self._tainted.get(name, []):
            for pod in self._pods.values():
                if _spec(pod).get("nodeName") == name:
                    self._queue.add(pod.metadata.uid)

    def _pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        if new is None:
            if old is not None:
                self._announced.discard(old.metadata.uid)
                self._bound.pop(old.metadata.uid, None)
        elif self._tainted and _spec(new).get("nodeName") in self._tainted:
            self._queue.add(new.metadata.uid)

    async def _sync(self, uid: str) -> None:
        """Evict the pod if its toleration has ended. Raises errors that should be retried."""
        pod = self._pods.by_uid(uid)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        now = self._runtime.clock.now()
        spec = _spec(pod)
        due = evicted_at(spec.get("tolerations") or (), self._taints(spec, now), self._bound_at(pod, now))
        if due is None:
            if uid in self._announced:
                self._announced.discard(uid)
                self._events.event(pod, "Normal", EVENT, f"Cancelling deletion of Pod {pod.metadata.key}")
        elif due > now:
            self._announced.add(uid)
            self._queue.add_after(uid, (due - now).total_seconds())
        else:
            self._events.event(pod, "Normal", EVENT, f"Marking for deletion Pod {pod.metadata.key}")
            await disrupt(self._runtime, pod, REASON, MESSAGE)

    def _taints(self, spec: Mapping[str, Json], now: datetime) -> Sequence[Tainted]:
        """The NoExecute taints of the pod's node, of which none starts in the future."""
        node = spec.get("nodeName") or ""
        known = self._tainted.get(node)
        if known is None:
            return ()
        taints = self._tainted[node] = no_execute([tainted.taint for tainted in known], known, now)
        return taints

    def _bound_at(self, pod: PodObject, now: datetime) -> datetime:
        uid = pod.metadata.uid
        start = self._bound[uid] = wait_start(_bound_at(pod, now), self._bound.get(uid), now)
        return start.effective


def _spec(pod: PodObject) -> Mapping[str, Json]:
    spec: Mapping[str, Json] = msgspec.json.decode(pod.spec)
    return spec


def _bound_at(pod: PodObject, now: datetime) -> datetime:
    """Return the time since which the pod has been on its node."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.is_true and condition.last_transition_time:
            return condition.last_transition_time
    return pod.metadata.creation_timestamp or now

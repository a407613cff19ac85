"""Pod placement: the scheduler of the embedded cluster.

`place` is the decision for one pod, pure: the filters of kube-scheduler that make sense on one machine, in its order
and with its words; of the nodes that remain, the one with the most room (ties: by name). There is no preemption.

`Placement` is the loop around it. Pods wait in the order of kube-scheduler (priority, then age) in memory; whenever a
pod, a node or the room on a node changes, those that wait are tried again. A pod that fits nowhere is told so once,
in its PodScheduled condition, and again only when the reason changes. Pods that ask for the same and may go to the
same nodes fail together: after the first, the others of an attempt need no second look.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from job_controller.fields import Json
from job_controller.model import Key, Object, PodStatus
from queue_manager.engine.resources import NODES, PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import STRATEGIC_PATCH, ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.scheduling.amounts import Amounts, amount
from queue_manager.scheduling.requests import pod_requests

log = logging.getLogger(__name__)

SCHEDULER = "default-scheduler"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
UNSCHEDULABLE = "Unschedulable"
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
WRITES_IN_FLIGHT = 16
BINDING_RETRY_SECONDS = 1.0
# The part of a pod's spec that decides where it may go.
PLACEMENT_FIELDS = (
    "containers",
    "initContainers",
    "overhead",
    "resources",
    "nodeSelector",
    "affinity",
    "tolerations",
    "priority",
)


class Pod(NamedTuple):
    """What placement must know of a pod; `spec` is its JSON."""

    key: Key
    uid: str
    spec: Json
    requests: Amounts


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: Sequence[Json] = ()
    unschedulable: bool = False


class Refusal(NamedTuple):
    """No node takes the pod; the text is kube-scheduler's, e.g. `0/2 nodes are available: 2 Insufficient cpu.`"""

    message: str


Usage = Mapping[str, Amounts]  # node name -> what its pods ask for, "pods" being their number


def place(pod: Pod, nodes: Sequence[Node], usage: Usage) -> str | Refusal:
    """The node for a pod, or why there is none."""
    fitting: list[tuple[float, str]] = []
    reasons: Counter[str] = Counter()
    for node in nodes:
        used = usage.get(node.name) or {}
        against = refusals(pod, node, used)
        if against:
            reasons.update(against)
        else:
            fitting.append((_load(pod.requests, node.allocatable, used), node.name))
    if fitting:
        return min(fitting)[1]
    if not nodes:
        return Refusal("no nodes available to schedule pods")
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return Refusal(f"0/{len(nodes)} nodes are available: {listed}.")


def refusals(pod: Pod, node: Node, used: Amounts) -> list[str]:
    """Why this node does not take the pod: of the first filter that says no, all its reasons. Empty: it does."""
    spec = pod.spec
    wanted = spec.get("nodeName")
    if wanted and wanted != node.name:
        return ["node(s) didn't match the requested node name"]
    tolerations = spec.get("tolerations") or ()
    if node.unschedulable and not _tolerates(tolerations, {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}):
        return ["node(s) were unschedulable"]
    for taint in node.taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerates(tolerations, taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
    if not _affinity_matches(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return _insufficient(pod.requests, node.allocatable, used)


def _insufficient(requests: Amounts, allocatable: Amounts, used: Amounts) -> list[str]:
    """The resources that do not fit, `pods` first."""
    reasons = ["Too many pods"] if used.get("pods", 0) + 1 > allocatable.get("pods", 0) else []
    for resource, wanted in requests.items():
        if resource != "pods" and 0 < wanted > allocatable.get(resource, 0) - used.get(resource, 0):
            reasons.append(f"Insufficient {resource}")
    return reasons


def _load(requests: Amounts, allocatable: Amounts, used: Amounts) -> float:
    """How full the fullest of cpu, memory and pods would be: the emptiest node wins, which spreads pods."""
    wanted = requests | {"pods": 1}
    shares = [
        (used.get(name, 0) + wanted.get(name, 0)) / allocatable[name]
        for name in ("cpu", "memory", "pods")
        if allocatable.get(name)
    ]
    return max(shares, default=0.0)


def _tolerates(tolerations: Sequence[Json], taint: Json) -> bool:
    return any(_matches_taint(toleration, taint) for toleration in tolerations)


def _matches_taint(toleration: Json, taint: Json) -> bool:
    """core/v1 Toleration.ToleratesTaint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return operator == "Equal" and bool(toleration.get("key")) and same_value


def _affinity_matches(spec: Json, node: Node) -> bool:
    """nodeSelector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Json, node: Node) -> bool:
    """Terms are alternatives, their requirements are not. An empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.name}
    return all(_holds(e, node.labels) for e in expressions) and all(_holds(f, names) for f in fields)


def _holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        have, limit = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > limit if operator == "Gt" else have < limit


# --- the loop around it ------------------------------------------------------------------------------------


class PodObject(Object):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatus = PodStatus()


class NodeObject(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class Placed(NamedTuple):
    node: str
    requests: Amounts


class Waiting(NamedTuple):
    pod: Pod
    order: tuple[int, str, Key]
    signature: bytes  # equal ones are placed and refused alike


class Placement:
    """Binds pods to nodes. Construct it before the runtime starts."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._events = runtime.recorder(SCHEDULER)
        self._rounds: WorkQueue[str] = WorkQueue("placement")
        self._writes: WorkQueue[str] = WorkQueue("placement-writes")
        self._waiting: dict[str, Waiting] = {}  # by uid
        self._placed: dict[str, Placed] = {}  # by uid, also those whose binding is on its way
        self._binding: dict[str, Waiting] = {}
        self._refused: dict[str, Refusal] = {}
        self._usage: dict[str, Amounts] = {}
        self._nodes = runtime.cache(NODES, NodeObject)
        self._pods = runtime.cache(PODS, PodObject, field_selector=UNFINISHED)
        self._nodes.subscribe(lambda old, new: self._rounds.add("nodes"))
        self._pods.subscribe(self._pod_changed)
        runtime.worker(self._rounds, self._round, 1)
        runtime.worker(self._writes, self._write, WRITES_IN_FLIGHT)

    # --- what is known ---

    def _pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old.metadata.uid)
            return
        uid, spec = new.metadata.uid, msgspec.json.decode(new.spec)
        if spec.get("nodeName"):
            self._bound(uid, Placed(spec["nodeName"], _requests(new.metadata.key, spec)))
        elif uid not in self._binding and _is_ours(new, spec):
            self._waits(new, spec)
        elif new.metadata.deletion_timestamp is not None:
            self._waiting.pop(uid, None)

    def _waits(self, pod: PodObject, spec: Json) -> None:
        meta = pod.metadata
        before = self._waiting.get(meta.uid)
        signature = msgspec.json.encode([spec.get(name) for name in PLACEMENT_FIELDS])
        if before is not None and before.signature == signature:
            return  # only its status changed
        known = Pod(meta.key, meta.uid, spec, _requests(meta.key, spec))
        created = meta.creation_timestamp.isoformat() if meta.creation_timestamp else ""
        order = (-int(spec.get("priority") or 0), created, meta.key)
        self._waiting[meta.uid] = Waiting(known, order, signature)
        self._rounds.add("pods")

    def _bound(self, uid: str, placed: Placed) -> None:
        self._waiting.pop(uid, None)
        self._binding.pop(uid, None)
        self._refused.pop(uid, None)
        if self._placed.get(uid) != placed:
            self._release(uid)
            self._take(uid, placed)

    def _gone(self, uid: str) -> None:
        """Deleted or finished: its room is free."""
        for table in (self._waiting, self._binding, self._refused):
            table.pop(uid, None)
        self._release(uid)

    def _take(self, uid: str, placed: Placed) -> None:
        self._placed[uid] = placed
        used = self._usage.setdefault(placed.node, {})
        for resource, value in (placed.requests | {"pods": 1}).items():
            used[resource] = used.get(resource, 0) + value

    def _release(self, uid: str) -> None:
        placed = self._placed.pop(uid, None)
        if placed is None:
            return
        used = self._usage[placed.node]
        for resource, value in (placed.requests | {"pods": 1}).items():
            used[resource] -= value
        if self._waiting:
            self._rounds.add("room")

    # --- decisions ---

    async def _round(self, _cause: str) -> None:
        """Try all that wait, in order."""
        if not self._waiting:
            return
        nodes = [_node(node) for node in sorted(self._nodes.values(), key=lambda node: node.metadata.name)]
        refused: dict[bytes, Refusal] = {}
        for n, waiting in enumerate(sorted(self._waiting.values(), key=lambda waiting: waiting.order)):
            if n % 100 == 99:
                await asyncio.sleep(0)  # let others have the loop
            if waiting.pod.uid in self._waiting:
                self._decide(waiting, nodes, refused)

    def _decide(self, waiting: Waiting, nodes: Sequence[Node], refused: dict[bytes, Refusal]) -> None:
        uid = waiting.pod.uid
        answer = refused.get(waiting.signature) or place(waiting.pod, nodes, self._usage)
        if isinstance(answer, Refusal):
            refused[waiting.signature] = answer
            if self._refused.get(uid) != answer:
                self._refused[uid] = answer
                self._writes.add(uid)
            return
        self._refused.pop(uid, None)
        self._binding[uid] = self._waiting.pop(uid)
        self._take(uid, Placed(answer, waiting.pod.requests))
        self._writes.add(uid)

    # --- writes ---

    async def _write(self, uid: str) -> None:
        """Bind the pod, or say why it waits."""
        pod = self._pods.by_uid(uid)
        if pod is None:
            return
        if uid in self._binding:
            await self._bind(pod, self._placed[uid].node)
        elif (refusal := self._refused.get(uid)) is not None:
            await self._say(pod, refusal)

    async def _bind(self, pod: PodObject, node: str) -> None:
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(meta.namespace, meta.name, "binding")
        answer = await self._runtime.client.transport.request("POST", path, body=msgspec.json.encode(binding))
        if answer.status < 300:
            self._events.event(pod, "Normal", "Scheduled", f"Successfully assigned {meta.key} to {node}")
            return
        error = ApiError.of(answer.status, answer.body)
        if answer.status not in (404, 409):
            raise error
        log.info("a pod could not be bound", extra={"key": str(meta.key), "error": str(error)})
        waiting = self._binding.pop(meta.uid, None)
        if waiting is not None:  # if it is gone or bound by someone else, the watch will tell
            self._release(meta.uid)
            self._waiting[meta.uid] = waiting
            self._rounds.add_after("refused binding", BINDING_RETRY_SECONDS)

    async def _say(self, pod: PodObject, refusal: Refusal) -> None:
        known = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if known is not None and (known.status, known.reason, known.message) == (
            "False",
            UNSCHEDULABLE,
            refusal.message,
        ):
            return
        since = known.last_transition_time if known is not None and known.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": UNSCHEDULABLE,
            "message": refusal.message,
            "lastProbeTime": None,
            "lastTransitionTime": (since or self._runtime.clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self._runtime.client.patch(
                PODS,
                meta.namespace,
                meta.name,
                patch,
                subresource="status",
                content_type=STRATEGIC_PATCH,
                type=PodObject,
            )
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return
        self._events.event(pod, "Warning", "FailedScheduling", refusal.message)


def _is_ours(pod: PodObject, spec: Json) -> bool:
    """To be placed now, and by us."""
    return (
        pod.metadata.deletion_timestamp is None
        and not spec.get("schedulingGates")
        and (spec.get("schedulerName") or SCHEDULER) == SCHEDULER
    )


def _requests(key: Key, spec: Json) -> Amounts:
    try:
        return pod_requests(spec)
    except ValueError:  # the API server refuses such quantities; one that did not costs nothing
        log.warning("the requests of a pod cannot be read and count as none", extra={"key": str(key)})
        return {}


def _node(node: NodeObject) -> Node:
    allocatable = {name: amount(name, text) for name, text in (node.status.get("allocatable") or {}).items()}
    spec = node.spec
    return Node(
        node.metadata.name,
        node.metadata.labels,
        allocatable,
        spec.get("taints") or (),
        bool(spec.get("unschedulable")),
    )

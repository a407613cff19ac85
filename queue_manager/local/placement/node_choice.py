"""Which node a pod gets, or why no node fits it. Pure.

The filters of kube-scheduler that apply to local nodes are evaluated in its order and answer with its messages. Of the
nodes that pass, the least loaded one is chosen; ties are broken by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from job_controller.json_tree import Json
from job_controller.model import Key
from queue_manager.local.kinds.pod_kind import qos_class
from queue_manager.local.placement.tolerations import tolerates
from queue_manager.scheduling.amounts import Amounts
from queue_manager.scheduling.node_matching import meets

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
PRESSURE_TAINT = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
BEST_EFFORT = "BestEffort"


class PlacementPod(NamedTuple):
    """The placement inputs of a pod; `spec` is its JSON."""

    key: Key
    uid: str
    spec: Json
    requests: Amounts


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """The facts of a node that the filters read, without the pods on it."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: Sequence[Json] = ()
    unschedulable: bool = False
    pressed: bool = False  # under memory pressure


class Unschedulable(NamedTuple):
    """No node fits the pod. The message is kube-scheduler's, e.g. `0/2 nodes are available: 2 Insufficient cpu.`

    nominated: the node on which pods are preempted for it; empty if the pod is not nominated.
    """

    message: str
    nominated: str = ""


Usage = Mapping[str, Amounts]  # node name -> the requests of its pods; "pods" is their number


def place(pod: PlacementPod, nodes: Sequence[NodeRoom], usage: Usage) -> str | Unschedulable:
    """The node for a pod, or why no node fits."""
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
        return Unschedulable("no nodes available to schedule pods")
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return Unschedulable(f"0/{len(nodes)} nodes are available: {listed}.")


def refusals(pod: PlacementPod, node: NodeRoom, used: Amounts) -> list[str]:
    """Why this node does not fit the pod: all reasons of the first filter that fails; empty if it fits."""
    spec = pod.spec
    wanted = spec.get("nodeName")
    if wanted and wanted != node.name:
        return ["node(s) didn't match the requested node name"]
    tolerations = spec.get("tolerations") or ()
    if node.unschedulable and not tolerates(tolerations, {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}):
        return ["node(s) were unschedulable"]
    for taint in node.taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
    if node.pressed and not tolerates_pressure(qos_class(spec), spec):
        return [f"node(s) had untolerated taint {{{PRESSURE_TAINT['key']}: }}"]
    if not _affinity_matches(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return _insufficient(pod.requests, node.allocatable, used)


def tolerates_pressure(quality: str, spec: Json) -> bool:
    """Whether a pod of this QoS class may go to a node under memory pressure: a BestEffort pod needs a toleration."""
    return quality != BEST_EFFORT or tolerates(spec.get("tolerations") or (), PRESSURE_TAINT)


class Shortage(NamedTuple):
    """A resource of which a node has less than a pod requests, with both amounts."""

    resource: str
    requested: int
    used: int
    capacity: int


def shortages(requests: Amounts, allocatable: Amounts, used: Amounts) -> list[Shortage]:
    """The resources that do not fit, `pods` first."""
    wanted = {"pods": 1} | {name: value for name, value in requests.items() if name != "pods"}
    found = (Shortage(name, value, used.get(name, 0), allocatable.get(name, 0)) for name, value in wanted.items())
    return [s for s in found if 0 < s.requested > s.capacity - s.used]


def _insufficient(requests: Amounts, allocatable: Amounts, used: Amounts) -> list[str]:
    return [
        "Too many pods" if short.resource == "pods" else f"Insufficient {short.resource}"
        for short in shortages(requests, allocatable, used)
    ]


def _load(requests: Amounts, allocatable: Amounts, used: Amounts) -> float:
    """The highest utilization among cpu, memory and pods with the pod added; the lowest load wins, which
    spreads pods.
    """
    wanted = requests | {"pods": 1}
    shares = [
        (used.get(name, 0) + wanted.get(name, 0)) / allocatable[name]
        for name in ("cpu", "memory", "pods")
        if allocatable.get(name)
    ]
    return max(shares, default=0.0)


def _affinity_matches(spec: Json, node: NodeRoom) -> bool:
    """Whether the node matches the pod's nodeSelector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Json, node: NodeRoom) -> bool:
    """Whether a node selector term matches: all its requirements hold. An empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.name}
    return _all_met(expressions, node.labels) and _all_met(fields, names)


def _all_met(requirements: Sequence[Json], values: Mapping[str, str]) -> bool:
    return all(meets(values.get(requirement["key"]), requirement) for requirement in requirements)


def plus(used: Amounts, requests: Amounts, sign: int = 1) -> Amounts:
    """The requests of a node's pods with one pod added (sign 1) or removed (-1)."""
    total = dict(used)
    for resource, value in (requests | {"pods": 1}).items():
        total[resource] = total.get(resource, 0) + sign * value
    return total

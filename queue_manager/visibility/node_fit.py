"""Whether a pod of a Job fits no node, even an empty one, so that the end of other pods does not help. Pure.

It does not fit if it requests more than each node has, or if its nodeSelector requires labels that no node has.

    nodes                    before the scheduler has refused a pod    after it
    of `sluice up`           never starts (`no_fixed_node_fits`)       never starts
    of any other cluster     nothing is concluded                      waits: a larger node may be added

The nodes of `sluice up` are added only when it starts, and have the label `keys.LOCAL_NODE`. To other clusters a node
may be added at any time, for instance by an autoscaler, which acts on the scheduler's refusal.

Of the nodes that the nodeSelector does not exclude each counts, also one with a taint or a cordon, or one that the
pod's affinity excludes. So what is not reported may still never start. BEHAVIOUR.md#q196-pods-that-fit-no-node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api import keys
from queue_manager.api.types import Workload
from queue_manager.scheduling.amounts import Amounts, amount, text
from queue_manager.scheduling.pod_requests import pod_requests
from queue_manager.visibility.readable_amounts import readable

_SHORT = re.compile(r"Insufficient (?P<resource>[\w./-]*\w)")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node: its labels, what its pods may use, as quantities, and whether it takes no new pods."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    is_cordoned: bool = False


def short_resources(message: str) -> list[str]:
    """The resources of which nodes have too little, by the scheduler's message or a record of it."""
    return sorted(set(_SHORT.findall(message)))


@dataclass(frozen=True, slots=True)
class Lacks:
    """What the nodes of `sluice up` lack for a pod of a Job. Empty: one of them would fit, or that is unknown.

    `labels`: those of its nodeSelector, as `disk=ssd`, that no node has; if each is on some node, all of them.
    `absent`: the resources that no node has, with a text each. `excess`: which request exceeds the largest node.
    """

    labels: Sequence[str] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    excess: str = ""

    @property
    def labels_text(self) -> str:
        """`no node has the label disk=ssd of its nodeSelector`; "" if no label is lacking."""
        plural = "s" if len(self.labels) > 1 else ""
        return f"no node has the label{plural} {' and '.join(self.labels)} of its nodeSelector" if self.labels else ""

    @property
    def text(self) -> str:
        """All that is lacking; "" if nothing is."""
        return "; ".join(part for part in (self.labels_text, *self.absent.values(), self.excess) if part)


NOTHING = Lacks()


def lacks_of_fixed_nodes(job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None) -> Lacks:
    """Compare a pod with the nodes of `sluice up` alone, which are added only when that starts."""
    fixed = [node for node in nodes or () if node.labels.get(keys.LOCAL_NODE) == "true"]
    found = (_lacks(pod_spec, fixed) for pod_spec in _pod_specs(job, workload))
    return next((lacks for lacks in found if lacks.text), NOTHING) if fixed else NOTHING


def no_fixed_node_fits(job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None) -> str:
    """As `no_node_fits`, if nodes are added only when `sluice up` starts, so that the pods never start; else ""."""
    return lacks_of_fixed_nodes(job, workload, nodes).text


def _lacks(pod_spec: Json, nodes: Sequence[NodeFacts]) -> Lacks:
    """The size is compared with the nodes that the nodeSelector chooses, or with all if it chooses none."""
    selector = pod_spec.get("nodeSelector") or {}
    chosen = _chosen(selector, nodes)
    on_nodes = {label for node in nodes for label in node.labels.items()}
    missing = [] if chosen else sorted(selector.items() - on_nodes) or sorted(selector.items())
    beyond = _beyond_all(pod_spec, None, chosen or nodes)
    absent = {
        name: text
        for name, text in beyond.items()
        if name in pod_requests(pod_spec) and not any(amount(name, node.allocatable.get(name, "0")) for node in nodes)
    }
    excess = "; ".join(text for name, text in beyond.items() if name not in absent)
    return Lacks([f"{name}={value}" for name, value in missing], absent, excess)


def _chosen(selector: Mapping[str, str], nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    return [node for node in nodes if selector.items() <= node.labels.items()]


def no_node_fits(
    message: str,
    job: Job | None,
    workload: Workload | None,
    nodes: Sequence[NodeFacts] | None,
    *,
    awaits_node: bool = True,
) -> str:
    """`the largest node, n, has 8 cpu allocatable; a pod requests 16`, if a pod fits no node, else "".

    `message`: of the scheduler about the pods, or its record; "" before it has refused one: then only fixed nodes
    decide, and only if `awaits_node`: no pod of the Job runs. `nodes`: None if they are not visible.
    """
    short = short_resources(message)
    after = _first_excess(short, job, workload, nodes) if short else ""
    return after or (no_fixed_node_fits(job, workload, nodes) if awaits_node else "")


def _first_excess(
    short: Sequence[str], job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None
) -> str:
    """`short`: the resources to name."""
    specs = _pod_specs(job, workload)
    found = (_beyond_all(spec, short, _chosen(spec.get("nodeSelector") or {}, nodes or ())) for spec in specs)
    return next(("; ".join(beyond.values()) for beyond in found if beyond), "")


def _pod_specs(job: Job | None, workload: Workload | None) -> list[Json]:
    pod_sets = workload.spec.pod_sets if workload is not None else ()
    templates = [pod_set.template for pod_set in pod_sets] or ([job.spec.template] if job is not None else [])
    return [template.get("spec") or {} for template in templates]


def _beyond_all(pod_spec: Json, short: Sequence[str] | None, nodes: Sequence[NodeFacts]) -> dict[str, str]:
    """The resources of which even the node with the most has too little for the pod, each with a text.

    `short`: the resources to name, if known; None: all that the pod requests.
    """
    try:
        requests = pod_requests(pod_spec)
        sizes = {
            node.name: {name: amount(name, quantity) for name, quantity in node.allocatable.items()}
            for node in nodes
            if node.allocatable
        }
    except ValueError:  # not a quantity
        return {}
    if not sizes or any(_is_large_enough(size, requests) for size in sizes.values()):
        return {}
    asked = [name for name in (sorted(requests) if short is None else short) if requests.get(name, 0) > 0]
    beyond = {name: text for name in asked if (text := _beyond(name, requests[name], sizes))}
    if beyond or len(asked) <= 1:
        return beyond
    together = " and ".join(f"{_amount(name, requests[name])} {name}" for name in asked)
    return {" and ".join(asked): f"no node has {together} allocatable; a pod requests that"}


def _is_large_enough(size: Amounts, requests: Amounts) -> bool:
    return all(value <= size.get(name, 0) for name, value in requests.items())


def _beyond(name: str, requested: int, sizes: Mapping[str, Amounts]) -> str:
    """The node with the most of a resource, if even that has too little."""
    largest = min(sizes, key=lambda node: (-sizes[node].get(name, 0), node))
    has = sizes[largest].get(name, 0)
    if requested <= has:
        return ""
    if not has:
        return f"no node has {name}; a pod requests {_amount(name, requested)}"
    amounts = _amount(name, has), _amount(name, requested)
    has_text, asked = amounts if amounts[0] != amounts[1] else (text(name, has), text(name, requested))
    node = f"the only node, {largest}," if len(sizes) == 1 else f"the largest node, {largest},"
    return f"{node} has {has_text} {name} allocatable; a pod requests {asked}"


def _amount(name: str, value: int) -> str:
    return readable(name, text(name, value))

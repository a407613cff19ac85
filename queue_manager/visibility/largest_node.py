"""Whether a pod of a Job is larger than every node, so that the end of other pods does not help. Pure.

    nodes                    before the scheduler has refused a pod    after it
    of `sluice up`           never starts (`exceeds_fixed_nodes`)      never starts
    of any other cluster     nothing is concluded                      waits: a larger node may be added

The nodes of `sluice up` change only when it starts, and have the label `keys.LOCAL_NODE`. To other clusters a node may
be added at any time, for instance by an autoscaler, which acts on the scheduler's refusal.

A node counts unless the pods' node selector excludes it, also one with a taint or a cordon. So what is not reported may
still never start. BEHAVIOUR.md#q196-pods-larger-than-each-node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def exceeds_fixed_nodes(job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None) -> str:
    """As `exceeds_nodes`, if the nodes change only when `sluice up` starts, so that the pods never start; else ""."""
    fixed = [node for node in nodes or () if node.labels.get(keys.LOCAL_NODE) == "true"]
    return _first_excess(None, job, workload, fixed)


def exceeds_nodes(
    message: str,
    job: Job | None,
    workload: Workload | None,
    nodes: Sequence[NodeFacts] | None,
    *,
    awaits_node: bool = True,
) -> str:
    """`the largest node, n, has 8 cpu allocatable; a pod requests 16`, if no node is large enough for a pod, else "".

    `message`: of the scheduler about the pods, or its record; "" before it has refused one: then only fixed nodes
    decide, and only if `awaits_node`: no pod of the Job runs. `nodes`: None if they are not visible.
    """
    short = short_resources(message)
    after = _first_excess(short, job, workload, nodes) if short else ""
    return after or (exceeds_fixed_nodes(job, workload, nodes) if awaits_node else "")


def _first_excess(
    short: Sequence[str] | None, job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None
) -> str:
    if not nodes:
        return ""
    pod_sets = workload.spec.pod_sets if workload is not None else ()
    templates = [pod_set.template for pod_set in pod_sets] or ([job.spec.template] if job is not None else [])
    found = (_exceeds(template.get("spec") or {}, short, nodes) for template in templates)
    return next(filter(None, found), "")


def _exceeds(pod_spec: Json, short: Sequence[str] | None, nodes: Sequence[NodeFacts]) -> str:
    """`short`: the resources to name, if known; None: all that the pod requests."""
    selector = pod_spec.get("nodeSelector") or {}
    try:
        requests = pod_requests(pod_spec)
        sizes = {
            node.name: {name: amount(name, quantity) for name, quantity in node.allocatable.items()}
            for node in nodes
            if node.allocatable and selector.items() <= node.labels.items()
        }
    except ValueError:  # not a quantity
        return ""
    if not sizes or any(_is_large_enough(size, requests) for size in sizes.values()):
        return ""
    asked = [name for name in (sorted(requests) if short is None else short) if requests.get(name, 0) > 0]
    beyond = [text for name in asked if (text := _beyond(name, requests[name], sizes))]
    if beyond:
        return "; ".join(beyond)
    together = " and ".join(f"{_amount(name, requests[name])} {name}" for name in asked)
    return f"no node has {together} allocatable; a pod requests that" if len(asked) > 1 else ""


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

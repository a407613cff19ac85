"""Whether pods that found no node are larger than every node, so that the end of other pods does not help. Pure.

Only the scheduler's message or the record of it leads here: before a pod was refused, a node that does not exist yet
may be added for it. A node counts unless the pods' node selector excludes it, also one with a taint or a cordon. So
what is reported holds for the present nodes, and what is not reported may still never start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from job_controller.json_tree import Json
from job_controller.model import Job
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


def exceeds_nodes(message: str, job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None) -> str:
    """`the largest node, n, has 8 cpu allocatable; a pod requests 16`, if no node is large enough for a pod, else "".

    `message`: of the scheduler about the pods, or its record. `nodes`: None if they are not visible.
    """
    short = short_resources(message)
    if not short or not nodes:
        return ""
    pod_sets = workload.spec.pod_sets if workload is not None else ()
    templates = [pod_set.template for pod_set in pod_sets] or ([job.spec.template] if job is not None else [])
    found = (_exceeds(template.get("spec") or {}, short, nodes) for template in templates)
    return next(filter(None, found), "")


def _exceeds(pod_spec: Json, short: Sequence[str], nodes: Sequence[NodeFacts]) -> str:
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
    asked = [name for name in short if requests.get(name, 0) > 0]
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

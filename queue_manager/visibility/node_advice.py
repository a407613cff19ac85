"""What has to change so that a node takes the pods of a Job, by what the scheduler says about each node. Pure.

The scheduler's message names the reasons for which it excludes nodes, and not the nodes. So the advice names what is
short and how much one pod requests, but no node.
"""

from __future__ import annotations

from collections.abc import Sequence

from queue_manager.visibility.node_fit import short_resources
from queue_manager.visibility.requested_resources import DemandRow
from queue_manager.visibility.resubmission import SUBMIT_AGAIN

FITS = "a node has room for its pods and fits their node selector, affinity and tolerations"
BIGGER_NODE = "an admin adds a node that is big enough"
ADD_BIGGER = "add a bigger node"
BIGGER_LOCAL_NODE = "sluice up starts again with a larger node (--cpu, --memory)"
_OTHERS = (
    ("were unschedulable", "a cordoned node takes pods again (kubectl get nodes; kubectl uncordon NODE)"),
    ("Too many pods", "a node with all its pods has one less, or a node is added"),
    ("affinity", "a node has the labels that the pods' node selector and affinity require"),
    ("taint", "a node's taint is removed, or the pods tolerate it"),
    ("no nodes available", "a node is added"),
)


LESS = "its pods request less"


def request_less(again: str) -> str:
    """Return the change of a Job that requests too much. `again`: the command that replaces it (`resubmission`)."""
    return f"{LESS} ({again})"


def node_changes(
    message: str, rows: Sequence[DemandRow], *, sees_nodes: bool = False, again: str = SUBMIT_AGAIN
) -> tuple[str, ...]:
    """Return the changes after which a node may take the pods. `rows`: what the pods request; `again`: `request_less`.

    `sees_nodes`: whether the nodes were compared with the requests, and one is big enough (`node_fit`).
    """
    short = short_resources(message)
    asked = [f"{row.per_pod} {row.resource}" for row in rows if row.resource in short and row.per_pod not in ("", "0")]
    how = "other pods end, or a node is added"
    how = how if sees_nodes else "other pods end, if a node is that big, or a bigger node is added"
    found = [f"one node has {' and '.join(asked)} free: {how}"] if asked else []
    found += [request_less(again)] if asked else []
    found += [change for words, change in _OTHERS if words in message]
    return tuple(found) or (FITS,)

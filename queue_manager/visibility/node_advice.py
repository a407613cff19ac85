"""What has to change so that a node takes the pods of a Job, by what the scheduler says about each node. Pure.

The scheduler's message names the reasons for which it excludes nodes, and not the nodes. So the advice names what is
short and how much one pod requests, but no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.visibility.node_fit import NodeFacts, lacking_labels, no_fixed_node_fits, short_resources
from queue_manager.visibility.reason_codes import EXCEEDS_NODES, NO_MATCHING_NODE
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


def request_less(again: str) -> str:
    """Return the change of a Job that requests too much. `again`: the command that replaces it (`resubmission`)."""
    return f"its pods request less ({again})"


class NodeObstacle(NamedTuple):
    """Why no node of `sluice up` ever takes a Job's pods, and what removes it: a change of the Job or of a node.

    `lacks`: the text of `node_fit`, and `clause` the same as part of a sentence. `beside_less`: what the Job has to do
    besides, if it has to request less for another reason. `to_author`, `to_admin`: the changes as advice.
    """

    reason: str
    lacks: str
    clause: str
    job_change: str
    node_change: str
    beside_less: str
    to_author: str
    to_admin: str


def fixed_node_obstacle(
    job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None, again: str = SUBMIT_AGAIN
) -> NodeObstacle | None:
    """Return the obstacle of a Job that fits no node of `sluice up` (`node_fit`); None if one fits, or if unknown.

    `again`: as of `request_less`.
    """
    lacks = no_fixed_node_fits(job, workload, nodes)
    if not lacks:
        return None
    if labels := lacking_labels(job, workload, nodes):
        command = f"kubectl label node NODE {' '.join(labels)}"
        matches = "its nodeSelector matches a node"
        return NodeObstacle(
            reason=NO_MATCHING_NODE,
            lacks=lacks,
            clause=lacks,
            job_change=f"{matches} ({again})",
            node_change=f"a node gets the label{'s' if len(labels) > 1 else ''} ({command})",
            beside_less=matches,
            to_author="change the nodeSelector",
            to_admin=f"label a node ({command})",
        )
    return NodeObstacle(
        reason=EXCEEDS_NODES,
        lacks=lacks,
        clause=f"no node is large enough for its pods: {lacks}",
        job_change=request_less(again),
        node_change=BIGGER_LOCAL_NODE,
        beside_less="no more for a pod than a node has",
        to_author="request less",
        to_admin=BIGGER_LOCAL_NODE,
    )


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

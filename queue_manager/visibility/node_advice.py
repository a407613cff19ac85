"""What has to change so that a node takes the pods of a Job, by what the scheduler says about each node. Pure.

The scheduler's message names the reasons for which it excludes nodes, and not the nodes. So the advice names what is
short and how much one pod requests, but no node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.visibility.node_fit import Lacks, NodeFacts, lacks_of_fixed_nodes, short_resources
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


LESS = "its pods request less"


def request_less(again: str) -> str:
    """Return the change of a Job that requests too much. `again`: the command that replaces it (`resubmission`)."""
    return f"{LESS} ({again})"


class NodeObstacle(NamedTuple):
    """Why no node of `sluice up` ever takes a Job's pods, and what removes it: a change of the Job or of the nodes.

    `lacks`: the text of `node_fit`, and `clause` the same as part of a sentence. `node_change` and `to_admin` are "" if
    no node can get what is lacking. `beside_less`: what the Job has to do besides, if it has to request less for
    another reason. `to_author`, `to_admin`: the changes as advice.
    """

    reason: str
    lacks: str
    clause: str
    job_change: str
    node_change: str
    beside_less: str
    to_author: str
    to_admin: str

    @property
    def advice(self) -> str:
        """Both changes as advice."""
        return f"{self.to_author}, or {self.to_admin}" if self.to_admin else self.to_author


def fixed_node_obstacle(
    job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None
) -> NodeObstacle | None:
    """Return the obstacle of a Job that fits no node of `sluice up` (`node_fit`); None if one fits, or if unknown."""
    lacks = lacks_of_fixed_nodes(job, workload, nodes)
    found = [*_of_labels(lacks), *_of_absent(lacks), *_of_size(lacks)]
    if not found:
        return None
    is_possible = all(each.node_change for each in found)
    return NodeObstacle(
        reason=found[0].reason,
        lacks=lacks.text,
        clause=", and ".join(each.clause for each in found),
        job_change=" and ".join(each.job_change for each in found),
        node_change=", and ".join(each.node_change for each in found) if is_possible else "",
        beside_less=" and ".join(each.beside_less for each in found),
        to_author=" and ".join(each.to_author for each in found),
        to_admin=" and ".join(each.to_admin for each in found) if is_possible else "",
    )


def _of_labels(lacks: Lacks) -> Iterator[NodeObstacle]:
    if lacks.labels:
        command = f"kubectl label node NODE {' '.join(lacks.labels)}"
        yield NodeObstacle(
            reason=NO_MATCHING_NODE,
            lacks=lacks.texts[0],
            clause=lacks.texts[0],
            job_change="its nodeSelector matches a node",
            node_change=f"a node gets the label{'s' if len(lacks.labels) > 1 else ''} ({command})",
            beside_less="its nodeSelector matches a node",
            to_author="change the nodeSelector",
            to_admin=f"label a node ({command})",
        )


def _of_absent(lacks: Lacks) -> Iterator[NodeObstacle]:
    """`sluice up` offers its nodes cpu, memory and ephemeral storage only."""
    for name in lacks.absent:
        text = next(text for text in lacks.texts if text.startswith(f"no node has {name};"))
        not_requested = f"it does not request {name}"
        yield NodeObstacle(EXCEEDS_NODES, text, text, not_requested, "", not_requested, f"do not request {name}", "")


def _of_size(lacks: Lacks) -> Iterator[NodeObstacle]:
    if lacks.excess:
        yield NodeObstacle(
            reason=EXCEEDS_NODES,
            lacks=lacks.excess,
            clause=f"no node is large enough for its pods: {lacks.excess}",
            job_change=LESS,
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

"""Why the pods of a Job can never run, whatever its queue does, and what has to change. Pure.

Their PriorityClass does not exist, so that the API server refuses to create them, or they fit no node of `sluice up`.
BEHAVIOUR.md#q196-pods-that-fit-no-node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from job_controller.model import Job
from queue_manager.api.reasons import MISCONFIGURED
from queue_manager.api.types import Workload
from queue_manager.visibility.node_advice import BIGGER_LOCAL_NODE, LESS
from queue_manager.visibility.node_fit import Lacks, NodeFacts, lacks_of_fixed_nodes
from queue_manager.visibility.reason_codes import EXCEEDS_NODES, NO_MATCHING_NODE


class PodObstacle(NamedTuple):
    """Why the pods of a Job can never run, and what removes it: a change by its author or by an admin.

    `lacks`: as the lists say it, and `clause` as part of a sentence. `admin_change` and `to_admin` are "" if
    no node can get what is lacking. `beside_less`: what the Job has to do besides, if it has to request less for
    another reason. `to_author`, `to_admin`: the changes as advice.
    """

    reason: str
    lacks: str
    clause: str
    author_change: str
    admin_change: str
    beside_less: str
    to_author: str
    to_admin: str

    @property
    def advice(self) -> str:
        """Both changes as advice."""
        return f"{self.to_author}, or {self.to_admin}" if self.to_admin else self.to_author


def pod_obstacle(
    job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None, missing_class: str = ""
) -> PodObstacle | None:
    """Return the obstacle of a Job that fits no node of `sluice up` (`node_fit`); None if one fits, or if unknown.

    `missing_class`: the PriorityClass that its pods name, if it does not exist; that is named first.
    """
    lacks = lacks_of_fixed_nodes(job, workload, nodes)
    found = [*_of_class(missing_class), *_of_labels(lacks), *_of_absent(lacks), *_of_size(lacks)]
    if not found:
        return None
    is_possible = all(each.admin_change for each in found)
    return PodObstacle(
        reason=found[0].reason,
        lacks="; ".join(each.lacks for each in found),
        clause=", and ".join(each.clause for each in found),
        author_change=" and ".join(each.author_change for each in found),
        admin_change=", and ".join(each.admin_change for each in found) if is_possible else "",
        beside_less=" and ".join(each.beside_less for each in found),
        to_author=" and ".join(each.to_author for each in found),
        to_admin=" and ".join(each.to_admin for each in found) if is_possible else "",
    )


def _of_class(name: str) -> Iterator[PodObstacle]:
    if name:
        text = f"PriorityClass {name}, which its pods name, does not exist"
        another = "its pods name another PriorityClass"
        created = f"an admin creates PriorityClass {name}"
        yield PodObstacle(MISCONFIGURED, text, text, another, created, another, "correct priorityClassName", created)


def _of_labels(lacks: Lacks) -> Iterator[PodObstacle]:
    if lacks.labels:
        command = f"kubectl label node NODE {' '.join(lacks.labels)}"
        yield PodObstacle(
            reason=NO_MATCHING_NODE,
            lacks=lacks.labels_text,
            clause=lacks.labels_text,
            author_change="its nodeSelector matches a node",
            admin_change=f"a node gets the label{'s' if len(lacks.labels) > 1 else ''} ({command})",
            beside_less="its nodeSelector matches a node",
            to_author="change the nodeSelector",
            to_admin=f"label a node ({command})",
        )


def _of_absent(lacks: Lacks) -> Iterator[PodObstacle]:
    """`sluice up` offers its nodes cpu, memory and ephemeral storage only."""
    for name, text in lacks.absent.items():
        not_requested = f"it does not request {name}"
        yield PodObstacle(EXCEEDS_NODES, text, text, not_requested, "", not_requested, f"do not request {name}", "")


def _of_size(lacks: Lacks) -> Iterator[PodObstacle]:
    if lacks.excess:
        yield PodObstacle(
            reason=EXCEEDS_NODES,
            lacks=lacks.excess,
            clause=f"no node is large enough for its pods: {lacks.excess}",
            author_change=LESS,
            admin_change=BIGGER_LOCAL_NODE,
            beside_less="no more for a pod than a node has",
            to_author="request less",
            to_admin=BIGGER_LOCAL_NODE,
        )

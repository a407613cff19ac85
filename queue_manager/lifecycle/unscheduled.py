"""Pods that no node can take: PodScheduled is False with reason Unschedulable. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from job_controller import pod_phases
from job_controller.model import Condition, Pod
from queue_manager.api import reasons


class Unscheduled(NamedTuple):
    """How many pods of a Job no node can take, and the scheduler's message about the first."""

    pods: int
    message: str


def unschedulable(pod: Pod) -> Condition | None:
    """The PodScheduled condition of a pod that no node can take, else None."""
    if pod.spec.node_name or pod.metadata.deletion_timestamp is not None or pod.status.phase != pod_phases.PENDING:
        return None
    found = (c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False")
    return next((c for c in found if c.reason == reasons.UNSCHEDULABLE), None)


def unscheduled(pods: Iterable[Pod]) -> Unscheduled | None:
    """Return the number of pods that no node can take, and the message about the first by name; None without any."""
    stuck = [(pod.metadata.name, condition.message) for pod in pods if (condition := unschedulable(pod)) is not None]
    return Unscheduled(len(stuck), min(stuck)[1]) if stuck else None

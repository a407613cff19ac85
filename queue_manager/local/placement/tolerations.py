"""Taints and tolerations (core/v1): whether a pod tolerates a taint, and for how long."""

from __future__ import annotations

from collections.abc import Sequence

from job_controller.json_tree import Json
from queue_manager.scheduling import node_matching


def tolerates(tolerations: Sequence[Json], taint: Json) -> bool:
    """Whether one of the tolerations matches the taint."""
    return any(node_matching.tolerates(toleration, taint) for toleration in tolerations)


def tolerated_for(tolerations: Sequence[Json], taint: Json) -> float | None:
    """Seconds for which the first matching toleration tolerates a NoExecute taint; None: forever, 0: not at all."""
    for toleration in tolerations:
        if node_matching.tolerates(toleration, taint):
            seconds = toleration.get("tolerationSeconds")
            return None if seconds is None else max(0.0, float(seconds))
    return 0.0

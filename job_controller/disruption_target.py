"""The pod condition DisruptionTarget: the cluster ends the pod, for a reason that is not the pod's own (KEP-3329).

Several components may want the same pod gone. The first one that says so is the cause; a later one deletes the pod
all the same, and leaves the condition alone as long as it is True. Every component that writes the condition asks
`is_announced` before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from job_controller.times import timestamp

DISRUPTION_TARGET = "DisruptionTarget"


def is_announced(conditions: Iterable[tuple[str, str]]) -> bool:
    """Whether a cause stands on the pod. `conditions`: type and status of each."""
    return (DISRUPTION_TARGET, "True") in conditions


def announcement(reason: str, message: str, now: datetime) -> dict[str, Any]:
    """The condition that announces a disruption, as JSON."""
    return {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }

"""The pod condition DisruptionTarget: the cluster terminates the pod for a reason outside of the pod (KEP-3329).

Several components may terminate the same pod. The first one writes its reason; as long as the condition is True, later
ones delete the pod without changing the condition. So every component calls `is_announced` before it writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from job_controller.times import timestamp

DISRUPTION_TARGET = "DisruptionTarget"


def is_announced(conditions: Iterable[tuple[str, str]]) -> bool:
    """Whether DisruptionTarget is True. `conditions`: type and status of each condition of the pod."""
    return (DISRUPTION_TARGET, "True") in conditions


def announcement(reason: str, message: str, now: datetime) -> dict[str, Any]:
    """The condition DisruptionTarget=True as JSON, for a strategic merge patch of the pod status."""
    return {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }

"""For which request a preempted Workload made room, as its user sees it. Pure.

A preemption names the ClusterQueue and the priority of the preemptor in status.requeueHistory, and no Workload: its
user may not be allowed to know it. BEHAVIOUR.md#q54-words-for-preempted-workloads.
"""

from __future__ import annotations

from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Workload

FOR_ANOTHER = "for another Workload"  # in a history that another program or an older version wrote


def preempted_for(workload: Workload) -> str:
    """Return `for priority 100 of ClusterQueue a` if a preemption ended the Workload's last attempt; else ""."""
    evicted, last = workload.condition(condition_types.EVICTED), workload.last_attempt
    if evicted is None or not evicted.is_true or evicted.reason != reasons.PREEMPTED:
        return ""
    return last.cause if last is not None and last.reason == reasons.PREEMPTED and last.cause else FOR_ANOTHER

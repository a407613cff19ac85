"""For which request a preempted Workload made room, as its user sees it, and as an admin does. Pure.

A preemption names the ClusterQueue and the priority of the preemptor in status.requeueHistory, and no Workload: its
user may not be allowed to know it. The UID in the message of Evicted, which is Kueue's, leads those who may list all
Workloads to its name. BEHAVIOUR.md#q54-words-for-preempted-workloads.
"""

from __future__ import annotations

from collections.abc import Iterable

from queue_manager.api import condition_types, messages, reasons
from queue_manager.api.types import Workload

FOR_ANOTHER = "for another Workload"  # in a history that another program or an older version wrote


def preempted_for(workload: Workload) -> str:
    """Return `for priority 100 of ClusterQueue a` if a preemption ended the Workload's last attempt; else "".

    `for ClusterQueue a, to take back quota that b had borrowed`: of a victim that had borrowed.
    """
    evicted, last = workload.condition(condition_types.EVICTED), workload.last_attempt
    if evicted is None or not evicted.is_true or evicted.reason != reasons.PREEMPTED:
        return ""
    return last.cause if last is not None and last.reason == reasons.PREEMPTED and last.cause else FOR_ANOTHER


def preemptor(victim: Workload, workloads: Iterable[Workload]) -> Workload | None:
    """Return the Workload for which `victim` was preempted, if it is among `workloads`."""
    evicted = victim.condition(condition_types.EVICTED)
    uid = messages.preemptor_uid(evicted.message) if evicted is not None else ""
    return next((each for each in workloads if uid and each.metadata.uid == uid), None)

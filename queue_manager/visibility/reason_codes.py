"""The code of the dominant reason why a Job does not run: CLASS/Reason, for example WAIT/WaitingForQuota. Pure.

    NEVER   cannot start until its author or an admin changes something
    WAIT    starts without a change of this Job; another one may have to change (BehindHead)
    HOLD    starts when a user releases it: its queue is stopped, or its Workload is deactivated, gated, or in no queue
    FAULT   should have started: a controller does not do its part

Reasons are those of QuotaReserved=False (KEP-10852) and Admitted=False, and the following of Sluice's own. Codes are
stable: scripts may compare them.
"""

from __future__ import annotations

from enum import StrEnum

from queue_manager.api import event_reasons, reasons


class ReasonClass(StrEnum):
    """The part of a code before the slash."""

    NEVER = "NEVER"
    WAIT = "WAIT"
    HOLD = "HOLD"
    FAULT = "FAULT"


BACKOFF = "Backoff"  # waits for requeueAt
BEHIND_HEAD = "BehindHead"  # the first Workload of its StrictFIFO queue waits
EVICTED = "Evicted"  # its pods are being stopped
STARTING = "Starting"  # admitted just now
# Deactivated, because no node took its pods in any attempt, or none in the last one.
DEACTIVATED_UNSCHEDULABLE = reasons.deactivated_due_to(reasons.UNSCHEDULABLE)
EXCEEDS_NODES = "ExceedsLargestNode"  # no node is large enough for one of its pods
NO_MATCHING_NODE = "NoMatchingNode"  # no node has the labels of its pods' nodeSelector
REFUSED = "Refused"  # its Workload is finished, the Job is not
ADMITTED_NOT_RUNNING = "AdmittedNotRunning"  # its Job is still suspended
QUEUEING_REFUSED = event_reasons.QUEUEING_REFUSED  # the API server refuses what the queue manager writes about it
PODS_REFUSED = "PodsRefused"  # the API server refuses to create its pods
CONTROLLER_STALE = "ControllerStale"  # its Job has no Workload, or no manager runs

_CLASSES = {
    ReasonClass.NEVER: (
        reasons.EXCEEDS_MAX_QUOTA,
        reasons.NO_MATCHING_FLAVOR,
        reasons.MISCONFIGURED,
        EXCEEDS_NODES,
        NO_MATCHING_NODE,
        REFUSED,
    ),
    ReasonClass.HOLD: (reasons.SUSPENDED, reasons.DEACTIVATED, DEACTIVATED_UNSCHEDULABLE, reasons.ADMISSION_GATED),
    ReasonClass.FAULT: (ADMITTED_NOT_RUNNING, CONTROLLER_STALE, PODS_REFUSED, QUEUEING_REFUSED),
    ReasonClass.WAIT: (
        reasons.WAITING_FOR_QUOTA,
        reasons.WAITING_FOR_PREEMPTED,
        reasons.WAITING_FOR_PODS_READY,
        reasons.TOPOLOGY_PLACEMENT_FAILED,
        reasons.PENDING_EVALUATION,
        reasons.UNSATISFIED_CHECKS,
        BACKOFF,
        BEHIND_HEAD,
        EVICTED,
        STARTING,
        reasons.UNSCHEDULABLE,
    ),
}
_CLASS_OF = {reason: kind for kind, some in _CLASSES.items() for reason in some}
CODES = frozenset(f"{kind}/{reason}" for reason, kind in _CLASS_OF.items())


def code(reason: str) -> str:
    """The code of a reason. An unknown reason, which another writer has set, gets the class WAIT."""
    return f"{_CLASS_OF.get(reason, ReasonClass.WAIT)}/{reason}"

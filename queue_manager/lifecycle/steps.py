"""Types of the life cycle: its possible steps, and WorkloadContext, which has the facts from other objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from queue_manager.api import messages, policy_values, reasons
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.queueing.equal_workloads import PendingReason


@dataclass(frozen=True, slots=True)
class WorkloadContext:
    """What the rules need to know from other objects than the Workload. A missing queue has the stop policy ""."""

    local_queue_exists: bool = True
    local_queue_stop: str = policy_values.STOP_NONE
    cluster_queue: str = ""
    cluster_queue_exists: bool = True
    cluster_queue_active: bool = True
    cluster_queue_stop: str = policy_values.STOP_NONE
    error: str = ""  # why its spec can never be admitted
    bypassed: PendingReason | None = None
    behind_head: bool = False  # in a StrictFIFO queue, of one that was refused
    urgent_writes_wait: bool = False  # then a reason that can wait is not written
    checks: tuple[str, ...] = ()  # required admission checks
    cluster_queue_terminating: bool = False
    owner_gone: bool = False
    jitter: float = 0.0
    unscheduled: Unscheduled | None = None  # pods that no node can take, while their readiness is awaited
    pod_cause: str = ""  # why the pods are not ready, while their readiness is awaited
    pod_error: str = ""  # the same, "" of pods that only start; of an attempt that a drained queue or a check may end

    @property
    def draining(self) -> tuple[str, str] | None:
        """(reason, message) of the eviction by a queue with HoldAndDrain; None if no queue drains."""
        if self.local_queue_stop == policy_values.HOLD_AND_DRAIN:
            return reasons.LOCAL_QUEUE_STOPPED, messages.LOCAL_QUEUE_STOPPED_MESSAGE
        if self.cluster_queue_stop == policy_values.HOLD_AND_DRAIN:
            return reasons.CLUSTER_QUEUE_STOPPED, messages.CLUSTER_QUEUE_STOPPED_MESSAGE
        return None


@dataclass(frozen=True, slots=True)
class ApplyTransition:
    """Write the status that this transition produces."""

    apply: Callable[[Draft], None]
    cause: Cause


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Set spec.active to false and, in the same write, the annotation that says for which DeactivationTarget."""

    announced: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer from a Workload that has finished or is being deleted."""


@dataclass(frozen=True, slots=True)
class DeleteExpired:
    """Delete the Workload, or its Job if `owner`, because its retention is over."""

    owner: bool
    message: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before this time."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do until something changes."""


Step = ApplyTransition | Deactivate | RemoveFinalizer | DeleteExpired | Wait | Idle

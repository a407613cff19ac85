"""What surrounds a Workload when its next step is decided, and what such a step can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from queue_manager.api import messages, policies, reasons
from queue_manager.lifecycle.requeuing import Unscheduled
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.queueing.pending import PendingReason


@dataclass(frozen=True, slots=True)
class WorkloadContext:
    """What is around a Workload. Stop policies are "" where the queue does not exist."""

    local_queue_exists: bool = True
    local_queue_stop: str = policies.STOP_NONE
    cluster_queue: str = ""
    cluster_queue_exists: bool = True
    cluster_queue_active: bool = True
    cluster_queue_stop: str = policies.STOP_NONE
    error: str = ""  # why it can never be admitted as it is
    bypassed: PendingReason | None = None
    checks: tuple[str, ...] = ()  # admission checks it must pass
    cluster_queue_terminating: bool = False
    owner_gone: bool = False
    jitter: float = 0.0
    unscheduled: Unscheduled | None = None  # pods that no node can take, while it waits for them

    @property
    def draining(self) -> tuple[str, str] | None:
        """(reason, message) of an eviction by a queue that is being drained."""
        if self.local_queue_stop == policies.HOLD_AND_DRAIN:
            return reasons.LOCAL_QUEUE_STOPPED, messages.LOCAL_QUEUE_STOPPED_MESSAGE
        if self.cluster_queue_stop == policies.HOLD_AND_DRAIN:
            return reasons.CLUSTER_QUEUE_STOPPED, messages.CLUSTER_QUEUE_STOPPED_MESSAGE
        return None


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status that this transition makes of it."""

    apply: Callable[[Draft], None]


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Set spec.active to false and, in the same write, the annotation that says for which announcement."""

    announced: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let go of a Workload that has ended or is being deleted."""


@dataclass(frozen=True, slots=True)
class DeleteExpired:
    """Delete the Workload, or its Job, because its time in the archive is over."""

    owner: bool
    message: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before this time."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do until something changes."""


Step = WriteStatus | Deactivate | RemoveFinalizer | DeleteExpired | Wait | Idle

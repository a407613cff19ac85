"""The result of one sync of a Job: steps as data, in the order in which they must be written.

This order makes a crash between any two writes harmless (BEHAVIOUR.md#b13-sync-order):

    track    pods whose deletion failed after their finalizer was removed get the finalizer back
    write    the interim condition, if pods will be deleted because the Job ends
    delete   pods; or
    create   pods, before the status that counts them as active
    write    finished pods are recorded in status (uncounted UIDs, indexes), together with the interim condition
    release  the finalizers of the recorded pods are removed
    prune    recorded failed pods beyond sluice/failed-pods-limit are deleted, before the Job can finish
    write    recorded UIDs move into the counters; the terminal condition comes with the last such write

If a step fails for one object, the sequence ends after that step, and the next decision starts from the actual state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from job_controller.backoff import FailureHistory
from job_controller.model import JobStatus, Pod
from job_controller.pods_by_state import Parts
from job_controller.times import WaitStart


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A pod to create. `index` is None unless the Job is Indexed, `failures` is None without backoffLimitPerIndex.

    `failures` and `ignored` are the failure counts to write into the annotations of the pod.
    """

    index: int | None = None
    failures: int | None = None
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An Event to record about the Job."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobMemory:
    """What the controller keeps of a Job (by UID) between syncs. Losing it costs time, not correctness.

    `parts`: the pods as last sorted; unchanged parts are reused. `reported`: the warnings that were recorded as Events
    already. `status_at`: when the status was last written. `start`: see Situation.
    """

    history: FailureHistory = field(default_factory=FailureHistory)
    parts: Parts = field(default=(), compare=False)
    reported: frozenset[JobEvent] = frozenset()
    status_at: datetime | None = None
    start: WaitStart | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """An increment of a counter metric; `name` lacks the prefix."""

    name: str
    labels: Mapping[str, str]
    by: float = 1


@dataclass(frozen=True, slots=True)
class TrackPods:
    """Add the tracking finalizer again."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete pods. With `release` the finalizer is removed first, so that they are never counted."""

    pods: tuple[Pod, ...]
    release: bool


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create these pods."""

    plans: tuple[PodPlan, ...]
    reason: str  # label of job_pods_creation_total


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status. `events` and `counts` are recorded after the write has succeeded."""

    status: JobStatus
    events: tuple[JobEvent, ...] = ()
    counts: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleasePods:
    """Remove the tracking finalizer of pods that are recorded in status; then add `counts`."""

    pods: tuple[Pod, ...]
    counts: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class PrunePods:
    """Delete failed pods that are counted or recorded."""

    pods: tuple[Pod, ...]


Step = TrackPods | DeletePods | CreatePods | WriteStatus | ReleasePods | PrunePods


@dataclass(frozen=True, slots=True)
class Decision:
    """The steps of one sync.

    `events` are recorded before the steps. `requeue_after` is in seconds; None if only a change can require another
    sync. `action` is the label of the sync metrics (BEHAVIOUR.md#b33-metrics).
    """

    steps: tuple[Step, ...] = ()
    events: tuple[JobEvent, ...] = ()
    memory: JobMemory = field(default_factory=JobMemory)
    requeue_after: float | None = None
    action: Literal["reconciling", "tracking", "pods_created", "pods_deleted"] = "reconciling"

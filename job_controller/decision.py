"""What one sync of a Job is to do: data, in the order in which it must happen.

The order is what makes a crash between any two writes harmless:

    track    pods of which an earlier deletion stopped half-way become ordinary pods again
    write    a verdict that will delete pods is announced before they go
    delete   pods go, or
    create   come, before the status that speaks of them
    write    finished pods are noted in status (uncounted, indexes), with the verdict on the Job
    release  only then do their finalizers come off
    prune    failed pods beyond the Job's limit are deleted: they are noted, and nobody looks at a Job that has ended
    write    what is noted moves into the counters; last of all comes the terminal condition

A step that fails for one object ends the sequence after that step: the rest is decided anew from what is then
true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from job_controller.backoff import FailureHistory
from job_controller.model import JobStatus, Pod
from job_controller.pod_sorting import Parts
from job_controller.times import Since


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A pod to create. index and failures are None where the Job has no such thing."""

    index: int | None = None
    failures: int | None = None
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobMemory:
    """What the controller keeps of a Job (by UID) between syncs. Losing it loses nothing that matters.

    parts: the pods as they were last sorted, to be taken over where they have not changed. told: complaints about the
    Job that were made already. status_at: when status was last written. start: of the
    Situation.
    """

    history: FailureHistory = field(default_factory=FailureHistory)
    parts: Parts = field(default=(), compare=False)
    told: frozenset[Event] = frozenset()
    status_at: datetime | None = None
    start: Since | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """An addition to a metric counter (name without prefix)."""

    name: str
    labels: Mapping[str, str]
    by: float = 1


@dataclass(frozen=True, slots=True)
class TrackPods:
    """Put the tracking finalizer back."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """With `release` the finalizer comes off first: the pods shall never be counted."""

    pods: tuple[Pod, ...]
    release: bool


@dataclass(frozen=True, slots=True)
class CreatePods:
    plans: tuple[PodPlan, ...]
    reason: str  # label of job_pods_creation_total


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Events and counts are for after the write has succeeded."""

    status: JobStatus
    events: tuple[Event, ...] = ()
    counts: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleasePods:
    """Take the tracking finalizer off pods that are noted in status. Counts are for after that."""

    pods: tuple[Pod, ...]
    counts: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class PrunePods:
    """Delete pods that are long counted."""

    pods: tuple[Pod, ...]


Step = TrackPods | DeletePods | CreatePods | WriteStatus | ReleasePods | PrunePods


@dataclass(frozen=True, slots=True)
class Decision:
    """The steps of one sync. requeue_after is in seconds, None if nothing but a change can matter."""

    steps: tuple[Step, ...] = ()
    events: tuple[Event, ...] = ()
    memory: JobMemory = field(default_factory=JobMemory)
    requeue_after: float | None = None
    action: Literal["reconciling", "tracking", "pods_created", "pods_deleted"] = "reconciling"

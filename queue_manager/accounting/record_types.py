"""What the history stores: Jobs, the steps of their lives, and their ended pods. Pure data.

A record is written once and never changed, so writing it again changes nothing: a step is identified by object,
attempt, kind and occurrence, a Job and a pod by their UID.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class StepKind(StrEnum):
    """The kinds of steps. The texts are stored and printed."""

    SUBMITTED = "Submitted"  # not stored: the record of the Job says it
    HELD = "Held"  # a stopped queue keeps a pending Workload
    RESUMED = "Resumed"  # the queue admits Workloads again
    ADMITTED = "Admitted"  # an attempt begins: its quota is held from now on
    PODS_READY = "PodsReady"
    CONTAINER_FAILED = "ContainerFailed"  # and its pod lives on: it was started again
    INTERRUPTED = "Interrupted"  # the cluster of one machine is stopped, and the Job with it
    CONTINUED = "Continued"  # the cluster runs again
    EVICTED = "Evicted"  # this and the next two: the attempt ends
    PREEMPTED = "Preempted"
    DEACTIVATED = "Deactivated"
    RELEASED = "Released"  # the Job has stopped, and its quota is free
    REQUEUED = "Requeued"
    REACTIVATED = "Reactivated"
    FINISHED = "Finished"
    DELETED = "Deleted"  # before it finished


ENDS_OF_ATTEMPT = (StepKind.EVICTED, StepKind.PREEMPTED, StepKind.DEACTIVATED)
UNTRACED = (StepKind.HELD, StepKind.RESUMED, StepKind.DEACTIVATED, StepKind.REACTIVATED)  # or may be: `step_reading`
ENDS_OF_JOB = (StepKind.FINISHED, StepKind.DELETED)
DELETED_POD = "Deleted"  # phase of a pod that was being deleted when it ended: its exit code is not its own
SUCCEEDED = "Succeeded"  # reason of a FINISHED step; any other reason is that of a failure


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A Job. `user`: its creator where that is known, else its namespace."""

    uid: str
    namespace: str
    name: str
    user: str
    queue: str  # LocalQueue; "": none
    submitted_at: datetime


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a Job. `uid` is that of the Job, of its Workload or of a pod, from which the step was read.

    `attempt`: number of the evictions up to its end, from 1, which identifies it and survives restarts (lists show
    `step_order.shown_attempts`); 0 if the step belongs to the Job as a whole, or to a pod.
    `occurrence`, for steps that can be repeated: the resourceVersion of the change, the time, or the number of the
    restart; else 0. `cluster_queue` and the fields after it are set for an admission only.
    """

    job_uid: str
    uid: str
    attempt: int
    kind: StepKind
    at: datetime
    occurrence: int = 0
    reason: str = ""
    message: str = ""
    cluster_queue: str = ""
    flavor: str = ""
    pods: int = 0
    cpu_milli: int = 0  # requested by all pods together
    memory_bytes: int = 0  # requested by all pods together

    @property
    def key(self) -> tuple[str, int, StepKind, int]:
        """What identifies the step."""
        return self.uid, self.attempt, self.kind, self.occurrence


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has ended. Usage is None where the node does not report it.

    `message`: why it failed, with its exit code (`lifecycle.pod_causes`); of one that was deleted, an error of its own
    before that, if any.
    """

    uid: str
    job_uid: str
    namespace: str
    name: str
    node: str
    phase: str
    ended_at: datetime
    exit_code: int | None = None  # the highest of its containers
    reason: str = ""
    message: str = ""
    restarts: int = 0
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None


Record = JobRecord | StepRecord | PodRecord

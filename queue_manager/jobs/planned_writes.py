"""What `decide` can return: descriptions of one write each, with the Event that is recorded after it succeeds.

`controller` carries them out. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from job_controller.json_tree import Json
from queue_manager.api.types import Workload
from queue_manager.lifecycle.status_draft import Draft, WorkloadEvent
from queue_manager.lifecycle.write_causes import Cause


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Create the Workload; `workload` is its manifest."""

    workload: Json
    event: WorkloadEvent


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete a Workload that no longer stands for the Job."""

    workload: Workload
    event: WorkloadEvent | None = None


@dataclass(frozen=True, slots=True)
class ReleaseWorkload:
    """Remove the queue manager's finalizer from a Workload that is being deleted."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class UpdateWorkload:
    """Merge-patch spec or metadata of the Workload."""

    workload: Workload
    patch: Json
    event: WorkloadEvent | None = None


@dataclass(frozen=True, slots=True)
class WriteWorkloadStatus:
    """Apply a transition to the Workload's status, through `scheduler.workload_writer`."""

    workload: Workload
    transition: Callable[[Draft], None]
    cause: Cause
    event: WorkloadEvent | None = None


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Merge-patch the Job: its start, or one of the two writes of its stop.

    `warning`: an Event about what the write undoes.
    """

    patch: Json
    event: WorkloadEvent | None = None
    warning: WorkloadEvent | None = None


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Record an Event about the Job that says why nothing can be done; repeated only when its text changes."""

    event: WorkloadEvent


@dataclass(frozen=True, slots=True)
class Nothing:
    """Job and Workload agree, or the next write is another controller's."""


PlannedWrite = (
    CreateWorkload
    | DeleteWorkload
    | ReleaseWorkload
    | UpdateWorkload
    | WriteWorkloadStatus
    | PatchJob
    | RecordEvent
    | Nothing
)

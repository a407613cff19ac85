"""What is known of a Job's surroundings when its next action is decided, and what such an action can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from job_controller.json_tree import Json
from queue_manager.api.types import ResourceFlavor, Workload
from queue_manager.jobs.workload_manifest import Priority
from queue_manager.lifecycle.status_draft import Draft, Event

MAX_ANCESTORS = 10  # owners above a Job that are followed in search of a managed one


@dataclass(frozen=True, slots=True)
class ParentJob:
    """A managed Job above this one. The child has no Workload of its own, and runs only while its parent may."""

    admitted: bool  # the parent holds quota: its Workload is admitted, and neither evicted nor finished
    too_deep: bool = False  # the chain of owners is longer than anybody follows


@dataclass(frozen=True, slots=True)
class JobContext:
    """What else decides. `priority` None: the Job names a class that does not exist."""

    managed: bool = True
    priority: Priority | None = field(default_factory=Priority)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    waits_for_pods: bool = True
    labels_to_copy: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)  # annotations of the Job that hold
    uses_nodes: bool = False  # pods of the Job run, or may, or are being created
    prebuilt: Workload | None = None  # the one the Job names, if it names one and that exists
    parent: ParentJob | None = None  # the managed Job it belongs to


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Make the Workload; `workload` is its manifest. Events are told after the write, about the Job."""

    workload: Json
    event: Event


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete a Workload that does not stand for the Job any more."""

    workload: Workload
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class ReleaseWorkload:
    """Remove our finalizer from a Workload that is being deleted."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class UpdateWorkload:
    """Patch spec or metadata of the Workload."""

    workload: Workload
    patch: Json
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class WriteWorkloadStatus:
    """Write the Workload's status through the one writer of it."""

    workload: Workload
    transition: Callable[[Draft], None]
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Merge-patch the Job: its start, or one half of its stop."""

    patch: Json
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Nothing can be done but to say why."""

    event: Event


@dataclass(frozen=True, slots=True)
class Nothing:
    """All is as it should be, or somebody else has the next move."""


Action = (
    CreateWorkload
    | DeleteWorkload
    | ReleaseWorkload
    | UpdateWorkload
    | WriteWorkloadStatus
    | PatchJob
    | RecordEvent
    | Nothing
)

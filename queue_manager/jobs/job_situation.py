"""What the rules of `decide` read: a Job, its Workloads, what surrounds them, and the predicates that rules share.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from job_controller import conditions
from job_controller.model import Condition, Job
from queue_manager.api import condition_types, keys
from queue_manager.api.types import ResourceFlavor, Workload
from queue_manager.api.workload_names import workload_name
from queue_manager.jobs import workload_match
from queue_manager.jobs.planned_writes import PlannedWrite
from queue_manager.jobs.workload_manifest import Priority, prebuilt_name

MAX_ANCESTORS = 10  # levels of owners above a Job that are searched for a managed Job


@dataclass(frozen=True, slots=True)
class ParentJob:
    """The nearest managed Job above a Job. The child has no Workload of its own and runs only while its parent may."""

    admitted: bool  # the parent's Workload is admitted, and neither evicted nor finished
    too_deep: bool = False  # the chain of owners is longer than MAX_ANCESTORS


@dataclass(frozen=True, slots=True)
class JobContext:
    """What surrounds a Job: queue, priority class, flavors, configuration, parent, pods."""

    managed: bool = True  # the queue manages the Job; see `JobPermits.managed`
    priority: Priority | None = field(default_factory=Priority)  # None: the Job names a class that does not exist
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    cluster_queue_exists: bool = True  # the ClusterQueue whose quota the Workload holds; True without quota
    waits_for_pods: bool = True  # waitForPodsReady is enabled
    first_seen: str = ""  # the resourceVersion with which the Job was first seen, if it has had no Workload since
    labels_to_copy: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)  # those of Job and class that pass `overrides.accepted`
    uses_nodes: bool = False  # pods of the Job run on nodes, are bound to one, or are being created
    prebuilt: Workload | None = None  # the Workload that the Job names as prebuilt, if it exists
    parent: ParentJob | None = None
    pod_cause: str = ""  # why the pods of the Job failed, if it has failed


@dataclass(frozen=True)
class JobSituation:
    """All that a rule reads. `owned`: Workloads that the Job controls, and those that only carry its UID label."""

    job: Job
    owned: Sequence[Workload]
    context: JobContext

    @cached_property
    def current(self) -> Workload | None:
        """The owned Workload that stands for the Job: one that matches, else the one named for the Job, else any."""
        job, name = self.job, workload_name(self.job.metadata.name, self.job.metadata.uid)
        return max(
            self.owned,
            key=lambda w: (
                w.metadata.deletion_timestamp is None,
                workload_match.matches(job, w),
                w.metadata.name == name,
            ),
            default=None,
        )

    @cached_property
    def workload(self) -> Workload | None:
        """The Workload that the Job follows: the prebuilt one if the Job names one, else `current`."""
        return self.context.prebuilt if self.has_prebuilt_workload else self.current

    @cached_property
    def has_prebuilt_workload(self) -> bool:
        """Whether the Job names a Workload that its user made. It is adopted, never created, edited or deleted."""
        return bool(prebuilt_name(self.job)) and self.context.managed

    @cached_property
    def end(self) -> Condition | None:
        """The Complete or Failed condition of a Job that has ended."""
        return conditions.finished(self.job.status)

    @cached_property
    def keeps_quota(self) -> bool:
        """Whether the Job runs on the quota of its Workload. It keeps that Workload until it stops or ends, also after
        its queue label was removed."""
        workload = self.current
        return workload is not None and workload.is_true(condition_types.ADMITTED) and not self.job.spec.suspend

    @property
    def is_child(self) -> bool:
        """Whether the Job runs under the quota of a managed Job above it."""
        return self.context.parent is not None and not self.keeps_quota

    @property
    def has_left_queue(self) -> bool:
        """Whether the queue does not manage the Job, or manages it no longer, and no quota is used."""
        return not self.context.managed and not self.keeps_quota

    @property
    def is_stopping(self) -> bool:
        """Whether the first write of a stop is done and the second is still to come; see `start_stop`."""
        return keys.STOPPING in self.job.metadata.annotations

    @cached_property
    def matches(self) -> bool:
        """Whether there is a Workload with the pod set and the execution time of the Job."""
        return self.workload is not None and workload_match.matches(self.job, self.workload)


Rule = Callable[[JobSituation], PlannedWrite | None]
"""Handles one way out of one state; None: the rule does not apply, and the next one is asked."""

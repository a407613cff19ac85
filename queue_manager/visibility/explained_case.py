"""The Job or Workload that `dominant_reason` explains, with what surrounds it as far as the reader sees it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from job_controller.model import Job, Key
from queue_manager.api import keys
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.visibility.deactivated_jobs import job_name
from queue_manager.visibility.effects_of_changes import NO_NAMES, KnownNames
from queue_manager.visibility.job_states import JobState, job_state, state_without_job
from queue_manager.visibility.node_fit import NodeFacts
from queue_manager.visibility.obstacles import Obstacle
from queue_manager.visibility.resubmission import resubmission
from queue_manager.visibility.scheduler_judgement import ClusterObjects


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What surrounds a Job, as far as the reader may see it.

    `objects`: everything on which the scheduler's decisions depend; None if something is missing (`not_seen`).
    `local`, `above`: its queues; None if they do not exist or are not visible. `obstacles`: what
    `visibility.obstacles` has found about a Job without a Workload.
    """

    objects: ClusterObjects | None = None
    settings: WorkloadSettings = field(default_factory=WorkloadSettings)
    local: LocalQueue | None = None
    above: ClusterQueue | None = None
    obstacles: Sequence[Obstacle] = ()
    names: KnownNames = NO_NAMES  # that messages about missing queues and flavors suggest
    sees_queues: bool = True  # whether `local` and `above` are visible if they exist
    not_seen: tuple[str, ...] = ()
    default_ns: str = "default"
    unplaced: Unscheduled | None = None  # the pods of the Job that no node can take
    failed_container: str = ""  # of a pod whose other containers run, if it does not start again
    nodes: Sequence[NodeFacts] | None = None  # None: not visible, or not needed
    unseen_class: str = ""  # its WorkloadPriorityClass, if the reader may not list these
    missing_class: str = ""  # the PriorityClass that its pods name, if it does not exist
    only_named: str = ""  # the only namespace whose Jobs and LocalQueues the reader may know by name; "": all

    def may_name(self, namespace: str) -> bool:
        """Whether the reader may know the names of Jobs and LocalQueues of this namespace."""
        return self.only_named in ("", namespace)


@dataclass(frozen=True, slots=True)
class Case:
    """The Job or Workload that is explained, and what is known about it."""

    job: Job | None
    workload: Workload | None
    state: JobState
    around: Surroundings
    now: datetime

    @property
    def key(self) -> Key:
        """Namespace and name of the Job, or of a Workload that has none."""
        if self.job is not None:
            return self.job.metadata.key
        workload = given(self.workload)
        return Key(workload.metadata.namespace, job_name(workload))

    @property
    def kubectl(self) -> str:
        """The Job as arguments of kubectl."""
        return f"{self.key.name} -n {self.key.namespace}"

    @property
    def argument(self) -> str:
        """The Job as a command-line argument."""
        return self.key.name if self.key.namespace == self.around.default_ns else str(self.key)

    @property
    def resubmission(self) -> str:
        """The command that replaces the Job after a change of its spec."""
        return resubmission(self.job, self.around.default_ns)

    @property
    def pods_at_once(self) -> int:
        """How many pods it can have at the same time."""
        return self.job.spec.pods_at_once if self.job is not None else 0

    @property
    def queue(self) -> str:
        """The name of its LocalQueue; "" if it is in no queue."""
        if self.workload is not None:
            return self.workload.spec.queue_name
        return self.job.metadata.labels.get(keys.QUEUE_NAME, "") if self.job is not None else ""


def given(workload: Workload | None) -> Workload:
    """The Workload of something that has no Job. Raises ValueError if it is absent too."""
    if workload is None:
        raise ValueError("neither a Job nor a Workload")
    return workload


def case_of(job: Job | None, workload: Workload | None, around: Surroundings, now: datetime) -> Case:
    """The case of a Job, or of a Workload without a Job. One of them exists."""
    state = job_state(job, workload, now) if job is not None else state_without_job(given(workload), now)
    return Case(job, workload, state, around, now)

"""Whether a Job is managed by the queue, belongs to a managed Job, and may have pods now.

All answers are read from caches, which are synced before any worker of the runtime starts. Pods are permitted by:

    outside of any queue            pods, also while `sluice import` makes a Workload for it
    the Job has a Workload          pods while the Workload is admitted and matches the Job
    managed, no Workload yet        no pods
    child of a managed Job          pods while the Workload of that Job is admitted
    none of these                   pods: the queue does not manage the Job

A Workload that is evicted, finished or being deleted still has Admitted=True; its Job is being stopped and gets no new
pods. A Workload outlives the queue label of its Job: a Job whose label was removed while it was pending may have pods
only after its Workload is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from job_controller.model import Job, Key
from queue_manager.api import keys
from queue_manager.api.api_resources import JOBS, NAMESPACES, WORKLOADS
from queue_manager.api.types import Namespace, Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.jobs.job_situation import MAX_ANCESTORS, ParentJob
from queue_manager.jobs.managed_jobs import is_queued
from queue_manager.jobs.workload_manifest import is_imported, is_made_for, permits_pods, prebuilt_name, queue_name
from queue_manager.jobs.workload_match import matches
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduler.job_pods import JobPods
from queue_manager.scheduler.workload_controller import BY_OWNER


class JobPermits:
    """Implements `job_controller.ports.PodPermits`."""

    def __init__(self, runtime: Runtime, settings: WorkloadSettings, job_pods: JobPods) -> None:
        """`job_pods`: which Jobs have pods that use nodes."""
        self.settings = settings
        self._jobs: Cache[Job] = runtime.cache(JOBS, Job)
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._namespaces: Cache[Namespace] = runtime.cache(NAMESPACES, Namespace)
        self._job_pods = job_pods
        self._subscribers: list[Callable[[Key], None]] = []

    # --- managed Jobs ---

    def managed(self, job: Job) -> bool:
        """Whether the queue manages this Job by its own queue name, or manages all Jobs, in the Job's namespace."""
        name = job.metadata.namespace
        return self._is_queued(job) and self.settings.manages(name, self._namespaces.get("", name))

    def _is_queued(self, job: Job) -> bool:
        return is_queued(queue_name(job), manage_all=self.settings.manage_all)

    def parent(self, job: Job) -> ParentJob | None:
        """The nearest managed Job above a Job without a queue name; None if no managed Job is above it."""
        if queue_name(job):
            return None
        ancestor = job
        for _ in range(MAX_ANCESTORS):
            found = self._owner(ancestor)
            if found is None:
                return None
            if self.managed(found):
                return ParentJob(admitted=any(map(permits_pods, self.workloads_of(found))))
            ancestor = found
        return ParentJob(admitted=False, too_deep=True)

    def _owner(self, job: Job) -> Job | None:
        """The Job that controls this one; None for an owner of another kind, group or namespace."""
        owner = job.metadata.controller
        found = self._jobs.by_uid(owner.uid) if owner is not None and owner.is_job else None
        return found if found is not None and found.metadata.namespace == job.metadata.namespace else None

    def workloads_of(self, job: Job) -> list[Workload]:
        """The Workloads that the Job controls, and those created for it whose owner reference was removed.

        A Workload with the Job's UID label but without an owner reference counts only if its name was made for the Job,
        or the Job names it: any user can write a label.
        """
        return [w for w in self._workloads.lookup(BY_OWNER, job.metadata.uid) if _is_own(job, w)]

    def is_followed(self, workload: Workload) -> bool:
        """Whether a Workload requests what its Job now requests; True if the Job is not in the cache.

        An edit that the Workload does not have yet, e.g. one that was made while no manager ran, is written to it
        first. A prebuilt Workload is not updated: its Job takes it over as it is, or finishes it as OutOfSync.
        """
        job = self._jobs.by_uid(workload.job_uid)
        return job is None or bool(prebuilt_name(job)) or matches(job, workload)

    # --- permission to have pods ---

    def may_create_pods(self, job: Job) -> bool:
        """Whether the Job controller may create pods for this Job now; see the table above."""
        workloads = self.workloads_of(job)
        if not self._is_queued(job):
            workloads = [w for w in workloads if not is_imported(w)]
        if workloads:
            stopping = keys.STOPPING in job.metadata.annotations
            return not stopping and any(permits_pods(w) and matches(job, w) for w in workloads)
        if self._is_queued(job) and not self._is_unmanaged(job.metadata.namespace):
            return False
        parent = self.parent(job)
        return parent is None or parent.admitted

    def _is_unmanaged(self, name: str) -> bool:
        """Whether the queue manages no Job of this namespace; False while the namespace is not in the cache."""
        namespace = self._namespaces.get("", name)
        return namespace is not None and not self.settings.manages(name, namespace)

    def creating(self, job: Job) -> AbstractContextManager[None]:
        """While the context is open, the Job counts as having pods."""
        return self._job_pods.creating(job.metadata.uid)

    def subscribe(self, changed: Callable[[Key], None]) -> None:
        """Call `changed` when `may_create_pods` may have another answer for a Job."""
        self._subscribers.append(changed)

    def announce(self, key: Key) -> None:
        """Call the subscribers for this Job."""
        for changed in self._subscribers:
            changed(key)


def _is_own(job: Job, workload: Workload) -> bool:
    named = is_made_for(job, workload) or workload.metadata.name == prebuilt_name(job)
    return workload.metadata.controller is not None or named

"""Builds the `webhook.SubmissionContext` of a Job from caches: what the webhook rules read of a cluster."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api.api_resources import LOCAL_QUEUES, NAMESPACES, WORKLOAD_PRIORITY_CLASSES
from queue_manager.api.keys import DEFAULT_NAME
from queue_manager.api.types import LocalQueue, Namespace, Workload, WorkloadPriorityClass
from queue_manager.engine.runtime import Runtime
from queue_manager.jobs.webhook import SubmissionContext
from queue_manager.jobs.workload_manifest import is_imported, permits_pods
from queue_manager.lifecycle.workload_settings import WorkloadSettings


class SubmissionContexts:
    """Builds the SubmissionContext of a submitted Job."""

    def __init__(self, runtime: Runtime, settings: WorkloadSettings, *, only_defaults: bool = False) -> None:
        """`only_defaults`: cache only the LocalQueues and the WorkloadPriorityClass that Jobs without any get.

        A runtime with controllers of the queue has caches of all of them already.
        """
        self.settings = settings
        selector = f"metadata.name={DEFAULT_NAME}" if only_defaults else ""
        self._namespaces = runtime.cache(NAMESPACES, Namespace)
        self._local_queues = runtime.cache(LOCAL_QUEUES, LocalQueue, field_selector=selector)
        self._classes = runtime.cache(WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass, field_selector=selector)

    def of(self, job: Json, *, owner_managed: bool, imported_to: str = "") -> SubmissionContext:
        """The context of this Job.

        `owner_managed`: whether it belongs to a managed Job. `imported_to`: the LocalQueue to which
        `sluice import` has added it while it ran, or "".
        """
        namespace = (job.get("metadata") or {}).get("namespace", "")
        return SubmissionContext(
            managed=self.is_selected(namespace),
            manage_all=self.settings.manage_all,
            default_queue=self._local_queues.get(namespace, DEFAULT_NAME) is not None,
            default_class=self._classes.get("", DEFAULT_NAME) is not None,
            bounds=self.settings.bounds,
            owner_managed=owner_managed,
            imported_to=imported_to,
        )

    def is_selected(self, name: str) -> bool:
        """Whether Jobs of this namespace are managed."""
        return self.settings.manages(name, self._namespaces.get("", name))


def queue_of_import(workloads: Iterable[Workload]) -> str:
    """Return the queue of the first admitted Workload that `sluice import` made; "" without one."""
    found = (w.spec.queue_name for w in workloads if is_imported(w) and permits_pods(w))
    return next(found, "")


def ownership(job: Json) -> Job:
    """A Job with only the metadata by which its owner and its Workloads are found."""
    meta = job.get("metadata") or {}
    kept = {name: meta[name] for name in ("name", "namespace", "uid", "labels", "ownerReferences") if meta.get(name)}
    return msgspec.convert({"metadata": kept}, Job)

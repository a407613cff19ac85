"""Which Jobs have pods that no node can take: PodScheduled is False with reason Unschedulable.

The index holds only such pods, so that asking costs nothing while all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from job_controller.model import Condition, Pod
from queue_manager.api import labels
from queue_manager.api.types import Workload
from queue_manager.engine.resources import PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.workloads.requeuing import Unscheduled

_INDEX = "queue: controller uid of pods that no node can take"


class UnscheduledPods:
    """Answers from the cache of pods. `changed(job_uid)` is called when a pod becomes or ceases to be one."""

    def __init__(self, runtime: Runtime, changed: Callable[[str], None]) -> None:
        self._pods = runtime.cache(PODS, Pod)
        self._pods.index(_INDEX, _job_of_unschedulable)
        self._changed = changed
        self._pods.subscribe(self._on_pod)

    def of(self, workload: Workload) -> Unscheduled | None:
        """The pods of its Job that it waits for in vain; None if it has no Job or does not wait."""
        owner = workload.metadata.controller
        if owner is None or not workload.is_true(labels.ADMITTED) or workload.is_true(labels.PODS_READY):
            return None
        pods = self._pods.lookup(_INDEX, owner.uid)
        if not pods:
            return None
        first = min(pods, key=lambda pod: pod.metadata.name)
        condition = unschedulable(first)
        return Unscheduled(len(pods), condition.message if condition is not None else "")

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for uid in dict.fromkeys((*_jobs(old), *_jobs(new))):
            if _jobs(old) != _jobs(new):
                self._changed(uid)


def unschedulable(pod: Pod) -> Condition | None:
    """The condition that says so."""
    if pod.spec.node_name or pod.metadata.deletion_timestamp is not None or pod.status.phase != "Pending":
        return None
    found = (c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False")
    return next((c for c in found if c.reason == labels.UNSCHEDULABLE), None)


def _job_of_unschedulable(pod: Pod) -> Iterable[str]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner is not None and unschedulable(pod) is not None else ()


def _jobs(pod: Pod | None) -> tuple[str, ...]:
    return tuple(_job_of_unschedulable(pod)) if pod is not None else ()

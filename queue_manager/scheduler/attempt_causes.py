"""Why the pods of a Workload's present attempt are not ready, for the record of its end.

The write that ends the attempt stores the cause (status.requeueHistory), because the Job's pods are deleted then.
BEHAVIOUR.md#q113-pod-causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from job_controller.model import Pod
from queue_manager.api import condition_types
from queue_manager.api.types import Workload
from queue_manager.lifecycle.pod_causes import cause_at_deadline, error_of
from queue_manager.scheduler.job_pods import JobPods


class AttemptCauses:
    """`running`: the pods that use nodes. `failed`: those that have failed."""

    def __init__(self, running: JobPods, failed: JobPods) -> None:
        self._running = running
        self._failed = failed

    def at_deadline(self, workload: Workload) -> str:
        """The cause if the attempt ends because its pods are not ready; "" if they are, or without an attempt."""
        return self._of(workload, cause_at_deadline)

    def error(self, workload: Workload) -> str:
        """The error of its pods if something else ends the attempt, such as a preemption; "" without one."""
        return self._of(workload, error_of)

    def _of(self, workload: Workload, choose: Callable[[Iterable[Pod], datetime | None], str]) -> str:
        admitted, uid = workload.condition(condition_types.ADMITTED), workload.job_uid
        if admitted is None or not awaits_pods(workload) or workload.is_true(condition_types.EVICTED):
            return ""
        return choose((*self._running.of(uid), *self._failed.of(uid)), admitted.last_transition_time)

    def has_pods(self, workload: Workload) -> bool:
        """Whether its Job has a pod that runs or has failed. A create request does not count: it may be refused too."""
        return any(pods.of(workload.job_uid) for pods in (self._running, self._failed))


def awaits_pods(workload: Workload) -> bool:
    """Whether the Workload is admitted and not all pods of its Job are ready."""
    ready = workload.is_true(condition_types.PODS_READY)
    return bool(workload.job_uid) and workload.is_true(condition_types.ADMITTED) and not ready

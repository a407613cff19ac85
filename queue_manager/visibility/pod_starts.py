"""Whether a pod of a Job has started, as far as the objects of a cluster show it. Pure.

The time that a Job ran counts from its admission (`job_times`), but a Job none of whose pods ever started has not run:
tables show no such time of it. In doubt a pod has started. `accounting.job_summary` knows it from the steps and pods of
the history. BEHAVIOUR.md#q188-waited-and-ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from job_controller.model import ContainerStatus, Job, Pod
from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Attempt, RequeueHistory, Workload
from queue_manager.lifecycle.pod_causes import CONTAINER_FAULTS, IMAGE_FAULTS, START_ERRORS, STARTING, no_program
from queue_manager.lifecycle.refused_pods import NO_PODS
from queue_manager.visibility.deactivated_jobs import NOT_STARTABLE

_WITHOUT_NODE = re.compile(r"\d+/\d+ nodes")
_STARTING = (reasons.WAIT_FOR_START, reasons.UNSCHEDULABLE)  # underlying causes of timeouts before all pods were ready


def has_run(job: Job, workload: Workload | None, pods: Iterable[Pod], of_pods: str) -> bool:
    """Whether a pod of the Job has started, in any attempt. `of_pods`: why its pods are or were not ready."""
    status = job.status
    if status.ready or status.succeeded or (status.failed and not of_pods) or _was_ready(workload):
        return True
    known = (workload.status.requeue_history if workload is not None else None) or RequeueHistory()
    causes = [of_pods, *(attempt.pod_cause for attempt in known.attempts)]
    several = job.spec.pods_at_once > 1
    if any(cause and not shows_no_start(cause, several=several) for cause in causes):
        return True
    if any(_may_have_run(attempt) for attempt in known.attempts) or any(_runs(pod) for pod in pods):
        return True
    return not known.attempts and _has_past_of_kueue(workload)


def shows_no_start(cause: str, *, several: bool = False) -> bool:
    """Whether this cause, the worst of an attempt, shows that no container was executed.

    `several`: the Job has several pods at once. Then others may have had a node.
    """
    if _WITHOUT_NODE.match(cause):
        return not several
    return cause.startswith((*NOT_STARTABLE, *START_ERRORS, *IMAGE_FAULTS, *CONTAINER_FAULTS, *STARTING, NO_PODS))


def _was_ready(workload: Workload | None) -> bool:
    ready = workload.condition(condition_types.PODS_READY) if workload is not None else None
    return ready is not None and (ready.is_true or ready.reason == reasons.WAIT_FOR_RECOVERY)


def _has_past_of_kueue(workload: Workload | None) -> bool:
    """Whether another queue manager has added up its runs, which leaves no attempts."""
    return workload is not None and bool(workload.status.accumulated_past_execution_time_seconds)


def _may_have_run(attempt: Attempt) -> bool:
    """Whether an attempt ended otherwise than by the time for its start, and without a cause of its pods."""
    return not attempt.pod_cause and attempt.cause not in _STARTING


def _runs(pod: Pod) -> bool:
    return any(_was_executed(container) for container in pod.status.container_statuses)


def _was_executed(container: ContainerStatus) -> bool:
    ended = container.state.terminated or container.last_state.terminated
    if ended is not None:
        return ended.reason not in START_ERRORS and not no_program(ended.message)
    return container.state.waiting is None

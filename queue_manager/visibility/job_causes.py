"""The cause that lists name first: why the pods of a Job are not ready, or were not in its last attempt. Pure.

While the Job runs, the status of its pods says it (`lifecycle.pod_causes`). An eviction deletes them; then the record
of the attempt in the Workload says it. The pods of a Job that has failed may be deleted, too, for instance by `kubectl
drain`: the Workload has the cause since the end of the Job, and the Job once a retention has deleted the Workload.
BEHAVIOUR.md#q113-pod-causes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from job_controller import conditions, model
from job_controller.completion_indexes import stored_failed
from job_controller.condition_types import FAILED
from job_controller.index_set import IndexSet
from job_controller.model import Job
from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.types import Workload
from queue_manager.lifecycle.pod_causes import (
    CauseRank,
    PodCause,
    cause_of_failure,
    decisive_pods,
    exit_code_in,
    one_line,
    worst_cause,
)
from queue_manager.visibility.attempt_counts import budget_attempts

MAX_INDEX_CHARACTERS = 20  # of a list of indexes in a cause
FAILED_PROBE, PENDING_PROBE = " probe failed", " probe has not succeeded yet"


def cause_of(job: Job | None, workload: Workload | None, pods: Iterable[model.Pod]) -> str:
    """The cause of a Job, or of a Workload without a Job."""
    return job_cause(job, workload, pods) if job is not None else recorded_cause(workload)


def job_cause(job: Job, workload: Workload | None, pods: Iterable[model.Pod]) -> str:
    """The cause that the Job's pods show, else the one recorded with its last attempt; "" for a Job without trouble."""
    end = conditions.finished(job.status)
    if end is not None:
        return (_kept_cause(job, workload) if end.type == FAILED else "") or cause_of_failure(job.status, pods)
    if job.spec.suspend or (workload is not None and _is_over(workload)):
        return recorded_cause(workload)
    if failed := failed_indexes(job):
        return one_line(of_indexes(failed, _cause_of_indexes(job, pods)))
    all_ready = (job.status.ready or 0) >= job.status.active > 0
    if all_ready:
        return ""
    worst = worst_cause(pods, _admitted_at(workload))
    return "" if worst is None else worst.text if were_ready(workload) else live_text(worst)


def failed_indexes(job: Job) -> str:
    """`index 1 failed`, `indexes 1,4-6 failed` or `200 indexes failed`: those that have failed for good, so that the
    Job does not succeed unless its successPolicy is met; "" if none has.
    """
    return failed_text(stored_failed(job))


def failed_text(failed: IndexSet) -> str:
    """The words of `failed_indexes` for these indexes."""
    if not failed:
        return ""
    if len(failed) == 1:
        return f"index {failed.text} failed"
    is_short = len(failed.text) <= MAX_INDEX_CHARACTERS
    return f"indexes {failed.text} failed" if is_short else f"{len(failed)} indexes failed"


def of_indexes(failed: str, cause: str) -> str:
    """`index 1 failed: exit 4`; of several indexes, which may have failed in other ways, `..., one with exit 4`.

    `failed`: the text of `failed_indexes`, or "". `cause`: that of one of them, or "".
    """
    join = ", one with " if failed.startswith("indexes ") or failed.endswith(" indexes failed") else ": "
    return join.join(part for part in (failed, cause) if part)


def _cause_of_indexes(job: Job, pods: Iterable[model.Pod]) -> str:
    """The worst cause among the pods of the indexes that have failed for good; "" if they are gone."""
    worst = worst_cause(pod for pod in decisive_pods(job.status, pods) if pod.status.has_failed)
    return worst.text if worst is not None else ""


def _kept_cause(job: Job, workload: Workload | None) -> str:
    """The cause of a failed Job as its Workload keeps it; if a retention has deleted that, as the Job keeps it."""
    history = workload.status.requeue_history if workload is not None else None
    return history.pod_cause if history is not None else one_line(job.metadata.annotations.get(keys.POD_CAUSE, ""))


def exit_code_of(of_pods: str, pods: Iterable[model.Pod]) -> int | None:
    """Return the highest exit code of the Job's failed containers; of pods that are gone, the one that the cause names.

    None without a cause `of_pods`.
    """
    found = highest_exit_code(pods) if of_pods else None
    return exit_code_in(of_pods) if found is None else found


def highest_exit_code(pods: Iterable[model.Pod]) -> int | None:
    """Return the highest exit code of the failed pods' containers; None if no container failed."""
    failed = (pod for pod in pods if pod.status.has_failed)
    containers = (c for pod in failed for c in (*pod.status.init_container_statuses, *pod.status.container_statuses))
    ends = (container.state.terminated for container in containers)
    return max((end.exit_code for end in ends if end is not None and end.exit_code != 0), default=None)


def _is_over(workload: Workload) -> bool:
    return workload.is_true(condition_types.EVICTED) or not workload.spec.active


def were_ready(workload: Workload | None) -> bool:
    """Whether the pods were ready in this attempt, and are not any more."""
    ready = workload.condition(condition_types.PODS_READY) if workload is not None else None
    return ready is not None and (ready.is_true or ready.reason == reasons.WAIT_FOR_RECOVERY)


def live_text(cause: PodCause) -> str:
    """The text of a cause before the deadline of its pod: a probe may still succeed."""
    return cause.text.replace(FAILED_PROBE, PENDING_PROBE, 1) if cause.rank == CauseRank.UNREADY else cause.text


def _admitted_at(workload: Workload | None) -> datetime | None:
    admitted = workload.condition(condition_types.ADMITTED) if workload is not None else None
    return admitted.last_transition_time if admitted is not None and admitted.is_true else None


def recorded_cause(workload: Workload | None) -> str:
    """The cause in the record of the last attempt since the last activation; "" if its pods had no trouble."""
    attempts = budget_attempts(workload) if workload is not None else ()
    return attempts[-1].pod_cause if attempts else ""


P = TypeVar("P", bound=model.Pod)


def pods_by_job(pods: Iterable[P]) -> dict[str, list[P]]:
    """The pods by the UID of the Job that controls them."""
    found: dict[str, list[P]] = {}
    for pod in pods:
        owner = pod.metadata.controller
        if owner is not None:
            found.setdefault(owner.uid, []).append(pod)
    return found

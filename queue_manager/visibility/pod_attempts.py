"""The pods of a Job by attempt, and when the next pod is created. Pure.

The Job controller decides when to replace a failed pod. This module returns the time at which a Job controller would do
so that starts now (`job_controller.failure_history`): it counts failed pods that are gone by the status of the Job. The
first and the longest wait are configurable, and may be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from job_controller import backoff, conditions, failure_history, model, pod_phases
from job_controller.model import Condition, Job
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import LONG_AGO, completion_index, finish_time, is_active, is_ready, is_terminal
from job_controller.switched_off_features import effective
from queue_manager.lifecycle.pod_causes import START_ERRORS, CauseRank, cause_of, ended_text, no_program
from queue_manager.visibility.job_causes import live_text
from queue_manager.visibility.wire_types import ContainerStatus, Pod, Terminated

RESTARTED = "Restarted"
# Exit codes of a shell (POSIX) for a program that it does not find, or cannot execute.
EXIT_NOT_FOUND = 127
EXIT_NOT_EXECUTABLE = 126


class PodRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod. `attempt`: which try of the Job it is since it was last started, from 1; of an Indexed Job, which try of
    its index. `sluice show` calls it TRY, since an attempt of a Workload is a period with quota (`attempt_rows`).
    """

    name: str
    index: int | None
    attempt: int
    state: str
    node: str
    started: datetime | None
    ended: datetime | None
    exit_code: int | None
    reason: str
    message: str


def pod_rows(job: Job, pods: Iterable[Pod], *, were_ready: bool = False) -> list[PodRow]:
    """Return rows ordered by index, then by creation. `were_ready`: as of `trouble`."""
    counts: dict[int, int] = {}
    rows = []
    for pod in sorted(pods, key=creation_order):
        index = completion_index(pod) if job.spec.completion_mode == "Indexed" else -1
        counts[index] = max(counts.get(index, 0) + 1, attempt_of(pod))
        rows.append(_row(pod, index, counts[index], were_ready))
    return sorted(rows, key=lambda row: -1 if row.index is None else row.index)


def creation_order(pod: Pod) -> tuple[datetime, int, str]:
    """Return a sort key: creation time in seconds, then attempt, then resourceVersion (or name)."""
    version = pod.metadata.resource_version
    return (
        pod.metadata.creation_timestamp or LONG_AGO,
        attempt_of(pod),
        version.rjust(20, "0") if version.isdecimal() else pod.metadata.name,
    )


def attempt_of(pod: Pod) -> int:
    """Return the attempt by the pod's failure-count annotation (backoffLimitPerIndex); 1 for all other pods."""
    return backoff.failure_count(pod) + backoff.ignored_count(pod) + 1


def _row(pod: Pod, index: int, attempt: int, were_ready: bool) -> PodRow:
    reason, message = trouble(pod, were_ready=were_ready)
    return PodRow(
        name=pod.metadata.name,
        index=index if index >= 0 else None,
        attempt=attempt,
        state=pod_state(pod),
        node=pod.spec.node_name,
        started=_started_at(pod),
        ended=finish_time(pod) if is_terminal(pod) else None,
        exit_code=exit_code(pod),
        reason=reason,
        message=message,
    )


def _started_at(pod: Pod) -> datetime | None:
    """When its node took the pod; None if, as far as is known, no container of it has started."""
    known = _containers(pod)
    return pod.status.start_time if not known or any(map(has_started, known)) else None


def pod_state(pod: Pod) -> str:
    """Return the phase, with Pending refined to Unschedulable or Starting and Running to Ready or Unready."""
    if is_terminal(pod):
        return pod.status.phase
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    if is_ready(pod):
        return "Ready"
    if pod.status.phase == pod_phases.RUNNING:
        return "Unready"
    return "Unschedulable" if not pod.spec.node_name and _unscheduled(pod) else "Starting"


def _unscheduled(pod: Pod) -> Condition | None:
    return next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)


def trouble(pod: Pod, *, were_ready: bool = False) -> tuple[str, str]:
    """Return (reason, message) of the pod's current or final problem; both are "" if it has none.

    Of a pod that is not ready the message is that of its probe, without a reason. `were_ready`: whether the pods of its
    Job were, in this attempt.
    """
    unscheduled = _unscheduled(pod)
    if unscheduled is not None and not pod.spec.node_name:
        return unscheduled.reason, unscheduled.message
    for status in _containers(pod):
        if status.state.waiting is not None and status.state.waiting.message:
            return status.state.waiting.reason, _end_before_wait(status) or status.state.waiting.message
    if pod.status.reason:  # the node terminated the pod, which explains the exit codes of its containers
        return pod.status.reason, pod.status.message
    ended, before = _bad_end(pod), _bad_end_before(pod)
    if ended is None and before is not None:
        return RESTARTED, ": ".join(part for part in (f"after {before.reason}", before.message) if part)
    if ended is not None:
        return ended.reason, ended.message
    found = cause_of(pod)
    if found is None or found.rank != CauseRank.UNREADY:
        return "", ""
    return "", found.text if were_ready else live_text(found)


def _end_before_wait(status: ContainerStatus) -> str:
    """Return how a container ended that waits for its restart (CrashLoopBackOff), whose message does not say it."""
    end = status.last_state.terminated
    return ended_text(end.exit_code, end.reason, end.message) if end is not None else ""


def failed_container(pod: Pod) -> ContainerStatus | None:
    """Return the first container that terminated with an exit code other than 0."""

    def failed(status: ContainerStatus) -> bool:
        return status.state.terminated is not None and status.state.terminated.exit_code != 0

    return next(filter(failed, _containers(pod)), None)


def dead_container(job: Job, pods: Iterable[Pod]) -> str:
    """Return the container of a pod that has failed and does not start again, while another one of the pod runs.

    "" without one. Such a pod cannot become ready, and fails once its other containers have ended.
    """
    spec = job.spec.template.get("spec") or {}
    if spec.get("restartPolicy") != "Never":
        return ""
    failed = (failed_container(pod) for pod in pods if is_active(pod))
    return next((container.name for container in failed if container is not None), "")


def _bad_end(pod: Pod) -> Terminated | None:
    container = failed_container(pod)
    return container.state.terminated if container is not None else None


def _bad_end_before(pod: Pod) -> Terminated | None:
    """Return the last termination of a restarted container if it was killed from outside (OOMKilled, NodeShutdown)."""
    ends = (status.last_state.terminated for status in _containers(pod) if status.state.running is not None)
    return next((end for end in ends if end is not None and end.reason not in ("", "Completed", "Error")), None)


def _containers(pod: Pod) -> Sequence[ContainerStatus]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def exit_code(pod: Pod) -> int | None:
    """Return the exit code of the first failed container; 0 if all succeeded; None while one has not terminated."""
    bad = _bad_end(pod)
    if bad is not None:
        return bad.exit_code
    statuses = pod.status.container_statuses
    return 0 if statuses and all(s.state.terminated is not None for s in statuses) else None


def has_started(status: ContainerStatus) -> bool:
    """Whether the container has run, or runs: only then it has a log."""
    end = status.state.terminated
    if end is not None and end.reason in START_ERRORS:
        return False
    return status.state.running is not None or end is not None or status.restart_count > 0


def shell_exit_code(pod: Pod) -> int | None:
    """Return `exit_code`; if the pod's program could not be executed, the code a shell returns then (126 or 127)."""
    bad = _bad_end(pod)
    if bad is not None and bad.reason in START_ERRORS:
        return EXIT_NOT_FOUND if no_program(bad.message) else EXIT_NOT_EXECUTABLE
    return exit_code(pod)


# --- what comes next ---------------------------------------------------------------------------------------


def works(job: Job) -> bool:
    """Whether the Job creates pods: it has not finished, is not finishing, and is not suspended."""
    ending = ("FailureTarget", "SuccessCriteriaMet")
    ended = conditions.finished(job.status) or any(c.is_true for c in job.status.conditions if c.type in ending)
    return not ended and not job.spec.suspend and job.metadata.deletion_timestamp is None


def next_pod_at(job: Job, pods: Sequence[model.Pod], options: JobControllerOptions, now: datetime) -> datetime | None:
    """Return when the Job's backoff for failed pods ends, or None if no backoff is pending.

    The result is that of the Job controller, also for pods that finished before the clock was set back, and whose
    finish times lie in the future. It is None if all failed pods are gone: the last failure is unknown then.
    """
    job = effective(job, options.switches)
    if not works(job) or job.spec.backoff_limit_per_index is not None:
        return None
    if sum(map(is_active, pods)) >= job.spec.pods_at_once:
        return None
    return failure_history.backoff_end(job, pods, now, options)


def delay_of_index(job: Job, last: Pod, options: JobControllerOptions) -> timedelta:
    """Return how long after the end of this failed pod it is replaced, for Jobs with backoffLimitPerIndex."""
    return backoff.delay(attempt_of(last), backoff.base_of(job, options), options.backoff_max)

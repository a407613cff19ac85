"""Describes how the pods of a Job failed, from the pods that still exist. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from job_controller import backoff
from job_controller.disruption_target import DISRUPTION_TARGET
from job_controller.model import Job
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import finish_time
from job_controller.switched_off_features import effective
from queue_manager.api.types import Workload
from queue_manager.lifecycle.pod_causes import ended_text
from queue_manager.visibility.attempt_counts import budget_attempts
from queue_manager.visibility.job_causes import highest_exit_code, pods_by_job
from queue_manager.visibility.pod_attempts import delay_of_index, failed_container
from queue_manager.visibility.wire_types import Pod


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The failure of one pod. `exit_code`: None if the pod failed (`reason`) without a failed container."""

    namespace: str
    pod: str
    container: str
    exit_code: int | None
    reason: str
    message: str
    at: datetime
    error_line: str = ""  # of the container's log, if the status has no message
    job_exit_code: int | None = None  # the highest of the Job's failed pods

    @property
    def text(self) -> str:
        """The failure in a few words: `exit 3: ValueError: no such column`, `OOMKilled`."""
        return ended_text(self.exit_code, self.reason, self.error_line or self.message)


def newest_failure(pods: Iterable[Pod]) -> Failure | None:
    """Return the failure of the pod that failed last, ignoring disrupted pods."""
    newest = _newest(pods)
    return None if newest is None else _failure(newest)


def _newest(pods: Iterable[Pod]) -> Pod | None:
    """The pod that failed last; of those of one second the first by name, as in `lifecycle.pod_causes`."""
    failed = [pod for pod in pods if pod.status.has_failed and not _disrupted(pod)]
    return min(failed, key=lambda pod: (-finish_time(pod).timestamp(), pod.metadata.name), default=None)


def _disrupted(pod: Pod) -> bool:
    return any(c.type == DISRUPTION_TARGET and c.is_true for c in pod.status.conditions)


def _failure(pod: Pod) -> Failure:
    container = failed_container(pod)
    end = container.state.terminated if container is not None else None
    return Failure(
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        container=container.name if container is not None else "",
        exit_code=end.exit_code if end is not None else None,
        reason=end.reason if end is not None else pod.status.reason,
        message=end.message if end is not None else pod.status.message,
        at=finish_time(pod),
    )


def failures(
    workloads: Iterable[Workload],
    pods: Iterable[Pod],
    jobs: Iterable[Job] = (),
    options: JobControllerOptions | None = None,
) -> dict[str, Failure]:
    """Return by Workload UID the newest pod failure that led to the Workload's last deactivation.

    `pods`: the failed pods. `jobs`: the Jobs that the user may read.
    """
    by_uid = {job.metadata.uid: job for job in jobs}
    by_job = pods_by_job(pods)
    found: dict[str, Failure] = {}
    for workload in workloads:
        owner = workload.metadata.controller
        failed = by_job.get(owner.uid, []) if owner is not None else []
        newest = _newest(failed)
        if owner is None or newest is None:
            continue
        replaced = _replaced_at(by_uid.get(owner.uid), newest, failed, options or JobControllerOptions())
        if _led_here(workload, finish_time(newest), replaced):
            found[workload.metadata.uid] = msgspec.structs.replace(
                _failure(newest), job_exit_code=highest_exit_code(failed)
            )
    return found


def _led_here(workload: Workload, failed: datetime, replaced: datetime) -> bool:
    """Whether this pod failure kept the pods from becoming ready in the attempts since the last activation.

    True if the pod failed during these attempts, or if the Job's backoff after the failure outlasted them, so that
    the pod was not replaced.
    """
    attempts = budget_attempts(workload)
    if not attempts:
        return True
    start, end = attempts[0].start, attempts[-1].end
    return start is None or failed >= start or (end is not None and replaced >= end)


def _replaced_at(job: Job | None, newest: Pod, failed: Sequence[Pod], options: JobControllerOptions) -> datetime:
    """Return the earliest time at which the Job can have replaced this pod."""
    if job is None:
        return finish_time(newest)
    if effective(job, options.switches).spec.backoff_limit_per_index is not None:
        return finish_time(newest) + delay_of_index(job, newest, options)
    in_a_row = [newest] if job.status.succeeded else failed  # the time of the success is unknown, so count one failure
    history = backoff.extend(backoff.FailureHistory(), (), in_a_row)
    delay = backoff.delay(history.number, backoff.base_of(job, options), options.backoff_max)
    return (history.last_failure or finish_time(newest)) + delay

"""Facts about one pod: phase, readiness, index, failure counts, finish time (BEHAVIOUR.md#b20-failed-pods)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from job_controller.labels import COMPLETION_INDEX, TRACKING_FINALIZERS
from job_controller.model import ContainerStatus, Job, Pod
from job_controller.pod_phases import TERMINAL

LONG_AGO = datetime.min.replace(tzinfo=UTC)  # replaces an absent time in comparisons
INT32_MAX = 2**31 - 1
_number = re.compile(r"[+]?0*([0-9]{1,10})", re.ASCII).fullmatch  # bounded: int() rejects more than 4300 digits


def is_terminal(pod: Pod) -> bool:
    """Whether the phase is Succeeded or Failed."""
    return pod.status.phase in TERMINAL


def is_active(pod: Pod) -> bool:
    """Whether the pod is neither terminal nor being deleted (upstream IsPodActive)."""
    return pod.metadata.deletion_timestamp is None and not is_terminal(pod)


def is_tracked(pod: Pod) -> bool:
    """Whether the pod has a tracking finalizer: it is not counted yet, or recorded as uncounted."""
    return not TRACKING_FINALIZERS.isdisjoint(pod.metadata.finalizers)


def is_ready(pod: Pod) -> bool:
    """Whether the condition Ready is True."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def replaces_only_failed(job: Job) -> bool:
    """Whether podReplacementPolicy is Failed, which a podFailurePolicy implies (KEP-3939)."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_failed(pod: Pod, only_terminal: bool) -> bool:
    """Whether the pod counts as failed (upstream isPodFailed, BEHAVIOUR.md#b20-failed-pods).

    `only_terminal` is replaces_only_failed of its Job. With it a pod that is being deleted fails only when its phase
    becomes Failed; without it, as soon as its deletion begins.
    """
    if pod.status.has_failed:
        return True
    return not only_terminal and pod.metadata.deletion_timestamp is not None and not pod.status.has_succeeded


def failed_by_itself(pod: Pod, only_terminal: bool, since: datetime | None) -> bool:
    """Whether the pod failed (is_failed) for a reason other than its deletion by the ending Job.

    `since` is when the end of the Job was decided, None if it was not. Pods that a Job deletes because it has succeeded
    are not failures, even if a crash left their finalizer until they ended. A pod failed by itself if its deletion was
    requested before `since`, or if it had failed before its deletion.
    """
    if not is_failed(pod, only_terminal):
        return False
    requested_at = deletion_requested(pod)
    if requested_at is None or since is None or requested_at < since:
        return True
    return pod.status.has_failed and finish_time(pod) < requested_at


def deletion_requested(pod: Pod) -> datetime | None:
    """When the deletion was requested: deletionTimestamp minus the grace period. None if it was not."""
    stamp = pod.metadata.deletion_timestamp
    return stamp and stamp - grace_period(pod.metadata.deletion_grace_period_seconds or 0)


def grace_period(seconds: int) -> timedelta:
    """The grace period that an API server adds to the request time to get deletionTimestamp.

    It computes in 64 bits of nanoseconds, so more than 292 years overflow. The same overflow here yields the request
    time for any stored number.
    """
    nanoseconds = (seconds * 10**9 + 2**63) % 2**64 - 2**63
    return timedelta(microseconds=nanoseconds // 1000)


def completion_index(pod: Pod) -> int:
    """The index the pod works on; -1 if the annotation is absent or malformed (upstream getCompletionIndex)."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX)
    if text is None:
        return -1
    if text.isascii() and text.isdecimal() and len(text) < 10:  # the common case
        return int(text)
    return _int32(text, otherwise=-1)


def count_annotation(pod: Pod, name: str) -> int:
    """A failure count stored on the pod; 0 if malformed, negative or beyond 32 bits (BEHAVIOUR.md#b27-per-index)."""
    text = pod.metadata.annotations.get(name)
    if text is None:
        return 0
    if len(text) < 10 and text.isdecimal() and text.isascii():  # the common case
        return int(text)
    return _int32(text, otherwise=0)


def _int32(text: str, otherwise: int) -> int:
    """The number as Go parses it into 32 bits, or `otherwise`."""
    match = _number(text)
    number = int(match[1]) if match is not None else otherwise
    return number if number <= INT32_MAX else otherwise


def finish_time(pod: Pod) -> datetime:
    """When the pod finished (upstream getFinishedTime).

    The latest finishedAt of its containers if all have one; else when it became unready; else when its deletion was
    requested; else when it was created.
    """
    statuses = pod.status.container_statuses
    if len(statuses) == 1 and not pod.spec.init_containers:  # the common case
        only = statuses[0].state.terminated
        if only is not None and only.finished_at is not None:
            return only.finished_at
    return (
        _containers_finished(pod)
        or _became_unready(pod)
        or deletion_requested(pod)
        or pod.metadata.creation_timestamp
        or LONG_AGO
    )


def _containers_finished(pod: Pod) -> datetime | None:
    statuses: Sequence[ContainerStatus] = pod.status.container_statuses
    if not statuses:
        return None
    if pod.spec.init_containers:
        sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
        statuses = [*statuses, *(s for s in pod.status.init_container_statuses if s.name in sidecars)]
    latest: datetime | None = None
    for status in statuses:
        ended = status.state.terminated
        if ended is None or ended.finished_at is None:
            return None
        if latest is None or ended.finished_at > latest:
            latest = ended.finished_at
    return latest


def _became_unready(pod: Pod) -> datetime | None:
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "False":
            return condition.last_transition_time
    return None

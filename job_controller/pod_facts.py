"""What one pod says about itself: phase, readiness, index, failure counts, when it finished."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from job_controller.labels import COMPLETION_INDEX, TRACKING_FINALIZERS
from job_controller.model import ContainerStatus, Job, Pod

LONG_AGO = datetime.min.replace(tzinfo=UTC)  # in place of a time that is not there, where times are compared
INT32_MAX = 2**31 - 1
_number = re.compile(r"[+]?0*([0-9]{1,10})", re.ASCII).fullmatch  # bounded: int() refuses more than 4300 digits

ENDED = ("Succeeded", "Failed")


def is_terminal(pod: Pod) -> bool:
    return pod.status.phase in ENDED


def is_active(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and not is_terminal(pod)


def is_tracked(pod: Pod) -> bool:
    """Whether a pod of a Job that we manage is still to be counted, or just noted as uncounted."""
    return not TRACKING_FINALIZERS.isdisjoint(pod.metadata.finalizers)


def is_ready(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def replaces_only_failed(job: Job) -> bool:
    """podReplacementPolicy is Failed, which a podFailurePolicy implies."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_failed(pod: Pod, only_terminal: bool) -> bool:
    """Whether the pod counts as failed (spec 2.4).

    `only_terminal` (replaces_only_failed of its Job): a pod being deleted has not failed until it has ended;
    without it, it has failed as soon as its deletion begins.
    """
    if pod.status.phase == "Failed":
        return True
    return not only_terminal and pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def failed_by_itself(pod: Pod, only_terminal: bool, since: datetime | None) -> bool:
    """Failed (is_failed), and not because its Job deleted it, as a Job may whose end is decided `since` then.

    Pods that a Job deletes because it succeeds are no failures of the Job, also when a crash left them with
    their finalizer until they ended. None: it has not ended yet, so whoever deletes its pods, it is not the Job.
    """
    if not is_failed(pod, only_terminal):
        return False
    asked = deletion_requested(pod)
    if asked is None or since is None or asked < since:
        return True
    return pod.status.phase == "Failed" and finish_time(pod) < asked


def deletion_requested(pod: Pod) -> datetime | None:
    """When the deletion began: deletionTimestamp lies the grace period ahead of it."""
    stamp = pod.metadata.deletion_timestamp
    return stamp and stamp - grace_period(pod.metadata.deletion_grace_period_seconds or 0)


def grace_period(seconds: int) -> timedelta:
    """How far ahead of its request a deletion lies: as an API server computes it, in 64 bits of nanoseconds. Of more
    than 292 years not much is left, but any number that a pod may have is taken back as it was added."""
    nanoseconds = (seconds * 10**9 + 2**63) % 2**64 - 2**63
    return timedelta(microseconds=nanoseconds // 1000)


def completion_index(pod: Pod) -> int:
    """The index the pod works on; -1 if it has none that can be read."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX)
    if text is None:
        return -1
    if text.isascii() and text.isdecimal() and len(text) < 10:  # nearly always
        return int(text)
    return _int32(text, otherwise=-1)


def count_annotation(pod: Pod, name: str) -> int:
    """A failure count stored on the pod; unreadable, negative and too large ones are 0 (spec 2.7)."""
    text = pod.metadata.annotations.get(name)
    if text is None:
        return 0
    if len(text) < 10 and text.isdecimal() and text.isascii():  # nearly always
        return int(text)
    return _int32(text, otherwise=0)


def _int32(text: str, otherwise: int) -> int:
    """As Go reads a number into 32 bits."""
    match = _number(text)
    number = int(match[1]) if match is not None else otherwise
    return number if number <= INT32_MAX else otherwise


def finish_time(pod: Pod) -> datetime:
    """When the pod ended (spec 2.8): its last container; else when it stopped being ready; else when its
    deletion began; else when it was created."""
    statuses = pod.status.container_statuses
    if len(statuses) == 1 and not pod.spec.init_containers:  # nearly always
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

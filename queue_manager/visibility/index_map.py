"""The index map of an Indexed Job: one character per index, and a row per index that failed or was retried. Pure.

.  succeeded      r  its pod is ready            b  its pod failed, the replacement waits for a backoff
x  failed         s  its pod is starting         t  its pod is being stopped
_  no pod yet     -  the end of the Job          ?  the Job ended before it; whether it had a pod is not known
                     stopped its pod

The end of a Job deletes the pods that still run, so the map of an ended Job is read from the counters of the Job, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from job_controller import conditions
from job_controller.completion_indexes import stored_completed, stored_failed
from job_controller.condition_types import FAILED
from job_controller.index_set import IndexSet
from job_controller.model import Job
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import completion_index, finish_time, is_active, is_ready
from job_controller.reasons import DEADLINE_EXCEEDED
from job_controller.switched_off_features import effective
from job_controller.times import effective_start
from queue_manager.visibility.pod_attempts import (
    attempt_of,
    creation_order,
    delay_of_index,
    exit_code,
    next_pod_at,
    trouble,
    works,
)
from queue_manager.visibility.wire_types import Pod

DRAWN = 1_000_000  # indexes; a Job may have up to 2^31-1


class IndexSign(StrEnum):
    """The characters of the map: the states of an index."""

    SUCCEEDED = "."
    FAILED = "x"
    RUNNING = "r"
    STARTING = "s"
    IN_BACKOFF = "b"
    STOPPING = "t"
    STOPPED = "-"
    NOT_FINISHED = "?"
    NOT_STARTED = "_"


MEANING = {
    IndexSign.SUCCEEDED: "succeeded",
    IndexSign.FAILED: "failed",
    IndexSign.RUNNING: "running",
    IndexSign.STARTING: "starting",
    IndexSign.IN_BACKOFF: "in backoff",
    IndexSign.STOPPING: "stopping",
    IndexSign.STOPPED: "stopped",
    IndexSign.NOT_FINISHED: "not finished",
    IndexSign.NOT_STARTED: "not started",
}
TROUBLED = (IndexSign.FAILED, IndexSign.IN_BACKOFF)


class IndexRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One index that failed or had more than one try (`attempts`). Exit codes: of the pods that still exist."""

    index: int
    state: str
    attempts: int
    exit_codes: list[int]
    last_error: str
    next_retry: datetime | None


class IndexMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The drawn map of the first DRAWN indexes, and counts over all indexes."""

    map: str
    counts: dict[str, int]
    troubled: list[IndexRow]


def index_map(job: Job, pods: Sequence[Pod], options: JobControllerOptions, now: datetime) -> IndexMap | None:
    """Return the index map, or None for a Job that is not Indexed."""
    if job.spec.completion_mode != "Indexed" or job.spec.completions is None:
        return None
    by_index: dict[int, list[Pod]] = {}
    for pod in sorted(pods, key=creation_order):
        index = completion_index(pod)
        if 0 <= index < job.spec.completions:
            by_index.setdefault(index, []).append(pod)
    done, failed = stored_completed(job), stored_failed(job)
    signs = {index: _settled(index, done, failed) or _sign(job, own) for index, own in by_index.items()}
    by_pods = Counter(sign for index, sign in signs.items() if index not in done and index not in failed)
    counts = by_pods + Counter({IndexSign.SUCCEEDED: len(done), IndexSign.FAILED: len(failed) - failed.common(done)})
    unseen = job.spec.completions - counts.total()
    absent = _sign_without_pod(job, pods, unseen)
    counts[absent] += unseen
    at = next_pod_at(job, pods, options, now)
    rows = [_row(job, index, own, signs[index], at, options, now) for index, own in sorted(by_index.items())]
    return IndexMap(
        map=_drawn(absent, min(job.spec.completions, DRAWN), signs, failed, done),
        counts={name: counts[sign] for sign, name in MEANING.items() if counts[sign]},
        troubled=[row for row in rows if row.attempts > 1 or signs[row.index] in TROUBLED],
    )


def _drawn(absent: IndexSign, size: int, signs: Mapping[int, IndexSign], failed: IndexSet, done: IndexSet) -> str:
    drawn = bytearray(absent.encode() * size)
    for index, sign in signs.items():
        if index < size:
            drawn[index] = ord(sign)
    for sign, settled in ((IndexSign.FAILED, failed), (IndexSign.SUCCEEDED, done)):
        for first, last in settled.intervals:
            drawn[first : last + 1] = sign.encode() * (min(last + 1, size) - first)
    return drawn.decode()


def _sign_without_pod(job: Job, pods: Sequence[Pod], unseen: int) -> IndexSign:
    """Return the character of the `unseen` indexes that have neither a pod nor an end of their own.

    Each pod that the end of a failed Job deleted counts as failed. These indexes had the deleted pods if each had one:
    all pods ran at once, or no pod was replaced; and if failed pods are deleted by no one else.
    """
    end = conditions.finished(job.status)
    if end is None or job.status.start_time is None:
        return IndexSign.NOT_STARTED
    kept = sum(pod.status.has_failed for pod in pods)
    deleted = job.status.failed - kept
    if end.type == FAILED and deleted <= 0:
        return IndexSign.NOT_STARTED
    one_each = job.spec.pods_at_once >= (job.spec.completions or 0) or job.spec.backoff_limit == 0
    keeps_failed = kept > 0 or end.reason == DEADLINE_EXCEEDED
    had_pods = end.type == FAILED and deleted >= unseen and one_each and keeps_failed
    return IndexSign.STOPPED if had_pods else IndexSign.NOT_FINISHED


def _settled(index: int, done: IndexSet, failed: IndexSet) -> IndexSign | None:
    """Return the character of an index that has succeeded or failed by the Job's status; None for any other."""
    if index in done:
        return IndexSign.SUCCEEDED
    return IndexSign.FAILED if index in failed else None


def _sign(job: Job, pods: Sequence[Pod]) -> IndexSign:
    """Return the character of an index. `pods`: the pods of the index, newest last."""
    if any(pod.status.has_succeeded for pod in pods):
        return IndexSign.SUCCEEDED
    active = [pod for pod in pods if is_active(pod)]
    if active:
        return IndexSign.RUNNING if any(map(is_ready, active)) else IndexSign.STARTING
    if conditions.finished(job.status):
        by_itself = any(pod.status.has_failed and pod.metadata.deletion_timestamp is None for pod in pods)
        return IndexSign.FAILED if by_itself else IndexSign.STOPPED
    if not pods[-1].status.has_failed:
        return IndexSign.STOPPING
    return IndexSign.IN_BACKOFF


def _row(
    job: Job,
    index: int,
    pods: Sequence[Pod],
    sign: IndexSign,
    at: datetime | None,
    options: JobControllerOptions,
    now: datetime,
) -> IndexRow:
    codes = [(pod, exit_code(pod)) for pod in pods]
    failed = [pod for pod in pods if pod.status.has_failed]
    retry = None
    if sign == IndexSign.IN_BACKOFF and works(job):
        per_index = effective(job, options.switches).spec.backoff_limit_per_index
        began = effective_start(finish_time(failed[-1]), None, now)
        retry = at if per_index is None else began + delay_of_index(job, failed[-1], options)
    return IndexRow(
        index=index,
        state=MEANING[sign],
        attempts=max(len(pods), *map(attempt_of, pods)),
        exit_codes=[code for _, code in codes if code is not None],
        last_error=next((text for pod in reversed(pods) if (text := _error(pod))), ""),
        next_retry=retry,
    )


def _error(pod: Pod) -> str:
    reason, message = trouble(pod)
    return ": ".join(part for part in (reason, message) if part)

"""Whether waitForPodsReady ends an attempt before a failed pod is replaced. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from typing import NamedTuple

from msgspec import structs

from job_controller.backoff import delay
from job_controller.model import Key
from job_controller.options import JobControllerOptions
from queue_manager.api.types import Workload
from queue_manager.lifecycle.pods_ready_timeout import pods_deadline
from queue_manager.lifecycle.unscheduled import unscheduled
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.queueing.requeue_backoff import backoff_seconds
from queue_manager.visibility.job_states import JobRow, awaits_requeue
from queue_manager.visibility.wire_types import Pod


def is_evicted_before(
    at: datetime, workload: Workload | None, pods: Sequence[Pod], settings: WorkloadSettings | None
) -> bool:
    """Whether the deadline of the attempt comes by this time, at which a failed pod would be replaced.

    Its pods cannot all be ready before that. `settings`: None if the configuration is unknown.
    """
    if workload is None or settings is None:
        return False
    deadline = pods_deadline(workload, settings, unscheduled(pods))
    return deadline is not None and deadline.at <= at


def without_vain_retries(
    rows: Sequence[JobRow], workloads: Mapping[Key, Workload], settings: WorkloadSettings, now: datetime
) -> list[JobRow]:
    """Return the rows, without the time of the next pod where an eviction comes first. `workloads`: by key of the Job.

    The end of a requeue backoff stays.
    """
    return [_without_vain_retry(row, workloads.get(Key(row.namespace, row.name)), settings, now) for row in rows]


def _without_vain_retry(row: JobRow, workload: Workload | None, settings: WorkloadSettings, now: datetime) -> JobRow:
    if row.retry_at is None or awaits_requeue(workload, now):
        return row
    is_vain = is_evicted_before(row.retry_at, workload, (), settings)
    return structs.replace(row, retry_at=None) if is_vain else row


# --- before a Job is created -------------------------------------------------------------------------------


class UnusedRetries(NamedTuple):
    """A Job that may be deactivated before it has used its retries.

    `used`: how many it has had by then. Its first attempt ends before retry `late`, which comes `after` seconds after
    the last failure, or if `since_first` after the first one; waitForPodsReady waits `patience` seconds.
    """

    used: int
    late: int
    after: float
    patience: float
    since_first: bool = False


def unused_retries(retries: int, own: PodsReadySettings | None, options: JobControllerOptions) -> UnusedRetries | None:
    """Return whether waitForPodsReady may deactivate a Job whose pods fail at once before it has had its retries.

    Whether a pod is ready before it fails decides which timeout counts; of the two the one that leaves fewer retries is
    returned. None if the Job can use them all, or is requeued without a limit.
    """
    if own is None or own.limit is None:
        return None
    found = (_play(retries, own, own.limit, options, is_ready=is_ready) for is_ready in (False, True))
    return min((one for one in found if one is not None), key=lambda one: one.used, default=None)


def _play(
    retries: int, own: PodsReadySettings, limit: int, options: JobControllerOptions, *, is_ready: bool
) -> UnusedRetries | None:
    """Play through the attempts, in seconds since the first failure; None if all retries take place."""
    first: UnusedRetries | None = None
    used, evictions, admitted, failed, lost = 0, 0, 0.0, 0.0, is_ready
    while used < retries:
        after = delay(used + 1, options.backoff_base, options.backoff_max).total_seconds()
        created = max(admitted, failed + after)
        since, patience = (failed, own.recovery_timeout or inf) if lost else (admitted, own.timeout)
        if created < since + patience:
            used, failed, lost = used + 1, created, is_ready
            continue
        shown = after if lost else created
        first = first or UnusedRetries(0, used + 1, shown, patience, since_first=not lost)
        evictions += 1
        if evictions > limit:
            return first._replace(used=used)
        admitted = since + patience + backoff_seconds(evictions, own.base, own.maximum, 0.0, own.formula)
        lost = False
    return None

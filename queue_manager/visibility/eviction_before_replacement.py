"""Whether waitForPodsReady ends an attempt before a failed pod is replaced. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import structs

from job_controller.model import Key
from queue_manager.api.types import Workload
from queue_manager.lifecycle.pods_ready_timeout import pods_deadline
from queue_manager.lifecycle.unscheduled import unscheduled
from queue_manager.lifecycle.workload_settings import WorkloadSettings
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

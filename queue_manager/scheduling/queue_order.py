"""The order of Workloads in a ClusterQueue: priority, then queue time, then creation (BEHAVIOUR.md#q7-queue-order).

Under admission fair sharing the past usage of LocalQueues comes before all of these (`queueing/pending.py`). The queue
time is the creation, or the eviction where that sends a Workload behind those that wait already.

The Workloads of several Jobs are created side by side, so not always in the order of their Jobs. So a Workload counts
from the creation of its Job, which its annotation keys.JOB_CREATED names. A Job that enters the queue long after its
creation does not gain from that: its Workload counts from its own creation.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from job_controller.annotations import integer
from job_controller.api_rules.stored_form import parse_time
from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.types import Workload

Timestamp = Literal["Eviction", "Creation"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_LAG = timedelta(minutes=1)  # between the creations of a Job and of its Workload, for the first to count


class Rank(NamedTuple):
    """Sort key of a Workload in its queue; the smallest is first. No two Workloads have equal ranks."""

    minus_priority: int
    seconds: int  # queue time, as API times in whole seconds
    arrival: int  # order of creation of Jobs within one second
    uid: str


def rank(workload: Workload, queued_at: datetime) -> Rank:
    """The place of a Workload whose queue time is `queued_at`."""
    arrival = integer(workload.metadata.annotations.get(keys.SEQUENCE, ""), bits=64) or 0
    return Rank(-(workload.spec.priority or 0), int(queued_at.timestamp()), arrival, workload.metadata.uid)


def queue_time(workload: Workload, timestamp: Timestamp = "Eviction") -> datetime:
    """The time by which the Workload is ordered: its creation (or that of its Job shortly before), or its last eviction
    by a PodsReady timeout or a check.

    A preemption keeps the creation time. Kueue: Ordering.GetQueueOrderTimestamp in pkg/workload.
    """
    evicted = workload.condition(condition_types.EVICTED)
    created = _created(workload)
    if evicted is None or not evicted.is_true or evicted.last_transition_time is None:
        return created
    if evicted.reason == reasons.ADMISSION_CHECK:
        return evicted.last_transition_time
    if evicted.reason == reasons.PODS_READY_TIMEOUT and timestamp == "Eviction":
        return evicted.last_transition_time
    return created


def _created(workload: Workload) -> datetime:
    created = workload.metadata.creation_timestamp or EPOCH
    of_job = parse_time(workload.metadata.annotations.get(keys.JOB_CREATED, ""))
    return of_job if of_job is not None and timedelta(0) <= created - of_job <= MAX_LAG else created

"""Decides which Workloads wait for quota, and converts Workloads and settings to what the queues read. Pure."""

from __future__ import annotations

import msgspec

from queue_manager.api import condition_types, keys
from queue_manager.api.types import Workload
from queue_manager.lifecycle import pods_ready_timeout
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.workload_info import Info, RequestReader, info


def configure(state: SchedulerState, queues: Queues, settings: WorkloadSettings) -> None:
    """Use these settings from now on. Workloads are not read again."""
    state.ignore_undeclared = settings.resources.ignore_undeclared
    state.fair_sharing = settings.fair_sharing
    queues.set_usage_decay(settings.usage_decay)
    state.usage_order = queues.weighted_usage if settings.usage_decay is not None else None


def waits(workload: Workload) -> bool:
    """Whether a Workload waits for quota: it is active, holds no quota, and is not gated, deleted or finished."""
    return (
        workload.spec.active
        and workload.metadata.deletion_timestamp is None
        and not workload.is_true(condition_types.FINISHED)
        and not workload.is_true(condition_types.DEACTIVATION_TARGET)
        and not workload.is_true(condition_types.QUOTA_RESERVED)
        and not workload.metadata.annotations.get(keys.ADMISSION_GATED_BY)
    )


def read(workload: Workload, settings: WorkloadSettings, reader: RequestReader) -> Info:
    """The Workload's requests, its rank, and until when it must not be admitted. `reader`: of its namespace."""
    found = info(workload, settings.timestamp, reader)
    if pods_ready_timeout.ends_instead_of_retry(workload, settings) is not None:
        return msgspec.structs.replace(found, held=True)
    return found

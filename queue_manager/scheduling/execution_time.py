"""How long a Workload may run, and until when it is not preempted.

The life cycle deactivates a Workload at the end of maximumExecutionTimeSeconds, less its past runs (KEP-3125), which
`lifecycle/transitions.py::unreserve` adds up; so backfilling may rely on it. For its minimum runtime, which an
annotation sets, an admitted Workload is no candidate for preemption (BEHAVIOUR.md#q53-minimum-runtime).
"""

from __future__ import annotations

from datetime import datetime

from job_controller.times import later
from queue_manager import durations
from queue_manager.api import condition_types, keys
from queue_manager.api.types import Workload


def longest_run(workload: Workload) -> int | None:
    """Seconds that the next or current run may last; None if the Workload declares no maximum."""
    limit = workload.spec.maximum_execution_time_seconds
    if limit is None:
        return None
    return max(0, limit - (workload.status.accumulated_past_execution_time_seconds or 0))


def execution_deadline(workload: Workload) -> datetime | None:
    """When an admitted Workload is stopped at the latest; None if it is not admitted or declares no maximum."""
    longest, start = longest_run(workload), _admitted_at(workload)
    return later(start, longest) if longest is not None and start is not None else None


def min_runtime(workload: Workload, most: float | None) -> float | None:
    """Seconds from admission for which the Workload is not preempted; None if it may be preempted at any time.

    `most`: the bound of the configuration; None: no minimum is allowed. A malformed annotation has no effect.
    """
    text = workload.metadata.annotations.get(keys.MIN_RUNTIME)
    if text is None or most is None:
        return None
    try:
        seconds = durations.parse(text).total_seconds()
    except ValueError:
        return None
    return min(seconds, most) if seconds > 0 else None


def protection_end(workload: Workload, most: float | None) -> datetime | None:
    """When an admitted Workload may be preempted at the earliest; None if it is not admitted or has no minimum."""
    shortest, start = min_runtime(workload, most), _admitted_at(workload)
    return later(start, shortest) if shortest is not None and start is not None else None


def _admitted_at(workload: Workload) -> datetime | None:
    admitted = workload.condition(condition_types.ADMITTED)
    return admitted.last_transition_time if admitted is not None and admitted.is_true else None

"""How long a Workload may run: maximumExecutionTimeSeconds, less its past runs (KEP-3125).

The life cycle deactivates a Workload at the end of this time, so backfilling may rely on it.
"""

from __future__ import annotations

from datetime import datetime

from job_controller.times import later
from queue_manager.api import condition_types
from queue_manager.api.types import Workload


def longest_run(workload: Workload) -> int | None:
    """Seconds that the next or current run may last; None if the Workload declares no maximum."""
    limit = workload.spec.maximum_execution_time_seconds
    if limit is None:
        return None
    return max(0, limit - (workload.status.accumulated_past_execution_time_seconds or 0))


def execution_deadline(workload: Workload) -> datetime | None:
    """When an admitted Workload is stopped at the latest; None if it is not admitted or declares no maximum."""
    longest, admitted = longest_run(workload), workload.condition(condition_types.ADMITTED)
    if longest is None or admitted is None or not admitted.is_true or admitted.last_transition_time is None:
        return None
    return later(admitted.last_transition_time, longest)

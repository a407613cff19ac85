"""Whether a Job can be kept from running by nodes that are too small for its pods. Pure."""

from __future__ import annotations

from queue_manager.api.types import Workload
from queue_manager.visibility.deactivated_jobs import BY_A_USER, cause
from queue_manager.visibility.job_states import AWAITS_NODE, JobState


def awaits_node(state: JobState, workload: Workload | None) -> bool:
    """Whether the Job, of which no pod runs, waits for a node. False if a user has deactivated the Job."""
    is_left_out = state == JobState.DEACTIVATED and workload is not None and cause(workload) == BY_A_USER
    return state in AWAITS_NODE and not is_left_out

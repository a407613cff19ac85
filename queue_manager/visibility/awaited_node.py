"""Whether it matters to a Job that a node is large enough for its pods. Pure."""

from __future__ import annotations

from queue_manager.api.types import Workload
from queue_manager.visibility.deactivated_jobs import BY_A_USER, cause
from queue_manager.visibility.job_states import AWAITS_NODE, JobState


def awaits_node(state: JobState, workload: Workload | None) -> bool:
    """Whether no pod of the Job runs, and no user has deactivated it, who may reactivate it however large it is."""
    is_left_out = state == JobState.DEACTIVATED and workload is not None and cause(workload) == BY_A_USER
    return state in AWAITS_NODE and not is_left_out

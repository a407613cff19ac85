"""What the Job's status reports about its pods, as the Workload needs it (`PodsReady` and `ReclaimablePods` of Kueue's
pkg/controller/jobs/job). Pure."""

from __future__ import annotations

from job_controller import conditions
from job_controller.completion_indexes import stored_completed, stored_failed
from job_controller.condition_types import SUSPENDED
from job_controller.model import Job
from queue_manager.api.types import ReclaimablePod
from queue_manager.jobs.workload_manifest import is_synchronous, pod_count
from queue_manager.lifecycle.status_draft import Draft


def is_stopped(job: Job, uses_nodes: bool = False) -> bool:
    """Whether the Job controller has confirmed the suspension and no pod is left, not even a terminating one."""
    return job.spec.suspend and conditions.is_true(job.status.conditions, SUSPENDED) and is_idle(job, uses_nodes)


def is_idle(job: Job, uses_nodes: bool = False) -> bool:
    """Whether no pod of the Job uses a node any more.

    Both the Job's status and the pods (`uses_nodes`) must agree: right after a start the status does not count the new
    pods yet, so a Job that is suspended then would appear to have none.
    """
    return job.status.active == 0 and not job.status.terminating and not uses_nodes


def are_pods_ready(job: Job) -> bool:
    """Whether all pods that should run are ready or have ended; a failed index counts as ended."""
    status = job.status
    uncounted = status.uncounted_terminated_pods
    done = status.succeeded + (len(uncounted.succeeded) if uncounted else 0) + len(stored_failed(job))
    return done + (status.ready or 0) >= pod_count(job.spec)


def reclaimable(job: Job, wanted: int) -> int:
    """How many of the `wanted` pods of the Workload the Job will not run again (KEP-78).

    The pods that are still to run are counted from the completions, not from the parallelism: after a partial admission
    the Job's parallelism, and its completions if both must be equal, are lower than the user's.
    """
    spec, status = job.spec, job.status
    done = status.succeeded
    if spec.completion_mode == "Indexed":
        done = len(stored_completed(job)) + len(stored_failed(job))
    if wanted <= 1 or done == 0:
        return 0
    total = wanted if is_synchronous(job) else spec.completions
    if total is None:
        total = spec.pods_at_once  # a work queue Job creates no pod after the first success
    return min(wanted, max(0, wanted - max(0, total - done)))


def report_reclaimable(draft: Draft, count: int) -> None:
    """Write how many pods of the Workload will not run again; their quota is released."""
    draft.put(reclaimable_pods=(ReclaimablePod(name="main", count=count),) if count else ())

"""What a Job's status says about its pods, as its Workload needs it (spec: kueue.md 7.5)."""

from __future__ import annotations

from job_controller import conditions
from job_controller.completion_indexes import stored_completed, stored_failed
from job_controller.model import Job
from job_controller.reasons import SUSPENDED
from queue_manager.jobs.workload_manifest import pod_count, synchronous


def stopped(job: Job, uses_nodes: bool = False) -> bool:
    """Suspended, confirmed by the Job controller, and no pod is left, not even a terminating one."""
    return job.spec.suspend and conditions.is_true(job.status.conditions, SUSPENDED) and idle(job, uses_nodes)


def idle(job: Job, uses_nodes: bool = False) -> bool:
    """Whether no pod of the Job uses a node any more.

    The Job's status must say so, and so must the pods (`uses_nodes`): right after a start the status does not count
    the new pods yet, and a Job that is suspended at that moment would look as if it had none.
    """
    return job.status.active == 0 and not job.status.terminating and not uses_nodes


def ready(job: Job) -> bool:
    """All pods that should run are ready or done; an index that failed for good is done as well."""
    status = job.status
    uncounted = status.uncounted_terminated_pods
    done = status.succeeded + (len(uncounted.succeeded) if uncounted else 0) + len(stored_failed(job))
    return done + (status.ready or 0) >= pod_count(job.spec)


def reclaimable(job: Job, wanted: int) -> int:
    """How many of the `wanted` pods of its Workload a Job will not run again: fewer completions are missing than that.

    Those that it will run count, not those that it may run at once: with fewer pods admitted than asked for both its
    parallelism and, where they are to be equal, its completions are less than the user's.
    """
    spec, status = job.spec, job.status
    done = status.succeeded
    if spec.completion_mode == "Indexed":
        done = len(stored_completed(job)) + len(stored_failed(job))
    if wanted <= 1 or done == 0:
        return 0
    total = wanted if synchronous(job) else spec.completions
    if total is None:
        total = spec.pods_at_once  # a work queue: no pod replaces one that has succeeded, nor joins later
    return min(wanted, max(0, wanted - max(0, total - done)))

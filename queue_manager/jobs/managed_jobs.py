"""Which Jobs the queue manages: those that name a LocalQueue, or all, in the namespaces that it manages. Pure.

A Job without a queue name that belongs to a managed Job runs when its parent may (`JobPermits.parent`). Which
namespaces are managed is decided by `WorkloadSettings.manages`. BEHAVIOUR.md#q1-managed-jobs.
"""

from __future__ import annotations


def is_queued(queue_name: str, *, manage_all: bool) -> bool:
    """Whether a Job with this queue name ("": none) is for the queue, if its namespace is managed.

    `manage_all`: manageJobsWithoutQueueName of the configuration.
    """
    return bool(queue_name) or manage_all

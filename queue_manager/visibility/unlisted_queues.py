"""ClusterQueues that a manager has from files (`--cluster-objects`): the API server does not list them.

A manager reports LocalQueues as active only if it has their ClusterQueue. One that is deleted stays listed until the
manager has removed its finalizer, and then reports its LocalQueues as inactive.
BEHAVIOUR.md#q182-answers-about-cluster-objects-from-files.
"""

from __future__ import annotations

from collections.abc import Container

from queue_manager.api import condition_types
from queue_manager.api.types import LocalQueue

UNLISTED = "quotas, classes and flavors, which the manager of this queue has from files"


def is_unlisted(queue: LocalQueue, listed: Container[str]) -> bool:
    """Whether this LocalQueue is active although its ClusterQueue is not in `listed`."""
    works = any(each.type == condition_types.ACTIVE and each.is_true for each in queue.status.conditions)
    return works and queue.spec.cluster_queue not in listed

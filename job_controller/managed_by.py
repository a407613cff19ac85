"""Which Jobs this controller handles, and which it leaves to others: spec.managedBy (KEP-4368,
BEHAVIOUR.md#b11-managed-by).
"""

from __future__ import annotations

from typing import Final, Literal

from job_controller.model import Job

BUILT_IN_MANAGER: Final = "kubernetes.io/job-controller"
OWN_MANAGER: Final = "sluice/job-controller"
Manage = Literal["All", "ManagedBy"]


def is_handled(job: Job, manage: Manage) -> bool:
    """Whether this controller is responsible for the Job, by JobControllerOptions.manage.

    "All" takes the place of the built-in controller; "ManagedBy" leaves to it all Jobs that do not name OWN_MANAGER.
    """
    manager = job.spec.managed_by
    if manage == "ManagedBy":
        return manager == OWN_MANAGER
    return manager is None or manager in (BUILT_IN_MANAGER, OWN_MANAGER)

"""What an admin can tune about the Job controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from job_controller.labels import (
    BUILT_IN_MANAGER,
    OWN_MANAGER,
    OWN_TRACKING_FINALIZER,
    TRACKING_FINALIZER,
    TRACKING_FINALIZERS,
)
from job_controller.model import Job
from job_controller.switches import ALL_ON, Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class JobControllerOptions:
    """Times are in seconds.

    manage: "All" replaces the built-in controller (embedded cluster); "ManagedBy" handles only Jobs whose
    spec.managedBy names us, beside the built-in controller.
    """

    manage: Literal["All", "ManagedBy"] = "All"
    backoff_base: float = 10.0
    backoff_max: float = 600.0
    sync_batch_period: float = 0.1
    max_uncounted: int = 500
    max_creates: int = 500
    max_deletes: int = 500
    writes_in_flight: int = 50
    concurrent_syncs: int = 20
    switches: Switches = ALL_ON

    @property
    def finalizer(self) -> str:
        """The finalizer that new pods are tracked by."""
        return TRACKING_FINALIZER if self.manage == "All" else OWN_TRACKING_FINALIZER

    @property
    def sweeps(self) -> frozenset[str]:
        """The finalizers that nobody but us takes off pods whose Job is gone."""
        return TRACKING_FINALIZERS if self.manage == "All" else frozenset((OWN_TRACKING_FINALIZER,))

    def manages(self, job: Job) -> bool:
        """Whether this controller, and no other, is responsible for the Job (spec 1.8)."""
        manager = job.spec.managed_by
        if self.manage == "ManagedBy":
            return manager == OWN_MANAGER
        return manager is None or manager in (BUILT_IN_MANAGER, OWN_MANAGER)

"""The options of the Job controller."""

from __future__ import annotations

from dataclasses import dataclass

from job_controller.labels import (
    OWN_TRACKING_FINALIZER,
    TRACKING_FINALIZER,
    TRACKING_FINALIZERS,
)
from job_controller.managed_by import Manage
from job_controller.switched_off_features import ALL_ON, Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class JobControllerOptions:
    """The options of the Job controller.

    manage              "All" replaces the built-in controller (embedded cluster); "ManagedBy" runs beside it and
                        handles only Jobs that name it (managed_by.py)
    backoff_base        seconds before the first replacement of a failed pod
    backoff_max         seconds, the longest delay
    sync_batch_period   seconds in which changes of pods are collected before a Job is synced again
    max_uncounted       finished pods (UIDs and indexes) that one status write records
    max_creates         pods created by one sync
    max_deletes         surplus pods deleted by one sync
    writes_in_flight    concurrent requests about the pods of one Job
    concurrent_syncs    Jobs synced concurrently; read by the host
    switches            features that are switched off
    """

    manage: Manage = "All"
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
        """The tracking finalizer of the pods that this controller creates or adopts."""
        return TRACKING_FINALIZER if self.manage == "All" else OWN_TRACKING_FINALIZER

    @property
    def swept_finalizers(self) -> frozenset[str]:
        """The tracking finalizers that only this controller removes from pods without a Job (orphan_finalizers.py)."""
        return TRACKING_FINALIZERS if self.manage == "All" else frozenset((OWN_TRACKING_FINALIZER,))

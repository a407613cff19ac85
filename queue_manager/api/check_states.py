"""States of an admission check in status.admissionChecks of a Workload."""

from __future__ import annotations

from enum import StrEnum


class CheckState(StrEnum):
    """The states of an admission check. An unknown state, of a later API version, stays a plain string."""

    PENDING = "Pending"  # not answered yet
    READY = "Ready"  # the Workload may start
    RETRY = "Retry"  # evict the Workload, and ask again later
    REJECTED = "Rejected"  # deactivate the Workload

"""States of an admission check in status.admissionChecks of a Workload."""

from __future__ import annotations

from enum import StrEnum


class CheckState(StrEnum):
    """The answer of an admission check. An unknown state, from a later version, is read as text."""

    PENDING = "Pending"  # not answered yet
    READY = "Ready"  # the Workload may start
    RETRY = "Retry"  # evict the Workload, and ask again later
    REJECTED = "Rejected"  # deactivate the Workload

"""AdmissionCheck in v1beta1: its retry delay has no effect."""

from __future__ import annotations

from queue_manager.api.models import admission_check as v1beta2
from queue_manager.api.models.base import Int64


class AdmissionCheckSpec(v1beta2.AdmissionCheckSpec):
    """The controller of the check, and its parameters."""

    retry_delay_minutes: Int64 = 15
    """Without effect."""


class AdmissionCheck(v1beta2.AdmissionCheck):
    """A check that a ClusterQueue can require between quota reservation and admission."""

    spec: AdmissionCheckSpec | None = None
    """The controller of the check, and its parameters."""

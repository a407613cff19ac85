"""Drops fields of Jobs whose feature the configuration disables, and returns a warning for each."""

from __future__ import annotations

from job_controller.api_rules.dropped_fields import drop
from job_controller.api_rules.field_errors import FieldError
from job_controller.switched_off_features import Switches
from queue_manager.api.api_resources import JOBS
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview


class DisabledFields:
    """Admission plugin that removes disabled fields from a created or updated Job, with one warning per field.

    It runs before defaulting, because defaults depend on such fields: with backoffLimitPerIndex, backoffLimit is
    unlimited by default.
    """

    def __init__(self, switches: Switches) -> None:
        self._switches = switches

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        """Drop the fields in place and add a warning for each. Returns None."""
        if review.resource == JOBS and not review.subresource and review.operation != "DELETE":
            dropped = drop(review.object, review.old, self._switches)
            review.warnings.extend(f"{path}: disabled in this cluster, the field is dropped" for path in dropped)
        return None

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """See `AdmissionPlugin.validate`; no error."""
        return []

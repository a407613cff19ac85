"""Warnings in the response to the creation of a Job whose fields contradict each other."""

from __future__ import annotations

from job_controller.api_rules.field_errors import FieldError
from job_controller.job_warnings import endless_indexes
from queue_manager.api.api_resources import JOBS
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview


class JobWarnings:
    """Admission rules that warn who creates a Job whose indexes are retried without end; they refuse nothing.

    The Job controller records the same as an Event: a warning is printed once.
    """

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        """See `AdmissionPlugin.mutate`; changes nothing."""
        return None

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """Add the warning for a Job that is created. Returns no errors."""
        if review.resource == JOBS and not review.subresource and review.operation == "CREATE":
            spec = review.object["spec"]
            restart_policy = spec["template"]["spec"]["restartPolicy"]
            endless = endless_indexes(spec.get("backoffLimitPerIndex"), spec.get("backoffLimit"), restart_policy)
            review.warnings.extend([endless] if endless else [])
        return []

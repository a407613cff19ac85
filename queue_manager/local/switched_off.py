"""What the API server does with fields of Jobs that the configuration switches off: it drops them, and says so."""

from __future__ import annotations

from job_controller.fields import FieldError
from job_controller.switches import Switches, drop
from queue_manager.engine.resources import JOBS
from queue_manager.local.server.admission import Review


class SwitchedOff:
    """An Admission. Before defaults, so that a field that is dropped leaves no default behind (the unlimited
    backoffLimit of a Job with backoffLimitPerIndex)."""

    def __init__(self, switches: Switches) -> None:
        self._switches = switches

    def mutate(self, review: Review) -> list[FieldError] | None:
        if review.resource == JOBS and not review.subresource and review.operation != "DELETE":
            dropped = drop(review.object, review.old, self._switches)
            review.warnings.extend(f"{path}: switched off in this cluster, the field is dropped" for path in dropped)
        return None

    def validate(self, review: Review) -> list[FieldError]:
        return []

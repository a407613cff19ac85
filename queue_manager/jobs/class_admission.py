"""The rule of the webhook for WorkloadPriorityClasses: the annotations that hold for the Jobs of a class.

The CRD has the other rules of this kind. The rule is that of Jobs, with the bounds of the configuration
(`lifecycle.overrides`). As for Jobs, an update is rejected for changed annotations only, because the bounds may have
been different before.
BEHAVIOUR.md#q148-webhook-of-priority-classes.
"""

from __future__ import annotations

from collections.abc import Callable

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import WORKLOAD_PRIORITY_CLASSES
from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.workload_settings import Bounds

WEBHOOK = "vworkloadpriorityclass.kb.io"


class PriorityClassAdmission:
    """Applies the rule to requests about WorkloadPriorityClasses; `bounds` returns those of the configuration."""

    def __init__(self, bounds: Callable[[], Bounds]) -> None:
        self._bounds = bounds

    def mutate(self, review: AdmissionReview) -> None:
        """Changes nothing."""

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """The errors for which a create or update of a class is rejected."""
        if review.resource != WORKLOAD_PRIORITY_CLASSES or review.operation not in ("CREATE", "UPDATE"):
            return []
        was = _of_class(review.old or {})
        changed = {key: text for key, text in _of_class(review.object).items() if text != was.get(key)}
        return overrides.errors(changed, self._bounds())

    def webhook(self, review: AdmissionReview) -> str:
        """The webhook's name, as error messages print it."""
        return WEBHOOK


def _of_class(tree: Json) -> dict[str, str]:
    return overrides.of_class((tree.get("metadata") or {}).get("annotations") or {})

"""The rules of Kueue's webhooks for the queue's own kinds, as admission plugins.

This is only the table of the rules of each kind; the rules are in `queue_validation`. Status writes are validated with
the whole object, because some rules relate spec and status. BEHAVIOUR.md#q33-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api import queue_validation
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from queue_manager.api.without_effect import without_effect

Prepare = Callable[[Json, Json | None], None]
Validate = Callable[[Json, Json | None], list[FieldError]]


class KindRules(NamedTuple):
    """The rules of one kind: `prepare` adds defaults, `validate` returns errors. Both take (new, old or None)."""

    validate: Validate
    prepare: Prepare | None = None
    status: bool = False  # also for writes to /status


RULES: Mapping[Resource, KindRules] = {
    WORKLOADS: KindRules(queue_validation.validate_workload, queue_validation.prepare_workload, status=True),
    CLUSTER_QUEUES: KindRules(queue_validation.validate_cluster_queue, queue_validation.prepare_cluster_queue),
    LOCAL_QUEUES: KindRules(queue_validation.validate_local_queue),
    COHORTS: KindRules(queue_validation.validate_cohort),
    ADMISSION_CHECKS: KindRules(queue_validation.validate_admission_check),
    RESOURCE_FLAVORS: KindRules(queue_validation.validate_resource_flavor, queue_validation.prepare_resource_flavor),
}


class QueueAdmission:
    """Applies the rules of each kind on creation and update."""

    def mutate(self, review: AdmissionReview) -> None:
        """Add defaults to the submitted object, in place."""
        rules = _rules(review)
        if review.resource == CLUSTER_QUEUES and not review.subresource and review.operation == "CREATE":
            review.warnings.extend(queue_validation.cluster_queue_warnings(review.object))
        if rules is not None and rules.prepare is not None:
            rules.prepare(review.object, review.old)

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """The errors of the submitted object."""
        rules = _rules(review)
        return [] if rules is None else rules.validate(review.object, review.old)

    def webhook(self, review: AdmissionReview) -> str:
        """The name of Kueue's webhook for this kind, for error messages."""
        return f"v{review.resource.kind.lower()}.kb.io"


class WithoutEffectWarnings:
    """Warns about fields that have no effect; on an update, only about those that the stored object does not set."""

    def mutate(self, review: AdmissionReview) -> None:
        """Changes nothing."""

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """Adds warnings to the review; no errors."""
        if review.operation in ("CREATE", "UPDATE") and not review.subresource:
            resource = str(review.resource)
            known = without_effect(resource, review.old) if review.old is not None else []
            review.warnings.extend(text for text in without_effect(resource, review.object) if text not in known)
        return []


def _rules(review: AdmissionReview) -> KindRules | None:
    rules = RULES.get(review.resource)
    if rules is None or review.operation not in ("CREATE", "UPDATE"):
        return None
    if review.subresource and not (rules.status and review.subresource == "status"):
        return None
    return rules

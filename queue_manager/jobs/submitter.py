"""Whose Job it is: the annotation `sluice/user`, which the webhook writes for the history. Pure.

Kubernetes keeps no creator of an object; only an admission webhook learns who asks. The embedded API server has one
user, and does not apply this rule. BEHAVIOUR.md#q117-history.
"""

from __future__ import annotations

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import JOBS
from queue_manager.jobs.managed_jobs import is_queued
from queue_manager.jobs.webhook import SubmissionContext

SERVICE_ACCOUNT = "system:serviceaccount:"


class SubmitterAdmission:
    """Annotates a new Job of the queue with the user who creates it, whatever that user wrote there.

    A service account may create Jobs for others, as controllers and pipelines do: the annotation that it sets stays.
    It comes after the rule that gives a Job the default queue.
    """

    def __init__(self, context: SubmissionContext) -> None:
        self._context = context

    def mutate(self, review: AdmissionReview) -> None:
        """Set the annotation on a Job that is created."""
        if review.resource != JOBS or review.subresource or review.operation != "CREATE" or not review.user:
            return
        meta: Json = review.object.setdefault("metadata", {})
        annotations = meta.get("annotations") or {}
        speaks_for_others = review.user.startswith(SERVICE_ACCOUNT) and annotations.get(keys.USER)
        if self._is_queued(meta) and not speaks_for_others:
            meta["annotations"] = {**annotations, keys.USER: review.user}

    def _is_queued(self, meta: Json) -> bool:
        queue = (meta.get("labels") or {}).get(keys.QUEUE_NAME, "")
        queued = is_queued(queue, manage_all=self._context.manage_all)
        return queued and self._context.managed and not self._context.owner_managed

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """Return no errors: this rule refuses no write."""
        return []

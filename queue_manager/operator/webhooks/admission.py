"""Answers what a webhook asks, with the rules of the embedded API server and the context of a real cluster."""

from __future__ import annotations

from queue_manager.api import admission_review
from queue_manager.api.admission_review import AdmissionReview, AdmissionRules
from queue_manager.api.api_resources import JOBS
from queue_manager.api.queue_admission import QueueAdmission, WithoutEffectWarnings
from queue_manager.jobs.class_admission import PriorityClassAdmission
from queue_manager.jobs.submitter import SubmitterAdmission
from queue_manager.jobs.webhook import JobAdmission, joins_queue_while_running
from queue_manager.operator.webhooks.cluster_contexts import ClusterContexts


class ClusterAdmission:
    """Raises ApiError, OSError or TimeoutError if the context of a Job cannot be read."""

    def __init__(self, contexts: ClusterContexts) -> None:
        self._contexts = contexts
        classes = PriorityClassAdmission(lambda: contexts.bounds)
        self._of_kinds: tuple[AdmissionRules, ...] = (QueueAdmission(), classes, WithoutEffectWarnings())

    async def mutate(self, review: AdmissionReview) -> bool:
        """Edit `review.object`; False if it is to be left as it was submitted."""
        return admission_review.mutate(review, await self._rules(review, with_owner=review.operation == "CREATE"))

    async def refusal(self, review: AdmissionReview) -> str:
        """All errors as one text, "" if the write is allowed."""
        return admission_review.refusal(review, await self._rules(review, with_owner=False))

    async def _rules(self, review: AdmissionReview, *, with_owner: bool) -> tuple[AdmissionRules, ...]:
        """`with_owner`: read the owner of a Job, on which only defaults depend."""
        if review.resource != JOBS:
            return self._of_kinds
        joins = joins_queue_while_running(review)
        context = await self._contexts.of(review.object, with_owner=with_owner, with_import=joins)
        return (JobAdmission(lambda _: context), SubmitterAdmission(context), WithoutEffectWarnings())

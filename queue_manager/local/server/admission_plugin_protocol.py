"""The interface of admission plugins, which the API server runs on each write between decoding and storing.

`writing` runs them, `local_cluster` lists them; no webhooks are called. The order is that of a Kubernetes API server:
all `mutate`, then defaults and validation of the kind, then all `validate`. Plugins see every write, including those to
subresources and dry runs.
"""

from __future__ import annotations

from typing import Protocol

from job_controller.api_rules.field_errors import FieldError
from queue_manager.api.admission_review import AdmissionReview

__all__ = ["AdmissionPlugin", "AdmissionReview"]


class AdmissionPlugin(Protocol):
    """A set of admission rules. Returned errors reject the request with 422; StatusError gives other codes.

    A plugin that stands for a webhook also has a method `webhook(review) -> str` that returns the webhook's name.
    Errors of its `validate` then reject the request with 403 and the text that an API server uses for webhooks.
    """

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        """May edit `review.object` in place."""
        ...

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """Return the errors of `review.object`, which has its defaults. May add to `review.warnings`."""
        ...

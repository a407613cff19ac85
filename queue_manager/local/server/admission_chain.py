"""Admission: rules about requests, run by the API server between decoding and storing.

The order is that of a Kubernetes API server: all `mutate`, then defaults and validation of the kind, then all
`validate`. Admission sees every write, also those to subresources and dry runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api.resources import Resource


@dataclass(slots=True)
class AdmissionReview:
    """One write to be judged. `object` is the object as it would be stored (on DELETE: as it is)."""

    operation: Literal["CREATE", "UPDATE", "DELETE"]
    resource: Resource
    subresource: str
    object: Json
    old: Json | None
    user: str
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


class AdmissionPlugin(Protocol):
    """A set of rules. Errors refuse the request with 422; raise StatusError for any other answer.

    One that stands for a webhook has a method `webhook(review) -> str` with its name too: then errors of
    `validate` refuse with 403, in the words that an API server uses for its webhooks.
    """

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        """May edit `review.object` in place."""
        ...

    def validate(self, review: AdmissionReview) -> list[FieldError]: ...

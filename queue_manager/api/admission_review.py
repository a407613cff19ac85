"""The review of one write by admission rules. Pure.

An API server asks twice about a write: first the mutating rules, which may edit the object, and, once the object has
its defaults and fits its schema, the validating rules. Both are asked of the same plugins, on the embedded API server
(`local.server.admission_plugin_protocol`) and, for a real one, by webhooks (`operator.webhooks`).

All errors of an object are reported, not the first one. The messages are those of Kueue's webhooks: an API server puts
`admission webhook "vjob.kb.io" denied the request: ` in front of `refusal`. BEHAVIOUR.md#q70-admission-webhooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from job_controller.api_rules.field_errors import FieldError, sentence
from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.api.keys import GROUP

# What a rule raises that reads an object of another shape than its schema allows.
UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError)


@dataclass(slots=True)
class AdmissionReview:
    """One write under review. `object` is the object as it would be stored; on DELETE, as it is stored now."""

    operation: Literal["CREATE", "UPDATE", "DELETE"]
    resource: Resource
    subresource: str
    object: Json
    old: Json | None
    user: str
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


class AdmissionRules(Protocol):
    """A set of rules: `JobAdmission`, `QueueAdmission`, `WithoutEffectWarnings`."""

    def mutate(self, review: AdmissionReview) -> None:
        """Edit `review.object` in place."""
        ...

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """Return all errors of the object; add warnings to the review."""
        ...


def mutate(review: AdmissionReview, rules: Iterable[AdmissionRules]) -> bool:
    """Edit `review.object` in place; False if it cannot be read, and is to be left as it was submitted.

    A webhook for custom resources is asked before the API server checks the object's schema. The API server then
    rejects such an object itself, and names the field. A Job is decoded before the webhook is asked, so what a rule
    raises about a Job is a mistake of the rule.
    """
    try:
        for rule in rules:
            rule.mutate(review)
    except UNREADABLE:
        if review.resource.group != GROUP:
            raise
        return False
    return True


def refusal(review: AdmissionReview, rules: Sequence[AdmissionRules]) -> str:
    """All errors of the write, as one text; "" if it is allowed. Adds warnings to the review."""
    errors = [error for rule in rules for error in rule.validate(review)]
    return sentence(errors) if errors else ""

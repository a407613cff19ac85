"""To which LocalQueue `sluice import` brings a Job: rules in the form of Kueue's importer, the first match decides.

    - match: {labels: {team: a}, priorityClassName: high}
      toLocalQueue: team-a
    - match: {labels: {team: b}}
      skip: true

Kueue matches the labels of pods. Sluice matches the labels of the Job's pod template, and for a label that this lacks
the label of the Job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Job


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a Job must have: all of these labels, and this PriorityClass of its pods unless it is empty."""

    labels: dict[str, str] = {}
    priority_class_name: str = ""


class QueueRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which queue matching Jobs get; with `skip` they stay outside of every queue."""

    match: Match = Match()
    to_local_queue: str = ""
    skip: bool = False


class MappingError(Exception):
    """A rule of a mapping is malformed; the text says which and why."""


def rules_from(tree: Json) -> list[QueueRule]:
    """Return the rules of a mapping file. Raises MappingError."""
    if not isinstance(tree, list):
        raise MappingError("is not a list of rules")
    try:
        rules = msgspec.convert(tree, list[QueueRule])
    except msgspec.ValidationError as error:
        raise MappingError(str(error)) from error
    for number, rule in enumerate(rules, 1):
        if bool(rule.to_local_queue) == rule.skip:
            raise MappingError(f"rule {number} needs either toLocalQueue or skip: true")
    return rules


def rules_of_label(label: str, queues: Mapping[str, str]) -> list[QueueRule]:
    """Return a rule for each value of a label."""
    return [QueueRule(Match({label: value}), queue) for value, queue in queues.items()]


def rule_for(job: Job, rules: Sequence[QueueRule]) -> QueueRule | None:
    """Return the first rule that matches; None if none does."""
    template = job.spec.template
    labels = {**job.metadata.labels, **((template.get("metadata") or {}).get("labels") or {})}
    priority_class = (template.get("spec") or {}).get("priorityClassName") or ""
    return next((rule for rule in rules if _matches(rule.match, labels, priority_class)), None)


def _matches(match: Match, labels: Mapping[str, str], priority_class: str) -> bool:
    if match.priority_class_name not in ("", priority_class):
        return False
    return all(labels.get(name) == value for name, value in match.labels.items())

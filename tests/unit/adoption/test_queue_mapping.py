"""Which queue a Job is imported to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.adoption.queue_mapping import MappingError, rule_for, rules_from, rules_of_label

RULES = rules_from(
    [
        {"match": {"labels": {"team": "a", "kind": "test"}}, "skip": True},
        {"match": {"labels": {"team": "a"}, "priorityClassName": "high"}, "toLocalQueue": "fast"},
        {"match": {"labels": {"team": "a"}}, "toLocalQueue": "slow"},
    ]
)


def job(labels: dict[str, str], pod_labels: dict[str, str] | None = None, priority_class: str = "") -> Job:
    template = {"metadata": {"labels": pod_labels or {}}, "spec": {"priorityClassName": priority_class}}
    return msgspec.convert({"metadata": {"name": "j", "labels": labels}, "spec": {"template": template}}, Job)


@pytest.mark.parametrize(
    ("given", "queue"),
    [
        (job({"team": "a", "kind": "test"}), ""),
        (job({"team": "a"}, priority_class="high"), "fast"),
        (job({"team": "a"}, priority_class="low"), "slow"),
        (job({}, {"team": "a"}), "slow"),
        (job({"team": "a"}, {"team": "b"}), None),
        (job({}), None),
    ],
)
def test_the_first_rule_that_matches_decides(given: Job, queue: str | None) -> None:
    rule = rule_for(given, RULES)
    assert (rule.to_local_queue if rule is not None else None) == queue


def test_values_of_one_label_name_queues() -> None:
    rules = rules_of_label("team", {"a": "first", "b": "second"})
    chosen = [rule_for(job({"team": team}), rules) for team in ("a", "b", "c")]
    assert [rule.to_local_queue if rule is not None else None for rule in chosen] == ["first", "second", None]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"match": {}}, "is not a list of rules"),
        ([{"match": {"label": {}}, "skip": True}], "Object contains unknown field `label` - at `$[0].match`"),
        ([{"toLocalQueue": 5}], "Expected `str`, got `int` - at `$[0].toLocalQueue`"),
        ([{"skip": True}, {"match": {}}], "rule 2 needs either toLocalQueue or skip: true"),
        ([{"toLocalQueue": "q", "skip": True}], "rule 1 needs either toLocalQueue or skip: true"),
    ],
)
def test_a_mistake_in_the_rules_is_named(tree: Any, message: str) -> None:
    with pytest.raises(MappingError) as caught:
        rules_from(tree)
    assert str(caught.value) == message

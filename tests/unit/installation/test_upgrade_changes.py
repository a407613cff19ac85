"""What `sluice upgrade --check` says of the difference between two versions of an object."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.installation.upgrade_changes import changes


def hooks(*items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {}, "webhooks": list(items)}


JOBS, QUEUES = {"name": "jobs", "timeoutSeconds": 5}, {"name": "queues", "timeoutSeconds": 5}


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        ((JOBS, QUEUES), (QUEUES, JOBS), []),
        ((JOBS, QUEUES), (QUEUES,), ['webhooks[jobs] removed: {"name": "jobs", "timeoutSeconds": 5}']),
        ((QUEUES,), (JOBS, QUEUES), ['webhooks[jobs] added: {"name": "jobs", "timeoutSeconds": 5}']),
        ((JOBS, QUEUES), (QUEUES, JOBS | {"timeoutSeconds": 3}), ["webhooks[jobs].timeoutSeconds: 5 → 3"]),
    ],
)
def test_items_with_names_are_compared_by_name(
    live: tuple[dict[str, Any]], applied: tuple[dict[str, Any]], expected: list[str]
) -> None:
    assert [str(change) for change in changes(hooks(*live), hooks(*applied))] == expected


def test_items_without_distinct_names_are_compared_by_position() -> None:
    live, applied = {"metadata": {}, "rules": [{"verbs": ["get"]}]}, {"metadata": {}, "rules": [{"verbs": ["list"]}]}

    assert [str(change) for change in changes(live, applied)] == ['rules[0].verbs[0]: "get" → "list"']

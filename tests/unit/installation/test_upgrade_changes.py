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


LONG = "--a-flag-of-the-manager=" + ",".join(f"queue_manager.module{i}=debug" for i in range(9))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (["a", "b", "d"], ["a", "c", "d"], ['args[1]: "b" → "c"']),
        (["a", "b", "d"], ["a", "d"], ['args removed: "b"']),
        (["a", "d"], ["a", "b", "c", "d"], ['args added: "b"', 'args added: "c"']),
    ],
)
def test_what_differs_in_lists_of_arguments_is_shown(old: list[str], new: list[str], expected: list[str]) -> None:
    assert [str(change) for change in changes({"metadata": {}, "args": old}, {"metadata": {}, "args": new})] == expected


def test_long_values_are_cut_around_their_difference() -> None:
    old, new = f"{LONG},first=info,{LONG}", f"{LONG},second=info,{LONG}"
    [change] = changes({"metadata": {}, "text": old}, {"metadata": {}, "text": new})
    before, _, after = str(change).removeprefix("text: ").partition(" → ")
    assert (before[:21], before[-1]) == ("…le8=debug,first=info", "…")
    assert (after[:22], after[-1]) == ("…le8=debug,second=info", "…")
    assert {len(before), len(after)} == {60}


def test_the_end_of_a_long_value_is_shown_if_that_differs() -> None:
    [change] = changes({"metadata": {}, "text": f"{LONG}-old"}, {"metadata": {}, "text": LONG})
    before, _, after = str(change).removeprefix("text: ").partition(" → ")
    assert (before[0], before[-10:]) == ("…", 'debug-old"')
    assert (after[0], after[-7:]) == ("…", '=debug"')

"""The annotation of client-side kubectl apply stays correct under --server-side, so that users can switch back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.local.apply.cases import JSON, MAPS, config_map
from tests.local.apply.servers import APPLY, Embedded

Json = Any
LAST = "kubectl.kubernetes.io/last-applied-configuration"
FORMER = json.dumps(config_map({"a": "1"}))


def annotations_after(manager: str, **before: str) -> dict[str, str]:
    """The annotations of an object with `before` after a server-side apply of other data."""
    embedded = Embedded()
    made, _ = embedded.ask("POST", MAPS, config_map({"a": "1"}, annotations=before), JSON)
    query = f"{MAPS}/a?fieldManager={manager}&force=true"
    status, answer = embedded.ask("PATCH", query, config_map({"a": "2"}), APPLY)
    embedded.close()
    assert (made, status) == (201, 200)
    return dict(answer["metadata"].get("annotations") or {})


def test_an_apply_by_kubectl_updates_its_annotation() -> None:
    after = annotations_after("kubectl", **{LAST: FORMER, "team": "x"})
    assert after.keys() == {LAST, "team"}
    assert json.loads(after[LAST]) == config_map({"a": "2"})
    assert after[LAST].endswith("\n")  # as kubectl writes it


@pytest.mark.parametrize(
    ("manager", "before"), [("another", {LAST: FORMER}), ("kubectl", {"team": "x"}), ("kubectl", {LAST: ""})]
)
def test_an_apply_by_others_leaves_the_annotation_alone(manager: str, before: dict[str, str]) -> None:
    assert annotations_after(manager, **before) == before

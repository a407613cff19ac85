"""A conversion to the other version and back loses nothing. queue_manager/BEHAVIOUR.md#q75-two-versions."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.conversion import FACETS, convert
from tests.unit.api import golden
from tests.unit.api.conversion.schema_objects import objects

TRACES = Path(__file__).parents[3] / "golden" / "kueue" / "traces"
KINDS = sorted(FACETS)
DIFFERENT = [kind for kind in KINDS if FACETS[kind]]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "Borrow"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "values", "a"]), inner),
    max_leaves=6,
)


def converted(obj: Json) -> Json:
    """The object in the other version."""
    return convert(obj, keys.V1BETA1 if obj["apiVersion"] == keys.API_VERSION else keys.API_VERSION)


def there_and_back(obj: Json) -> Json:
    return converted(converted(obj))


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_loses_nothing(kind: str, version: str) -> None:
    """On the way, only annotations of the metadata change, and the original is not changed."""

    @settings(max_examples=60 if FACETS[kind] else 5)
    @given(objects(kind, version))
    def check(obj: Json) -> None:
        before = copy.deepcopy(obj)
        assert there_and_back(obj) == before
        assert obj == before
        meta = converted(obj)["metadata"]
        assert {**meta, "annotations": None} == {**obj["metadata"], "annotations": None}

    check()


@pytest.mark.parametrize("kind", DIFFERENT)
def test_an_invalid_object_is_converted_without_error_and_back(kind: str) -> None:
    """Admission webhooks see objects before validation, and what they change is converted back."""
    facets = FACETS[kind]

    @settings(max_examples=60)
    @given(st.data())
    def check(data: Any) -> None:
        obj: Json = {"apiVersion": keys.V1BETA1, "kind": kind, "metadata": {"name": "x"}}
        for facet in facets:
            if all(not step.endswith("[]") for step in facet.parent):
                parent = obj
                for step in facet.parent:
                    parent = parent.setdefault(step, {})
                parent |= {name: data.draw(ANY) for name in facet.v1beta1}
        assert there_and_back(obj) == obj

    check()


@settings(max_examples=60)
@given(objects("Workload", "v1beta2"), st.sampled_from(["team-a", "team-b"]))
def test_a_change_of_other_fields_in_v1beta1_keeps_what_only_v1beta2_has(obj: Json, team: str) -> None:
    old = convert(obj, keys.V1BETA1)
    old["metadata"]["labels"] = {"team": team}
    old["spec"]["priority"] = 7
    expected = copy.deepcopy(obj)
    expected["metadata"]["labels"] = {"team": team}
    expected["spec"]["priority"] = 7
    assert convert(old, keys.API_VERSION) == expected


def recorded(tree: Json) -> Iterator[Json]:
    """The queue's objects anywhere in a recording."""
    if isinstance(tree, dict):
        if tree.get("kind") in FACETS and isinstance(tree.get("metadata"), dict):
            yield {"apiVersion": keys.API_VERSION, **tree}
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from recorded(item)


def test_recorded_objects_survive_round_trips() -> None:
    """Those that the real manager was given, and those that its webhooks accepted."""
    found = [obj for path in sorted(TRACES.glob("*.json")) for obj in recorded(json.loads(path.read_text()))]
    for record, new, _ in (step for step in golden.STEPS if step[0].get("accepted")):
        found.append({**new, "apiVersion": keys.API_VERSION, "kind": golden.kind_of(record)})
    assert len(found) > 150
    for obj in found:
        assert there_and_back(convert(obj, keys.V1BETA1)) == convert(obj, keys.V1BETA1)

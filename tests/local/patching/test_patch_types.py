"""Patches: RFC 6902, RFC 7386 and strategic merge, with results and errors recorded from a real API server."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_manager.engine.transport_protocol import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.patching import patch_types
from queue_manager.local.status_errors import StatusError
from tests.local.kinds.crd import THINGS

REGISTRY = KindRegistry.builtin()
JOB = REGISTRY.find("batch", "v1", "jobs")
POD = REGISTRY.find("", "v1", "pods")
assert JOB is not None
assert POD is not None

POD_OBJECT: Any = {
    "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x/a", "x/b", "x/c"]},
    "spec": {
        "containers": [{"name": n, "image": "i", "env": [{"name": e, "value": e} for e in "ABC"]} for n in "xyz"],
        "volumes": [{"name": "v1", "emptyDir": {}}],
        "tolerations": [{"key": "k"}],
        "nodeSelector": {"a": "b"},
        "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a", "b"]}],
    },
}


def strategic(patch: Any) -> Any:
    return patch_types.apply_patch(POD, STRATEGIC_PATCH, copy.deepcopy(POD_OBJECT), json.dumps(patch).encode())


def names(tree: Any, field: str = "containers") -> str:
    return "".join(item["name"] for item in tree["spec"][field])


# Patch of spec -> names of the containers afterwards, in order, as on the real server.
CONTAINERS = [
    ({"containers": [{"name": "y", "image": "new"}]}, "xyz"),
    ({"containers": [{"name": "w", "image": "new"}]}, "wxyz"),
    ({"containers": [{"name": "w", "image": "new"}, {"name": "x", "image": "n"}]}, "wxyz"),
    ({"containers": [{"name": "y", "$patch": "delete"}]}, "xz"),
    ({"containers": [{"$patch": "replace"}, {"name": "q", "image": "q"}]}, "q"),
    ({"$setElementOrder/containers": [{"name": "z"}, {"name": "x"}, {"name": "y"}]}, "zxy"),
    ({"$patch": "replace", "containers": [{"name": "o", "image": "o"}]}, "o"),
    ({"$retainKeys": ["containers"], "containers": []}, "xyz"),
]


@pytest.mark.parametrize(("spec", "left"), CONTAINERS)
def test_lists_are_merged_by_key_and_ordered_as_asked(spec: Any, left: str) -> None:
    assert names(strategic({"spec": spec})) == left


def test_items_are_merged_into_the_item_of_their_key() -> None:
    patch = {
        "name": "x",
        "env": [{"name": "B", "$patch": "delete"}, {"name": "D", "value": "d"}, {"name": "A", "value": "9"}],
    }
    env = strategic({"spec": {"containers": [patch]}})["spec"]["containers"][0]["env"]
    assert {item["name"]: item["value"] for item in env} == {"A": "9", "C": "C", "D": "d"}


FINALIZERS = [
    ({"finalizers": ["x/d", "x/a"]}, ["x/d", "x/a", "x/b", "x/c"]),
    ({"$deleteFromPrimitiveList/finalizers": ["x/b"]}, ["x/a", "x/c"]),
    (
        {"$setElementOrder/finalizers": ["x/c", "x/a"], "$deleteFromPrimitiveList/finalizers": ["x/b"]},
        ["x/c", "x/a"],
    ),
]


@pytest.mark.parametrize(("meta", "left"), FINALIZERS)
def test_lists_of_plain_values_are_sets(meta: Any, left: list[str]) -> None:
    assert strategic({"metadata": meta})["metadata"]["finalizers"] == left


MAPS = [
    ({"labels": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
    ({"labels": {"$patch": "replace", "z": "1"}}, {"z": "1"}),
    ({"labels": {"$patch": "delete"}}, {}),
    ({"labels": None}, None),
]


@pytest.mark.parametrize(("meta", "left"), MAPS)
def test_maps_are_merged_replaced_or_emptied(meta: Any, left: Any) -> None:
    assert strategic({"metadata": meta})["metadata"].get("labels") == left


def test_retained_keys_make_a_union_change_its_member() -> None:
    volume = {"name": "v1", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    assert strategic({"spec": {"volumes": [volume]}})["spec"]["volumes"] == [{"name": "v1", "hostPath": {"path": "/x"}}]


def test_atomic_lists_are_replaced() -> None:
    assert strategic({"spec": {"tolerations": [{"key": "z"}]}})["spec"]["tolerations"] == [{"key": "z"}]


CONTRADICTIONS = [
    ({"spec": {"containers": [{"image": "z"}]}}, "map: map[image:z] does not contain declared merge key: name"),
    (
        {"spec": {"containers": [{"name": "x", "$patch": "bad"}]}},
        "unknown patch type: bad in map: map[$patch:bad name:x]",
    ),
    ({"spec": {"$patch": "foo"}}, "unknown patch type: foo in map: map[$patch:foo]"),
    ({"spec": {"$setElementOrder/containers": "x"}}, "expected a []interface {}, but received a string"),
    (
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "q", "image": "i"}]}},
        "The order in patch list:\n[map[image:i name:q]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    ),
    (
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "x"}, {"name": "y"}],
                "containers": [{"name": n} for n in "yx"],
            }
        },
        "The order in patch list:\n[map[name:y] map[name:x]]\n doesn't match $setElementOrder list:\n"
        "[map[name:x] map[name:y]]\n",
    ),
    (
        {"spec": {"containers": [{"name": "x", "$patch": "merge"}]}},
        "merging lists cannot yet be specified in the patch",
    ),
]


@pytest.mark.parametrize(("patch", "message"), CONTRADICTIONS)
def test_a_patch_that_contradicts_itself_is_refused(patch: Any, message: str) -> None:
    with pytest.raises(StatusError) as error:
        strategic(patch)
    assert (error.value.code, error.value.message) == (500, message)


@pytest.mark.parametrize("meta", [{"$retainKeys": "labels"}, {"$retainKeys": ["name"], "labels": {}}])
def test_keys_are_retained_by_name_and_all_that_the_patch_sets(meta: Any) -> None:
    with pytest.raises(StatusError) as error:
        strategic({"metadata": meta})
    assert (error.value.code, error.value.message) == (400, "invalid patch format of retainKeys")


# --- JSON patch ----------------------------------------------------------------------------------------------


def json_patch(tree: Any, *operations: Any) -> Any:
    return patch_types.apply_patch(JOB, JSON_PATCH, copy.deepcopy(tree), json.dumps(operations).encode())


OPERATIONS = [
    ([{"op": "add", "path": "/l/1", "value": 9}], {"l": [1, 9, 2], "m": {"a/b": 1}}),
    ([{"op": "add", "path": "/l/-", "value": 9}], {"l": [1, 2, 9], "m": {"a/b": 1}}),
    ([{"op": "add", "path": "/l/-1", "value": 9}], {"l": [1, 2, 9], "m": {"a/b": 1}}),
    ([{"op": "remove", "path": "/l/0"}], {"l": [2], "m": {"a/b": 1}}),
    ([{"op": "replace", "path": "/m/a~1b", "value": 3}], {"l": [1, 2], "m": {"a/b": 3}}),
    ([{"op": "move", "from": "/m/a~1b", "path": "/x"}], {"l": [1, 2], "m": {}, "x": 1}),
    ([{"op": "copy", "from": "/l", "path": "/m/c"}], {"l": [1, 2], "m": {"a/b": 1, "c": [1, 2]}}),
    ([{"op": "test", "path": "/l/0", "value": 1}], {"l": [1, 2], "m": {"a/b": 1}}),
    ([{"op": "test", "path": "/none", "value": None}], {"l": [1, 2], "m": {"a/b": 1}}),
    ([{"op": "test", "path": "/l", "value": [1, 2]}], {"l": [1, 2], "m": {"a/b": 1}}),
    ([{"op": "test", "path": "/m", "value": {"a/b": 1}}], {"l": [1, 2], "m": {"a/b": 1}}),
    ([{"op": "test", "path": "", "value": {"l": [1, 2], "m": {"a/b": 1}}}], {"l": [1, 2], "m": {"a/b": 1}}),
    ([{"op": "replace", "path": "/l/1", "value": 9}], {"l": [1, 9], "m": {"a/b": 1}}),
    ([{"op": "replace", "path": "", "value": {"n": 1}}], {"n": 1}),
]


@pytest.mark.parametrize(("operations", "after"), OPERATIONS)
def test_operations_change_the_tree(operations: list[Any], after: Any) -> None:
    assert json_patch({"l": [1, 2], "m": {"a/b": 1}}, *operations) == after


REJECTED: list[Any] = [
    {},
    {"op": "foo", "path": "/a"},
    {"op": "add", "path": "a", "value": 1},
    {"op": "add", "path": "/x/y", "value": 1},
    {"op": "remove", "path": "/x"},
    {"op": "test", "path": "/l/0", "value": True},
    {"op": "test", "path": "/l/0", "value": 1.0},
    {"op": "add", "path": "/l/5", "value": 1},
    {"op": "add", "path": "/l/x", "value": 1},
    {"op": "remove", "path": "/l/-"},
    {"op": "remove", "path": ""},
    {"op": "move", "from": "/x", "path": "/y"},
    {"op": "test", "path": "/l", "value": [1]},
    {"op": "test", "path": "/l", "value": [1, 2, 3]},
    {"op": "test", "path": "/l", "value": [1, 3]},
    {"op": "test", "path": "", "value": {}},
    {"op": "test", "path": "", "value": {"l": [1, 3]}},
    {"op": "replace", "path": "/l/2", "value": 1},
    {"op": "remove", "path": "/l/-3"},
    {"op": "copy", "from": "/x/y", "path": "/y"},
]


@pytest.mark.parametrize("operation", REJECTED, ids=json.dumps)
def test_an_operation_that_does_not_apply_is_422(operation: Any) -> None:
    with pytest.raises(StatusError) as error:
        json_patch({"l": [1, 2]}, operation)
    message = "the server rejected our request due to an error in our request"
    assert (error.value.code, error.value.reason, error.value.message) == (422, "Invalid", message)


def test_the_number_of_operations_is_bounded() -> None:
    with pytest.raises(StatusError) as error:
        json_patch({}, *[{"op": "test", "path": "/a", "value": None}] * 10_001)
    assert error.value.code == 413
    assert error.value.message.endswith("The allowed maximum operations in a JSON patch is 10000, got 10001")


def test_copies_cannot_grow_an_object_without_bound() -> None:
    doubling = [{"op": "copy", "from": "/l", "path": "/l/-"}] * 60
    with pytest.raises(StatusError) as error:
        json_patch({"l": ["x" * 1000]}, *doubling)
    assert error.value.code == 422


def test_copies_cannot_nest_an_object_without_bound() -> None:
    nesting = [{"op": "move", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a", "value": {}}]
    nesting.append({"op": "move", "from": "/b", "path": "/a/a"})
    with pytest.raises(StatusError):
        json_patch({"a": {}}, *nesting * 120)


# --- merge patch and the rest --------------------------------------------------------------------------------

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("abc", max_size=2), below, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=2), TREES, max_size=3)


def rfc_7386(target: Any, patch: Any) -> Any:
    """The pseudocode of the RFC."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = rfc_7386(result.get(name), value)
    return result


@given(OBJECTS, OBJECTS)
def test_merge_patches_follow_the_rfc(tree: Any, patch: Any) -> None:
    expected = rfc_7386(copy.deepcopy(tree), patch)
    assert patch_types.apply_patch(JOB, MERGE_PATCH, tree, json.dumps(patch).encode()) == expected


MALFORMED = [
    (MERGE_PATCH, b"{", "error decoding patch: unexpected end of JSON input"),
    (
        MERGE_PATCH,
        b"[]",
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
    ),
    (MERGE_PATCH, b"null", "Invalid JSON Patch"),
    (
        JSON_PATCH,
        b"{}",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    ),
    (
        JSON_PATCH,
        b"[1]",
        "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
    ),
    (STRATEGIC_PATCH, b"{", "unexpected end of JSON input"),
    (STRATEGIC_PATCH, b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
]


@pytest.mark.parametrize(("media", "body", "message"), MALFORMED)
def test_a_malformed_patch_is_400(media: str, body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as error:
        patch_types.apply_patch(JOB, media, {}, body)
    assert (error.value.code, error.value.message) == (400, message)


def test_custom_kinds_have_no_strategic_patch() -> None:
    with pytest.raises(StatusError) as error:
        patch_types.apply_patch(REGISTRY.install(THINGS)[0], STRATEGIC_PATCH, {}, b"{}")
    assert error.value.code == 415
    assert error.value.message.endswith(f"accepted media types include: {JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}")


@pytest.mark.parametrize("media", [MERGE_PATCH, STRATEGIC_PATCH])
def test_the_last_of_repeated_names_in_a_patch_counts(media: str) -> None:
    body = b'{"spec":{"parallelism":1,"parallelism":2}}'
    patched = patch_types.apply_patch(JOB, media, {"spec": {"suspend": True}}, body)
    assert patched == {"spec": {"suspend": True, "parallelism": 2}}

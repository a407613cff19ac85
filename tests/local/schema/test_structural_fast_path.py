"""The fast path accepts no value that the full walks would change or refuse."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_manager.local.schema.builtin_types import Shape
from queue_manager.local.schema.json_parsing import parse_json
from queue_manager.local.schema.strict_decoding import TypedSchema, Undecodable, Walk
from queue_manager.local.schema.structural_fast_path import Fit
from queue_manager.local.schema.structural_schemas import CompiledSchema

ROOT = Path(__file__).parents[3]
DEFINITION = yaml.safe_load((ROOT / "config/crds/kueue.x-k8s.io_workloads.yaml").read_text())
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]

POD_SET = {"name": "main", "count": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
SPEC = {"podSets": [POD_SET], "queueName": "lq", "active": True, "priority": 0}
CONDITION = {
    "type": "Evicted",
    "status": "True",
    "reason": "PodsReadyTimeout",
    "message": "é",
    "lastTransitionTime": "2026-01-31T23:59:59Z",
    "observedGeneration": 1,
}
STATUS = {
    "conditions": [CONDITION, {**CONDITION, "type": "QuotaReserved"}],
    "admission": {
        "clusterQueue": "cq",
        "podSetAssignments": [
            {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2", "memory": 5}, "count": 3}
        ],
    },
    "requeueState": {"count": 1, "requeueAt": "2026-02-28T00:00:00Z"},
}


def untouched(schema: Any, value: Any) -> bool:
    """Whether the walks leave a value as it is and find no error."""
    node, tree, unknown = CompiledSchema(schema), copy.deepcopy(value), []
    node.prune(tree, "", unknown)
    node.fill(tree)
    return not unknown and tree == value and not [*node.validate(tree), *node.repeated(tree)]


@pytest.mark.parametrize(("part", "value"), [("spec", SPEC), ("status", STATUS)])
def test_common_values_take_the_fast_path(part: str, value: Any) -> None:
    node = CompiledSchema(SCHEMA[part])
    node.fill(value)
    assert untouched(SCHEMA[part], value)
    assert Fit(SCHEMA[part])(value)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in below for place in places(item, (*path, key)))]


SCALARS: list[Any] = [None, True, False, 0, 1, -1, 2**31, 2**63, 1.0, 0.5, "", "a", "A b", "x" * 70000, "True", "1Gi"]
TIMES = ["2026-02-29T00:00:00Z", "2026-01-01t00:00:00z", "2026-01-01T00:00:00+01:00", "0000-01-01T00:00:00Z", "today"]
VALUES = [*SCALARS, *TIMES, [], {}, [None], [{}], {"a": None}, ["a", "a"], [CONDITION, CONDITION]]
FIELDS = ("unknown", "clusterName", "minCount", "conditions", "count")


def altered(value: Any, path: tuple[Any, ...]) -> Iterator[Any]:
    """Variants of the value: what is at the path is replaced, removed or doubled, or a field is added."""

    def at_path() -> tuple[Any, Any, Any]:
        tree = copy.deepcopy(value)
        holder = tree
        for key in path[:-1]:
            holder = holder[key]
        return tree, holder, path[-1]

    tree, holder, last = at_path()
    del holder[last]
    yield tree
    for other in VALUES:
        tree, holder, last = at_path()
        holder[last] = other
        yield tree
    tree, holder, last = at_path()
    if isinstance(holder, list):
        holder.append(holder[last])
        yield tree
    if isinstance(holder[last], dict):
        for field, other in product(FIELDS, VALUES):
            tree, holder, last = at_path()
            holder[last][field] = other
            yield tree


@pytest.mark.parametrize(("part", "value"), [("spec", SPEC), ("status", STATUS)])
def test_the_fast_path_accepts_only_what_the_walks_leave_alone(part: str, value: Any) -> None:
    node, fit = CompiledSchema(SCHEMA[part]), Fit(SCHEMA[part])
    node.fill(value)
    others = [other for path in places(value)[1:] for other in altered(value, path)]
    taken = [other for other in others if fit(other)]
    assert [other for other in taken if not untouched(SCHEMA[part], other)] == []
    assert 0 < len(taken) < len(others)


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "fitting", "others"),
    [
        (TEXT, ["", "a"], [1, None, [], True]),
        ({**TEXT, "nullable": True}, ["a", None], [1]),
        ({**TEXT, "maxLength": 2, "minLength": 1}, ["é€"], ["", "abc"]),
        ({**TEXT, "pattern": "b"}, ["abc"], ["ac"]),
        ({**TEXT, "enum": ["a"]}, ["a"], ["b", None]),
        ({**TEXT, "format": "date-time"}, ["2026-12-31T00:00:00Z"], ["2026-12-31", "2026-04-31T00:00:00Z"]),
        ({**TEXT, "format": "cidr"}, [], ["10.0.0.0/8"]),
        ({"type": "integer", "format": "int32"}, [2**31 - 1, -(2**31)], [2**31, 1.0, True, "1"]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({"type": "number"}, [], [1, 0.5]),
        ({"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"}, [1, "12"], ["x", 0.5, None]),
        ({"type": "array", "items": TEXT, "maxItems": 1}, [[], ["a"]], [["a", "b"], [1], {}]),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, [["a", "b"]], [["a", "a"]]),
        ({"type": "object", "additionalProperties": TEXT}, [{}, {"a": "b"}], [{"a": 1}, {"a": None}]),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, [{"a": "b"}], [{}, {"a": "b", "c": 1}]),
        ({"type": "object", "properties": {"a": {**TEXT, "default": "x"}}}, [{"a": "b"}], [{}, {"a": None}]),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, [{}, {"a": [1, None]}], [[], 1]),
        ({"type": "object", "properties": {"a": {"oneOf": [TEXT]}, "b": TEXT}}, [{"b": "c"}], [{"a": "b"}]),
        ({"oneOf": [TEXT]}, [], ["a"]),
    ],
)
def test_a_schema_as_a_type(schema: Any, fitting: list[Any], others: list[Any]) -> None:
    fit = Fit(schema)
    assert [value for value in fitting if not fit(value)] == []
    assert [value for value in others if fit(value)] == []
    assert all(untouched(schema, value) for value in fitting)


# --- the parts of built-in kinds that have a fast path ---------------------------------------------------------

METADATA = {
    "name": "a-0",
    "labels": {"app": "a"},
    "finalizers": ["batch.kubernetes.io/job-tracking"],
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u", "controller": True}],
    "creationTimestamp": "2026-01-31T23:59:59Z",
    "generation": 1,
}
CONTAINER = {
    "name": "main",
    "ready": False,
    "restartCount": 0,
    "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-02-28T00:00:00Z"}},
    "image": "i",
    "imageID": "",
}
POD_STATUS = {
    "phase": "Failed",
    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "containerStatuses": [CONTAINER],
}
JOB_STATUS = {
    "active": 1,
    "uncountedTerminatedPods": {"succeeded": ["u"]},
    "conditions": [{"type": "Suspended", "status": "True", "lastProbeTime": "2026-01-01T00:00:00Z"}],
}
PARTS = [("Pod", "metadata", METADATA), ("Pod", "status", POD_STATUS), ("Job", "status", JOB_STATUS)]
TYPED = {
    "Pod": TypedSchema("io.k8s.api.core.v1.Pod", "Pod", "v1"),
    "Job": TypedSchema("io.k8s.api.batch.v1.Job", "Job", "v1"),
}


def left_alone(shape: Shape, value: Any) -> bool:
    """Whether a walk over a value of a built-in kind changes nothing and finds no error."""
    walk, tree = Walk(), copy.deepcopy(value)
    try:
        walk.object(shape, tree, None)
    except Undecodable:
        return False
    return not walk.unknown and not walk.wrong and tree == value


@pytest.mark.parametrize(("kind", "part", "value"), PARTS)
def test_the_fast_path_of_a_builtin_kind_accepts_only_unchanged_values(kind: str, part: str, value: Any) -> None:
    shape = TYPED[kind].shape.fields[part].shape
    assert shape.fit is not None
    assert left_alone(shape, value)
    assert shape.fit.once(value)
    others = [other for path in places(value)[1:] for other in altered(value, path)]
    taken = [other for other in others if shape.fit.once(other)]
    assert [other for other in taken if not left_alone(shape, other)] == []
    assert 0 < len(taken) < len(others)


def test_a_repeated_field_does_not_take_the_fast_path() -> None:
    """The tree has only the last of both, and the client must be warned of the repetition."""
    body = b'{"metadata":{"name":"a","labels":{"x":"1","x":"2"}}}'
    assert TYPED["Pod"].check(parse_json(body)) == ['duplicate field "metadata.labels.x"']

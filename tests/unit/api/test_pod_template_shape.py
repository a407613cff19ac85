"""Pod templates of another shape than the scheduler reads: refused by the webhook, ignored where they are stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.json_tree import Json
from queue_manager.api.queue_validation import validate_workload
from queue_manager.api.types import Workload
from queue_manager.scheduling.workload_info import info

TEMPLATE = "spec.podSets[0].template"
TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def workload(template: Json) -> Json:
    return {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"podSets": [{"name": "main", "template": template}]}}


def required(expression: Json) -> Json:
    return {"affinity": {"nodeAffinity": {TERMS: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}


EXPRESSION = f".spec.affinity.nodeAffinity.{TERMS}.nodeSelectorTerms[0].matchExpressions[0]"
MISSHAPEN: list[tuple[Json, str]] = [
    ({"metadata": []}, ".metadata: Invalid value: []: must be an object"),
    ({"metadata": {"labels": "a"}}, '.metadata.labels: Invalid value: "a": must be an object'),
    ({"metadata": {"labels": {"a": "b", "c": 1}}}, ".metadata.labels[c]: Invalid value: 1: must be a string"),
    ({"metadata": {"annotations": {"a": None}}}, ".metadata.annotations[a]: Invalid value: null: must be a string"),
    ({"spec": 7}, ".spec: Invalid value: 7: must be an object"),
    ({"spec": {"containers": {}}}, ".spec.containers: Invalid value: {}: must be an array"),
    ({"spec": {"containers": [{}, True]}}, ".spec.containers[1]: Invalid value: true: must be an object"),
    ({"spec": {"initContainers": [None]}}, ".spec.initContainers[0]: Invalid value: null: must be an object"),
    (
        {"spec": {"containers": [{"resources": {"limits": ["cpu"]}}]}},
        '.spec.containers[0].resources.limits: Invalid value: ["cpu"]: must be an object',
    ),
    ({"spec": {"overhead": "1"}}, '.spec.overhead: Invalid value: "1": must be an object'),
    ({"spec": {"runtimeClassName": ["a"]}}, '.spec.runtimeClassName: Invalid value: ["a"]: must be a string'),
    ({"spec": {"nodeSelector": {"a": 1}}}, ".spec.nodeSelector[a]: Invalid value: 1: must be a string"),
    ({"spec": {"tolerations": ["all"]}}, '.spec.tolerations[0]: Invalid value: "all": must be an object'),
    ({"spec": {"schedulingGates": {}}}, ".spec.schedulingGates: Invalid value: {}: must be an array"),
    ({"spec": required({"key": {}})}, f"{EXPRESSION}.key: Invalid value: {{}}: must be a string"),
    ({"spec": required({"values": [1]})}, f"{EXPRESSION}.values[0]: Invalid value: 1: must be a string"),
]


@pytest.mark.parametrize(("template", "error"), MISSHAPEN)
def test_a_misshapen_template_is_refused_with_its_field(template: Json, error: str) -> None:
    assert [str(each) for each in validate_workload(workload(template))] == [TEMPLATE + error]


@pytest.mark.parametrize(("template", "error"), MISSHAPEN)
def test_a_stored_workload_with_a_misshapen_template_is_not_decoded(template: Json, error: str) -> None:
    field, _, rest = error.partition(": Invalid value: ")
    detail = rest.rpartition(": ")[2]
    with pytest.raises(msgspec.ValidationError, match=r"at `\$\.spec\.podSets\[0\]`") as raised:
        msgspec.json.decode(msgspec.json.encode(workload(template)), type=Workload)
    assert f"template{field} {detail}" in str(raised.value)


def test_each_pod_set_has_its_own_error() -> None:
    sets: Any = [{"name": name, "template": {"spec": {"containers": [name]}}} for name in "ab"]
    errors = validate_workload({"metadata": {}, "spec": {"podSets": sets}})
    assert [error.field for error in errors] == [f"spec.podSets[{i}].template.spec.containers[0]" for i in (0, 1)]


def test_an_unchanged_misshapen_template_does_not_block_an_update() -> None:
    """Otherwise no finalizer of such a Workload could be removed."""
    stored = workload({"spec": {"containers": [True]}})
    assert validate_workload(stored, stored) == []


def test_null_is_an_absent_field() -> None:
    fields = ("containers", "initContainers", "resources", "overhead", "nodeSelector", "affinity", "tolerations")
    tree = workload({"metadata": None, "spec": {**dict.fromkeys(fields), "runtimeClassName": None}})
    assert validate_workload(tree) == []
    assert not info(msgspec.convert(tree, Workload)).error


@pytest.mark.parametrize("amount", [None, True, [], {}, "much"])
def test_a_quantity_of_any_type_is_refused_and_never_admitted(amount: Json) -> None:
    tree = workload({"spec": {"containers": [{"resources": {"requests": {"cpu": amount}}}]}})
    assert [each.field for each in validate_workload(tree)] == [
        f"{TEMPLATE}.spec.containers[0].resources.requests[cpu]"
    ]
    assert "resources validation failed" in info(msgspec.convert(tree, Workload)).error

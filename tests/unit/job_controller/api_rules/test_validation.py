"""Rules of Jobs and of metadata that the recorded requests do not cover."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from job_controller.api_rules import (
    defaults,
    label_selectors,
    metadata_validation,
    names,
    status_validation,
    validation,
)
from job_controller.api_rules.field_errors import show
from job_controller.api_rules.mutability import is_template_mutable, same
from job_controller.api_rules.stored_form import stored_time
from job_controller.go_text import quote

UID = "00000000-0000-4000-8000-000000000001"


def job(name: str = "job", **spec: Any) -> Any:
    template = {"spec": {"containers": [{"name": "main", "image": "a"}], "restartPolicy": "Never"}}
    made = {"metadata": {"name": name, "namespace": "n", "uid": UID}, "spec": {"template": template, **spec}}
    defaults.prepare_create(made)
    return made


def changed(stored: Any, **spec: Any) -> list[str]:
    new = copy.deepcopy(stored)
    new["spec"] |= spec
    defaults.prepare_update(new, stored)
    return [str(error) for error in validation.validate_update(new, stored)]


def test_success_policy_without_completions_is_rejected_and_does_not_crash() -> None:
    policy = {"rules": [{"succeededIndexes": "0-2", "succeededCount": 2}]}
    refused = validation.validate_create(job(completionMode="Indexed", parallelism=2, successPolicy=policy))
    assert [str(error) for error in refused] == ["spec.completions: Required value: when completion mode is Indexed"]


def test_limits_of_large_indexed_jobs_add_up() -> None:
    large = job(completionMode="Indexed", completions=200_000, parallelism=100_001, backoffLimitPerIndex=1)
    used = "when completions are above 100000 and used with backoff limit per index"
    assert [str(error) for error in validation.validate_create(large)] == [
        "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
        f"spec.parallelism: Invalid value: 100001: must be less than or equal to 10000 {used}",
    ]
    large["spec"]["maxFailedIndexes"] = 100_001
    assert "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000" in [
        str(error) for error in validation.validate_create(large)
    ]


def test_labels_of_the_job_are_those_of_its_pods_only_while_it_has_none() -> None:
    made = job()
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    made["spec"]["template"]["metadata"]["labels"]["late"] = "1"
    defaults.prepare_update(made, made)
    assert "late" not in made["metadata"]["labels"]


def test_quantities_that_mean_the_same_are_no_change() -> None:
    stored = job()
    stored["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Ki"}}
    template = copy.deepcopy(stored["spec"]["template"])
    template["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1024"}}
    assert changed(stored, template=template) == []


def test_resources_of_a_suspended_job_may_change_and_its_images_not() -> None:
    stored = job(suspend=True)
    template = copy.deepcopy(stored["spec"]["template"])
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    assert changed(stored, template=template) == []
    template["spec"]["containers"][0]["image"] = "b"
    (text,) = changed(stored, template=template)
    assert text.startswith("spec.template.spec: Invalid value: {")
    assert text.endswith("}: field is immutable")


@pytest.mark.parametrize(
    ("suspend", "status", "mutable"),
    [
        (False, {}, False),
        (True, {}, True),
        (True, {"active": 1}, False),
        (True, {"startTime": "2026-01-01T00:00:00Z"}, False),
        (True, {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}, True),
        (True, {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "False"}]}, False),
    ],
)
def test_a_template_is_mutable_while_nothing_of_the_job_runs(suspend: bool, status: Any, mutable: bool) -> None:
    assert is_template_mutable({"spec": {"suspend": suspend}, "status": status}) is mutable


def test_missing_null_and_empty_lists_are_the_same_and_empty_structs_are_not() -> None:
    assert same({"a": [], "b": None}, {})
    assert not same({"securityContext": {}}, {})


def test_equal_times_in_another_zone_are_no_change_of_the_start_time() -> None:
    stored = {**job(), "status": {"startTime": "2026-01-01T00:00:00Z"}}
    new = {**copy.deepcopy(stored), "status": {"startTime": "2026-01-01T02:00:00.9+02:00"}}
    defaults.prepare_status(new, stored)
    assert new["status"]["startTime"] == "2026-01-01T00:00:00Z"
    assert status_validation.validate_status_update(new, stored) == []


def test_times_a_condition_lacks_are_stored_as_null() -> None:
    stored = job()
    new = {**copy.deepcopy(stored), "status": {"conditions": [{"type": "Suspended", "status": "True", "reason": ""}]}}
    defaults.prepare_status(new, stored)
    times = {"lastProbeTime": None, "lastTransitionTime": None}
    assert new["status"] == {"conditions": [{"type": "Suspended", "status": "True", **times}]}


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.999999999Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T01:30:00+01:30", "2026-01-01T00:00:00Z"),
        ("yesterday", "yesterday"),
        ("0001-01-01T01:00:00+00:00", "0001-01-01T01:00:00Z"),
        ("0001-01-01T00:00:00+23:00", "0001-01-01T00:00:00+23:00"),  # not in any year
    ],
)
def test_times_are_stored_in_whole_seconds_of_utc(text: str, stored: str) -> None:
    assert stored_time(text) == stored


# --- metadata ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "texts"),
    [
        ({"name": "a", "namespace": "n"}, []),
        ({"generateName": "a-", "name": "a-x", "namespace": "n"}, []),
        ({"namespace": "n"}, ["metadata.name: Required value: name or generateName is required"]),
        ({"name": "a"}, ["metadata.namespace: Required value"]),
        (
            {"name": "a", "namespace": "n", "finalizers": ["kubernetes", "x"]},
            [
                'metadata.finalizers[1]: Invalid value: "x": '
                "name is neither a standard finalizer name nor is it fully qualified"
            ],
        ),
        (
            {"name": "a", "namespace": "n", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            ['metadata.ownerReferences.uid: Invalid value: "": must not be empty'],
        ),
        (
            {"name": "a", "namespace": "n", "annotations": {"k": "x" * 262_144}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
    ],
)
def test_metadata_is_checked(meta: Any, texts: list[str]) -> None:
    assert [str(error) for error in metadata_validation.validate_metadata(meta)] == texts


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    refused = metadata_validation.validate_metadata({"name": "a", "namespace": "n"}, namespaced=False)
    assert [str(error) for error in refused] == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_no_finalizer_can_be_added_to_what_is_being_deleted() -> None:
    old = {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.y/a"]}
    refused = metadata_validation.validate_metadata_update({**old, "finalizers": ["x.y/a", "x.y/b"]}, old)
    assert [str(error) for error in refused] == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"x.y/b"}'
    ]


@pytest.mark.parametrize("name", ["a/b", "..", "a%b"])
def test_names_are_valid_path_segments(name: str) -> None:
    assert names.path_segment(name)


@pytest.mark.parametrize(
    ("key", "fine"),
    [("a", True), ("x.y/a", True), ("x.y/", False), ("/a", False), ("a/b/c", False), ("-a", False), ("A_b.c", True)],
)
def test_label_keys_are_qualified_names(key: str, fine: bool) -> None:
    assert (not names.qualified_name(key)) is fine


# --- selectors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "labels", "holds"),
    [
        ({"key": "a", "operator": "In", "values": ["1"]}, {"a": "1"}, True),
        ({"key": "a", "operator": "In", "values": ["1"]}, {}, False),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, {}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, {"a": "1"}, False),
        ({"key": "a", "operator": "Exists"}, {"a": ""}, True),
        ({"key": "a", "operator": "DoesNotExist"}, {"a": ""}, False),
    ],
)
def test_selector_expressions(expression: Any, labels: dict[str, str], holds: bool) -> None:
    assert label_selectors.matches({"matchExpressions": [expression]}, labels) is holds


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not label_selectors.matches(None, {})
    assert label_selectors.matches({}, {"a": "b"})


# --- printing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é", '"é"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("\n\x00\u200b", '"\\n\\x00\\u200b"'),
        ("<&>", '"<&>"'),
        ({"a": "<"}, '{"a":"\\u003c"}'),
        (None, "null"),
        (-1, "-1"),
    ],
)
def test_values_are_printed_as_go_prints_them(value: Any, text: str) -> None:
    assert show(value) == text
    if isinstance(value, str):
        assert quote(value) == text


def test_indexes_of_a_job_that_is_not_indexed_are_read_all_the_same() -> None:
    """As measured on a real server: parse errors are reported beside the error about the completion mode."""
    stored = job()
    stored["spec"] |= {"completions": 2, "parallelism": 2}
    new = {**stored, "status": {"completedIndexes": "1,2", "failedIndexes": "1"}}
    errors = [str(error).rsplit(": ", 2)[-2:] for error in status_validation.validate_status_update(new, stored)]
    assert [": ".join(error) for error in errors] == [
        'too large index: "2"',
        '"1,2": cannot set non-empty completedIndexes when non-indexed completion mode',
        '"1": cannot set non-null failedIndexes when backoffLimitPerIndex is null',
        "failedIndexes and completedIndexes overlap at index: 1",
    ]

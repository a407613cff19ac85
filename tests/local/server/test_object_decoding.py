"""Decoding of built-in kinds, compared with the answers of a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.http_messages import ServerRequest
from queue_manager.local.server.object_decoding import read_object
from queue_manager.local.status_errors import StatusError

REGISTRY = KindRegistry.builtin()
GOLDEN = Path(__file__).parents[2] / "golden" / "job-validation.jsonl"
RECORDED = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
# Refused because of the URL, which the request handler checks.
ABOUT_THE_URL = {"wrong-namespace", "u-namespace-change"}


def kind(resource: Any) -> Any:
    found = REGISTRY.find(resource.group, resource.version, resource.plural)
    assert found is not None
    return found


def refusal(body: bytes, *, strict: bool = False) -> str:
    """The error of the body, or ""."""
    try:
        tree = read_object(ServerRequest("POST", "/", body=body), kind(JOBS), [])
        unknown = kind(JOBS).schema.check(tree)
    except StatusError as error:
        return error.message if error.code == 400 else f"{error.code} {error.message}"
    if unknown and strict:
        return f'Job in version "v1" cannot be handled as a Job: strict decoding error: {", ".join(unknown)}'
    return ""


def body_of(case: Any) -> bytes:
    if "objectText" in case:
        return str(case["objectText"]).encode()
    return json.dumps(case.get("object") or case["after"]).encode()


@pytest.mark.parametrize(
    "case", [c for c in RECORDED if c["code"] == 400 and c["name"] not in ABOUT_THE_URL], ids=lambda c: c["name"]
)
def test_the_recorded_refusals_of_the_decoder(case: Any) -> None:
    assert refusal(body_of(case), strict="strict" in case["name"]) == case["message"]


def test_nothing_else_of_the_recorded_requests_is_refused_by_the_decoder() -> None:
    accepted = [case for case in RECORDED if case["code"] != 400]
    assert [case["name"] for case in accepted if refusal(body_of(case))] == []
    assert len(accepted) > 400


# Body -> what follows `Job in version "v1" cannot be handled as a Job: `, asked of the real server 1.36.3.
WRONG_TYPES = [
    ('{"spec": "x"}', "json: cannot unmarshal string into Go struct field Job.spec of type v1.JobSpec"),
    ('{"spec": []}', "json: cannot unmarshal array into Go struct field Job.spec of type v1.JobSpec"),
    ('{"metadata": "x"}', "json: cannot unmarshal string into Go struct field Job.metadata of type v1.ObjectMeta"),
    (
        '{"spec": {"parallelism": 1.0}}',
        "json: cannot unmarshal number 1.0 into Go struct field JobSpec.spec.parallelism of type int32",
    ),
    (
        '{"spec": {"activeDeadlineSeconds": 9223372036854775808}}',
        "json: cannot unmarshal number 9223372036854775808 into Go struct field JobSpec.spec.activeDeadlineSeconds "
        "of type int64",
    ),
    (
        '{"spec": {"template": {"spec": {"containers": {}}}}}',
        "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers "
        "of type []v1.Container",
    ),
    (
        '{"spec": {"template": {"spec": {"containers": [{"args": [1]}]}}}}',
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.args "
        "of type string",
    ),
    (
        '{"spec": {"template": {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": true}}}]}}}}',
        "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe."
        "ProbeHandler.httpGet.port of type int32",
    ),
    (
        '{"metadata": {"creationTimestamp": "2026-01-01 00:00:00Z"}}',
        'parsing time "2026-01-01 00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T"',
    ),
    (
        '{"metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}}',
        'parsing time "2026-02-30T00:00:00Z": day out of range',
    ),
]


@pytest.mark.parametrize(("body", "message"), WRONG_TYPES)
def test_wrong_types_are_named_as_the_server_names_them(body: str, message: str) -> None:
    assert refusal(body.encode()) == f'Job in version "v1" cannot be handled as a Job: {message}'


def test_a_syntax_error_is_reported_before_an_earlier_wrong_type() -> None:
    quantity = {"resources": {"requests": {"cpu": "abc"}}}
    tree = {"spec": {"parallelism": "x", "template": {"spec": {"containers": [quantity]}}}}
    assert "quantities must match the regular expression" in refusal(json.dumps(tree).encode())


HEADS = [
    ("", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
    ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
    (
        '{"kind":"Job","apiVersion":"batch/v1"} x',
        "couldn't get version/kind; json parse error: invalid character 'x' after top-level value "
        '({"kind":"Job","apiVersion":"ba ...)',
    ),
    (
        '{"kind":"Job","apiVersion":"batch/v1",}',
        "couldn't get version/kind; json parse error: invalid character '}' looking for beginning of object key string "
        '({"kind":"Job","apiVersion":"ba ...)',
    ),
    (
        '{"args":[1, ]}',
        "couldn't get version/kind; json parse error: invalid character ']' looking for beginning of value "
        '({"args":[1, ]})',
    ),
    ('{"apiVersion": "a/b/c"}', 'unexpected GroupVersion string: a/b/c ({"apiVersion": "a/b/c"})'),
]


@pytest.mark.parametrize(("body", "message"), HEADS)
def test_bodies_that_are_no_object(body: str, message: str) -> None:
    assert refusal(body.encode()) == f"the object provided is unrecognized (must be of type Job): {message}"


def test_unknown_and_repeated_fields_come_in_the_order_of_the_document() -> None:
    body = b"""{"metadata": {"name": "a", "name": "b"}, "spec": {"foo": 1, "parallelism": 1, "parallelism": 2,
        "template": {"spec": {"containers": [{"name": "a", "image": "b", "image": "c", "env": [{"zip": 1}]}]}}}}"""
    tree = read_object(ServerRequest("POST", "/", body=body), kind(JOBS), [])
    assert kind(JOBS).schema.check(tree) == [
        'duplicate field "metadata.name"',
        'unknown field "spec.foo"',
        'duplicate field "spec.parallelism"',
        'duplicate field "spec.template.spec.containers[0].image"',
        'unknown field "spec.template.spec.containers[0].env[0].zip"',
    ]
    assert tree["metadata"]["name"] == "b"
    assert tree["spec"]["parallelism"] == 2
    assert "foo" not in tree["spec"]


def test_a_checked_object_is_in_stored_form() -> None:
    pod = {
        "metadata": {"labels": {}, "creationTimestamp": "2026-01-01T01:00:00.5+01:00"},
        "spec": {
            "nodeSelector": None,
            "containers": [{"args": [], "resources": {"requests": {"cpu": "0.5", "memory": 2048}}}],
        },
    }
    assert kind(PODS).schema.check(pod) == []
    assert pod == {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "2048"}}}]},
    }


def test_decoding_is_idempotent() -> None:
    for case in RECORDED:
        tree = case.get("result")
        if tree is not None:
            once = json.loads(json.dumps(tree))
            kind(JOBS).schema.check(once)
            twice = json.loads(json.dumps(once))
            assert kind(JOBS).schema.check(twice) == []
            assert twice == once


def test_a_part_with_a_wrong_type_is_refused_again_in_the_next_body() -> None:
    """The first of two mistakes is reported; the second must not be remembered as valid."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {"parallelism": "1", "template": {"spec": pod}}
    head = {"apiVersion": "batch/v1", "kind": "Job"}
    both = json.dumps({**head, "metadata": {"name": "a", "labels": {"a": True}}, "spec": spec}).encode()
    second = json.dumps({**head, "metadata": {"name": "a"}, "spec": spec}).encode()
    assert "labels" in refusal(both)
    assert "parallelism of type int32" in refusal(second)

"""Refusals: code, reason, message and details are those of a Kubernetes API server."""

# ruff: noqa: E501  (a case a line reads better)

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, PODS
from tests.local.server.world import Answer, World, config_map, job, path, pod

J = JOBS.path("default")
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"

# (method, path, body, options, code, reason, message)
CASES: list[tuple[str, str, Any, dict[str, Any], int, str, str]] = [
    ("GET", f"{J}/no", None, {}, 404, "NotFound", 'jobs.batch "no" not found'),
    ("PUT", f"{J}/no", job("no"), {}, 404, "NotFound", 'jobs.batch "no" not found'),
    ("DELETE", f"{J}/no", None, {}, 404, "NotFound", 'jobs.batch "no" not found'),
    ("POST", JOBS.path("nowhere"), job("a"), {}, 404, "NotFound", 'namespaces "nowhere" not found'),
    ("GET", f"{J}/m/nothing", None, {}, 404, "NotFound", "the server could not find the requested resource"),
    ("GET", "/api/v1/namespaces/default/nodes", None, {}, 404, "NotFound", "the server could not find the requested resource"),
    ("PATCH", J, {}, {}, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ("POST", JOBS.path(), job("a"), {}, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ("POST", f"{J}/m", job("m"), {}, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ("DELETE", f"{J}/m/status", None, {}, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ("POST", J, job("m"), {}, 409, "AlreadyExists", 'jobs.batch "m" already exists'),
    (
        "PUT", f"{J}/m", job("m", resourceVersion="1"), {}, 409, "Conflict",
        f'Operation cannot be fulfilled on jobs.batch "m": {MODIFIED}',
    ),
    (
        "PUT", f"{J}/m", job("other"), {}, 400, "BadRequest",
        "the name of the object (other) does not match the name on the URL (m)",
    ),
    (
        "POST", J, job("x", namespace="kube-system"), {}, 400, "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    ("POST", J, job("x", resourceVersion="4"), {}, 500, "", "resourceVersion should not be set on objects to be created"),
    (
        "POST", J, {**job("x"), "apiVersion": "batch/v2"}, {}, 400, "BadRequest",
        'no kind "Job" is registered for version "batch/v2"',
    ),
    ("POST", J, {"metadata": {}}, {}, 422, "Invalid", 'Job.batch "" is invalid: metadata.name: Required value: name or generateName is required'),
    ("POST", PODS.path("default"), {**pod("p"), "spec": {}}, {}, 422, "Invalid", 'Pod "p" is invalid: spec.containers: Required value'),
    (
        "POST", J, job("x"), {"dryRun": "Some"}, 422, "Invalid",
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
    ("POST", J, job("x"), {"accept": "application/vnd.kubernetes.protobuf"}, 406, "NotAcceptable", "only the following media types are accepted"),
    ("POST", J, b"\n\x0bk8s", {"content_type": "application/vnd.kubernetes.protobuf"}, 400, "BadRequest", "the body is not valid protobuf: it does not begin with the magic number"),
    ("POST", J, b"<x/>", {"content_type": "text/xml"}, 415, "UnsupportedMediaType", "the body of the request was in an unknown format"),
    ("POST", J, b'{"a":"' + b"x" * (3 << 20) + b'"}', {}, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
    ("POST", J, b"{", {}, 400, "BadRequest", "json parse error: unexpected end of JSON input ({)"),
    ("POST", J, b"[]", {}, 400, "BadRequest", "json parse error: json: cannot unmarshal array into Go value of type struct"),
    ("POST", J, b'{"spec":' * 150 + b"1" + b"}" * 150, {}, 400, "BadRequest", "the body is nested more than 100 levels deep"),
    ("POST", J, b'{"spec":' * 5000 + b"1" + b"}" * 5000, {}, 400, "BadRequest", "json parse error: exceeded max depth"),
    ("POST", J, b"a: [", {"content_type": "application/yaml"}, 400, "BadRequest", "yaml: line 1: did not find expected node content"),
    ("GET", J, None, {"labelSelector": "a in ("}, 400, "BadRequest", "unable to parse requirement"),
    ("GET", J, None, {"fieldSelector": "spec.none=1"}, 400, "BadRequest", 'field label "spec.none" not supported for Job'),
    ("GET", J, None, {"limit": "x"}, 400, "BadRequest", "strconv.ParseInt: parsing"),
    ("GET", J, None, {"continue": "rubbish"}, 400, "BadRequest", "continue key is not valid"),
    ("GET", J, None, {"resourceVersion": "99999"}, 504, "Timeout", "Too large resource version: 99999, current: "),
    ("GET", J, None, {"resourceVersionMatch": "Exact"}, 422, "Invalid", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
    ("GET", J, None, {"sendInitialEvents": "true"}, 422, "Invalid", "sendInitialEvents is forbidden for list"),
    ("DELETE", f"{J}/m", {"propagationPolicy": "Sideways"}, {}, 422, "Invalid", 'Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil"'),
    ("DELETE", f"{J}/m", {"propagationPolicy": "Orphan", "orphanDependents": True}, {}, 422, "Invalid", "orphanDependents and deletionPropagation cannot be both set"),
    ("DELETE", f"{J}/m", {"preconditions": {"uid": "u"}}, {}, 409, "Conflict", "the UID in the precondition (u) does not match the UID in record"),
    ("DELETE", f"{J}/m", {"preconditions": {"resourceVersion": "1"}}, {}, 409, "Conflict", "the ResourceVersion in the precondition (1) does not match"),
    ("DELETE", f"{J}/m", {"gracePeriodSeconds": "soon"}, {}, 400, "BadRequest", "field DeleteOptions.gracePeriodSeconds of type int64"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[4]}-{case[0]}-{case[6][:40]}")
async def test_refusals_are_status_objects(
    world: World, case: tuple[str, str, Any, dict[str, Any], int, str, str]
) -> None:
    method, target, body, options, code, reason, message = case
    await world.create(JOBS, job("m"))
    revision = world.store.revision
    answer = await world.ask(method, target, body, **options)
    assert (answer.status, answer.body.get("code"), answer.reason) == (code, code, reason)
    assert message in answer.message
    assert answer.body["kind"] == "Status"
    assert answer.body["status"] == "Failure"
    assert world.store.revision == revision


async def test_details_name_the_object(world: World) -> None:
    answer = await world.ask("GET", f"{J}/no")
    assert answer.body["details"] == {"name": "no", "group": "batch", "kind": "jobs"}
    answer = await world.ask("POST", PODS.path("default"), {**pod("p"), "spec": {}})
    assert answer.body["details"] == {
        "name": "p",
        "kind": "Pod",
        "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}],
    }


async def test_a_uid_of_another_object_is_a_conflict(world: World) -> None:
    await world.create(JOBS, job("m"))
    answer = await world.ask("PUT", path(JOBS, "m"), job("m", uid="other"))
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_yaml_that_expands_to_millions_of_values_is_refused(world: World) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    answer = await world.ask(
        "POST", CONFIG_MAPS.path("default"), "\n".join(lines).encode(), content_type="application/yaml"
    )
    assert answer.status == 400
    assert "more than 50000 values" in answer.message


@pytest.mark.parametrize(
    ("method", "content_type"),
    [
        ("POST", "application/json"),
        ("POST", "application/yaml"),
        ("PUT", "application/json"),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/apply-patch+yaml"),
    ],
)
async def test_a_body_with_too_many_values_is_refused(world: World, method: str, content_type: str) -> None:
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    body = json.dumps({**head, "data": {f"k{number}": "" for number in range(50_001)}}).encode()
    where = CONFIG_MAPS.path("default") if method == "POST" else path(CONFIG_MAPS, "c")
    answer = await world.ask(method, where, body, content_type=content_type, fieldManager="m")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "has more than 50000 values" in answer.message


@pytest.mark.parametrize("validation", ["", "Ignore", "Strict"])
async def test_each_repetition_of_a_field_counts_as_a_value(world: World, validation: str) -> None:
    """All repetitions are decoded, so all of them take time."""
    data = ",".join(['"a":"b"'] * 50_001)
    body = f'{{"metadata":{{"name":"c"}},"data":{{{data}}}}}'.encode()
    options = {"fieldValidation": validation} if validation else {}
    answer = await world.ask("POST", CONFIG_MAPS.path("default"), body, **options)
    assert answer.status == 400
    assert "has more than 50000 values" in answer.message


async def ask_in_yaml(world: World, verb: str, text: str) -> Answer:
    path = CONFIG_MAPS.path("default")
    if verb == "create":
        return await world.ask("POST", path, text.encode(), content_type="application/yaml")
    kind = {"content_type": "application/apply-patch+yaml", "fieldManager": "me"}
    return await world.ask("PATCH", f"{path}/c", text.encode(), **kind)


@pytest.mark.parametrize("text", ["a: [" + "x," * 100_002 + "]: ]", "k: v\n" * 50_002 + "]"], ids=["items", "fields"])
@pytest.mark.parametrize("verb", ["create", "apply"])
async def test_yaml_of_too_many_values_is_not_read_to_its_end(world: World, verb: str, text: str) -> None:
    """An error behind the bound is not reported: reading three megabytes would take half a minute."""
    answer = await ask_in_yaml(world, verb, text)
    assert answer.status == 400
    assert "more than 50000 values" in answer.message


async def test_a_text_with_many_commas_is_one_value(world: World) -> None:
    text = "1,2,[3]," * 100_000
    answer = await world.ask("POST", CONFIG_MAPS.path("default"), {"metadata": {"name": "c"}, "data": {"csv": text}})
    assert answer.status == 201


def bomb_of_levels(start: str, end: str = "") -> str:
    return "a: " * (start == "[") + start * 200_000 + "x" + end * 200_000


def bomb_of_merges() -> str:
    """Each mapping takes over its predecessor nine times: 9**11 copies."""
    lines = [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 12)]
    return "\n".join(["a0: &a0 {k: v}", *lines])


def bomb_of_products() -> str:
    """A list of 200 000 times one list of 200 000 values."""
    return f"a: &a [{'x,' * 200_000}]\nb: [{'*a ,' * 200_000}]"


@pytest.mark.parametrize(
    "text",
    [bomb_of_levels("[", "]"), bomb_of_levels("- "), bomb_of_levels("? "), bomb_of_merges(), bomb_of_products()],
    ids=["lists", "dashes", "keys", "merges", "products"],
)
@pytest.mark.parametrize("verb", ["create", "apply"])
async def test_malicious_yaml_is_refused(world: World, text: str, verb: str) -> None:
    answer = await ask_in_yaml(world, verb, text)
    assert answer.status == 400
    assert re.search("more than 100 levels deep|more than 50000 values", answer.message)


async def test_warnings_never_outgrow_a_header(world: World) -> None:
    """As a Kubernetes API server does: beyond 4096 characters in all, each warning is cut at 256."""
    body = config_map("c") | {f"{'f' * 300}{i}": 1 for i in range(100)}
    answer = await world.ask("POST", CONFIG_MAPS.path("default"), body)
    assert answer.status == 201
    shown = answer.headers["Warning"].split(", 299 - ")
    assert len(shown) == 16
    assert all(len(text) < 300 for text in shown)


async def test_a_repeated_field_is_a_warning_only_for_kinds_that_check(world: World) -> None:
    text = json.dumps(config_map("c")).replace('"data":', '"data": {}, "data":').encode()
    answer = await world.ask("POST", CONFIG_MAPS.path("default"), text, fieldValidation="Strict")
    assert answer.status == 201
    assert answer.body["data"] == {"a": "1"}


async def test_an_exception_is_answered_as_an_internal_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(world.store, "get", fail)
    answer = await world.ask("GET", f"{J}/m")
    assert (answer.status, answer.reason) == (500, "InternalError")

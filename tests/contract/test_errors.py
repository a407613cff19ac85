"""Error responses: every refusal is a Status with the same code, reason, message and details."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS
from tests.contract.bodies import config_map, job
from tests.contract.session import Session

Json = Any
YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: 'b'}\n"
TWICE = (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b","a":"c"}},'
    b'"data":{"x":"1","x":"2"},"more":1}'
)
C = "/api/v1/namespaces/{ns}/configmaps"
J = "/apis/batch/v1/namespaces/{ns}/jobs"

# method, path, body, options
REQUESTS: list[tuple[str, str, Json, dict[str, Any]]] = [
    ("GET", "/api/v1/namespaces/{ns}/unknowns", None, {}),
    ("GET", "/apis/none.example.com/v1/things", None, {}),
    ("GET", "/apis/batch/v9/jobs", None, {}),
    ("GET", "/nowhere", None, {}),
    ("GET", "/api/v2", None, {}),
    ("GET", C + "/none", None, {}),
    ("GET", J + "/none", None, {}),
    ("GET", J + "/none/unknown", None, {}),
    ("GET", J + "/none/status", None, {}),
    ("GET", "/api/v1/namespaces/none-of-that-name", None, {}),
    ("POST", C + "/a", config_map(), {}),
    ("PUT", C, config_map(), {}),
    ("PATCH", C, {}, {"content_type": "application/merge-patch+json"}),
    ("POST", "/api/v1/configmaps", config_map(), {}),
    ("DELETE", "/api/v1/configmaps", None, {}),
    ("DELETE", "/api/v1/namespaces", None, {}),
    ("POST", J + "/none/status", job(), {}),
    ("DELETE", J + "/none/status", None, {}),
    ("OPTIONS", C, None, {}),
    ("GET", C, None, {"accept": "text/html"}),
    ("GET", C, None, {"accept": "application/json;as=Chair;v=v1;g=meta.k8s.io"}),
    ("GET", C, None, {"accept": "application/json;as=Table;v=v9;g=meta.k8s.io"}),
    ("GET", C, None, {"accept": "*/*"}),
    ("POST", C, config_map(), {"content_type": "text/plain"}),
    ("POST", C, config_map(), {"content_type": "application/xml"}),
    ("POST", C, YAML, {"content_type": "application/yaml"}),
    ("POST", C, b"", {}),
    ("POST", C, b"null", {}),
    ("POST", C, b"[]", {}),
    ("POST", C, b'"text"', {}),
    ("POST", C, b"{", {}),
    ("POST", C, b"{}", {}),
    ("POST", C, b'{"kind":"ConfigMap"}', {}),
    ("POST", C, b"\xff\xfe", {}),
    ("POST", C, config_map() | {"kind": "Secret"}, {}),
    ("POST", C, config_map() | {"kind": "Nothing"}, {}),
    ("POST", C, config_map() | {"apiVersion": "v2"}, {}),
    ("POST", C, config_map() | {"apiVersion": "a/b/c"}, {}),
    ("POST", C, config_map() | {"apiVersion": "batch/v1"}, {}),
    ("POST", C, config_map() | {"metadata": "x"}, {}),
    ("POST", C, config_map() | {"metadata": []}, {}),
    ("POST", C, config_map() | {"data": []}, {}),
    ("POST", C, config_map("a", {"k": 1}), {}),
    ("POST", C, config_map("a", None, namespace="other"), {}),
    ("POST", C, config_map("a", None, labels={"a": 1}), {}),
    ("POST", C, config_map("a", None, generation="x"), {}),
    ("POST", C, config_map("a", None, creationTimestamp="yesterday"), {}),
    ("POST", C, config_map("a", None, ownerReferences={}), {}),
    ("POST", C, config_map("a", None, finalizers=[1]), {}),
    ("POST", C, config_map("a", {"k": "x" * (1024 * 1024 + 1)}), {}),
    ("POST", C, config_map("a", {"k": "x" * (3 * 1024 * 1024)}), {}),
    ("POST", C, config_map("a", None, annotations={"k": "x" * (256 * 1024 + 1)}), {}),
    ("POST", J, job("j", {"parallelism": -1, "completions": -1, "backoffLimit": -1}), {}),
    ("POST", J, job("j", {"template": {}}), {}),
    ("POST", J, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}, {}),
    ("POST", J, job("j" * 64), {}),
    ("POST", C, config_map(), {"dryRun": "Some"}),
    ("POST", C, config_map(), {"fieldValidation": "Loose"}),
    ("POST", C, config_map(), {"fieldManager": "x" * 129}),
    ("POST", C, config_map(), {"fieldManager": "a\nb"}),
    ("GET", C + "/UPPER", None, {}),
    ("GET", C + "/..", None, {}),
    ("GET", C + "/a%2Fb", None, {}),
    ("GET", C + "/", None, {}),
    ("GET", "/api/v1//configmaps", None, {}),
    ("POST", C, config_map(), {"fieldManager": "é\n\t" + "x" * 128}),
    ("DELETE", C + "/.", None, {}),
    ("GET", C + "/a%25b", None, {}),
]  # fmt: skip


@pytest.mark.parametrize("request_", REQUESTS, ids=[f"{number:02}-{row[0]}" for number, row in enumerate(REQUESTS)])
async def test_refusal(s: Session, request_: tuple[str, str, Json, dict[str, Any]]) -> None:
    """One invalid request, or a valid one for contrast."""
    method, path, body, options = request_
    differs = DIFFERENT.get(REQUESTS.index(request_), "")
    await s.ask(method, path.format(ns=s.namespace), body, differs=differs, **options)


# Index in REQUESTS -> row of queue_manager/local/DIFFERENCES.md.
DIFFERENT = {19: "media-types", 20: "media-types", 21: "media-types", 23: "media-types", 24: "media-types"}
DIFFERENT |= {33: "invalid-utf8", 34: "other-kind"}


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore", ""])
async def test_field_validation(s: Session, mode: str) -> None:
    """Unknown and repeated fields are refused, reported or dropped, by the fieldValidation option."""
    options = {"fieldValidation": mode} if mode else {}
    body = job()
    body["spec"]["unknown"] = 1
    body["spec"]["template"]["spec"]["containers"][0]["imaage"] = "x"
    body["other"] = {"a": 1}
    await s.create(body, **options)
    await s.ask("POST", s.path(CONFIG_MAPS), TWICE, **options)
    await s.replace(body | {"spec": body["spec"] | {"parallelism": 2}}, **options)
    await s.patch(JOBS, "j", {"spec": {"unknown": 2, "parallelism": 3}}, **options)
    await s.patch(
        JOBS, "j", {"spec": {"unknown": 2, "parallelism": 4}}, "application/strategic-merge-patch+json", **options
    )


async def test_a_dry_run_is_answered_like_the_request_and_stores_nothing(s: Session) -> None:
    await s.create(config_map(), dryRun="All")
    await s.get(CONFIG_MAPS, "a")
    await s.create(config_map())
    await s.create(config_map(), dryRun="All")
    await s.replace(config_map("a", {"k": "w"}), dryRun="All")
    await s.patch(CONFIG_MAPS, "a", {"data": {"k": "w"}}, dryRun="All")
    await s.create(job("j", {"parallelism": -1}), dryRun="All")
    await s.get(CONFIG_MAPS, "a")

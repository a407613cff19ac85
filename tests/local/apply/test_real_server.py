"""Random sequences of applies, updates and patches end the same on the embedded and on a real API server."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.control_plane.server import ControlPlane
from tests.local.apply.servers import APPLY, MERGE, Embedded, Real, seen

pytestmark = pytest.mark.control_plane

Json = Any
NAMESPACE = "/namespaces/default"
NUMBERS = itertools.count()

THINGS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.demo.example.com"},
    "spec": {
        "group": "demo.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 3},
                                    "limit": {"x-kubernetes-int-or-string": True},
                                    "tags": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "words": {"type": "array", "items": {"type": "string"}},
                                    "ports": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                                        "items": {
                                            "type": "object",
                                            "required": ["port"],
                                            "properties": {
                                                "port": {"type": "integer"},
                                                "protocol": {"type": "string", "default": "TCP"},
                                                "name": {"type": "string"},
                                            },
                                        },
                                    },
                                    "whole": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "additionalProperties": {"type": "string"},
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def servers(control_plane: ControlPlane) -> Iterator[tuple[Embedded, Real]]:
    """Both servers with the test's kind; everything is deleted at the end."""
    embedded, real = Embedded(), Real(control_plane)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for server in (embedded, real):
        assert server.ask("POST", definitions, THINGS)[0] == 201
    deadline = time.monotonic() + 30  # a new kind is served a moment after it is established
    while real.ask("GET", f"/apis/demo.example.com/v1{NAMESPACE}/things")[0] != 200:
        assert time.monotonic() < deadline, "the new kind is not served"
    yield embedded, real
    embedded.close()
    for plural in ("configmaps", "jobs", "things"):
        _remove_all(real, PATHS[plural][0])
    real.ask("DELETE", f"{definitions}/{THINGS['metadata']['name']}")


def _remove_all(real: Real, collection: str) -> None:
    for obj in real.ask("GET", collection)[1]["items"]:
        path = f"{collection}/{obj['metadata']['name']}"
        real.ask("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
        real.ask("DELETE", f"{path}?propagationPolicy=Background")


def some(**fields: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=fields)


words = st.sampled_from(["a", "b", "c"])
texts = st.dictionaries(words, st.sampled_from(["1", "2"]), max_size=3)
meta = some(labels=texts, annotations=texts, finalizers=st.lists(st.sampled_from(["x.io/a", "x.io/b"]), unique=True))
containers = st.lists(
    st.fixed_dictionaries(
        {"name": words, "image": st.sampled_from(["i", "j"])},
        optional={
            "env": st.lists(
                st.fixed_dictionaries({"name": words, "value": st.sampled_from(["1", "2"])}),
                unique_by=lambda env: env["name"],
                max_size=2,
            ),
            "command": st.lists(words, min_size=1, max_size=2),
        },
    ),
    unique_by=lambda container: container["name"],
    max_size=2,
)
template = st.fixed_dictionaries({"spec": some(containers=containers, restartPolicy=st.just("Never"))})
jobs = some(
    parallelism=st.integers(0, 2),
    suspend=st.booleans(),
    template=template,
    ttlSecondsAfterFinished=st.integers(1, 2),
)
things = some(
    size=st.integers(1, 3),
    limit=st.sampled_from([1, "1"]),
    tags=st.lists(words, unique=True, max_size=3),
    words=st.lists(words, max_size=2),
    ports=st.lists(
        st.fixed_dictionaries(
            {"port": st.integers(1, 2)},
            optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": words},
        ),
        unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
        max_size=3,
    ),
    whole=texts,
    free=st.dictionaries(words, st.sampled_from([1, "x", {"a": 1}, {"b": {"c": 2}}, [1], {}]), max_size=2),
)
bodies = {
    "configmaps": some(data=texts, binaryData=st.just({"z": "AA=="})),
    "jobs": st.fixed_dictionaries({"spec": jobs}),
    "things": some(spec=things),
}
PATHS = {
    "configmaps": (f"/api/v1{NAMESPACE}/configmaps", "v1", "ConfigMap"),
    "jobs": (f"/apis/batch/v1{NAMESPACE}/jobs", "batch/v1", "Job"),
    "things": (f"/apis/demo.example.com/v1{NAMESPACE}/things", "demo.example.com/v1", "Thing"),
}
managers = st.sampled_from(["one", "two", "three"])


@st.composite
def histories(draw: st.DrawFn, plural: str) -> list[tuple[str, str, Json, str]]:
    """Requests as (method, query, body without kind and name, content type)."""
    steps: list[tuple[str, str, Json, str]] = []
    for _ in range(draw(st.integers(2, 6))):
        body = {**draw(bodies[plural]), "metadata": draw(meta)}
        manager = draw(managers)
        verb = draw(st.sampled_from(["apply", "apply", "apply", "force", "merge"]))
        if verb == "merge":
            steps.append(("PATCH", f"fieldManager={manager}", body, MERGE))
        else:
            steps.append(("PATCH", f"fieldManager={manager}&force={str(verb == 'force').lower()}", body, APPLY))
    return steps


def play(servers: tuple[Embedded, Real], plural: str, steps: list[tuple[str, str, Json, str]]) -> None:
    path, version, kind = PATHS[plural]
    name = f"o{next(NUMBERS)}"
    for method, query, body, content_type in steps:
        head = {"apiVersion": version, "kind": kind} if content_type == APPLY else {}
        tree = {**head, **body, "metadata": {**body["metadata"], "name": name}}
        ours, theirs = (
            _normal(seen(*server.ask(method, f"{path}/{name}?{query}", tree, content_type)), plural)
            for server in servers
        )
        assert ours == theirs, f"{query} {tree}\nours   {ours}\ntheirs {theirs}"


def _normal(answer: Json, plural: str) -> Json:
    if plural == "jobs" and "object" in answer:
        # The uid of the Job is in its selector and labels.
        answer["object"]["spec"].pop("selector", None)
        for holder in (answer["metadata"], answer["object"]["spec"]["template"]["metadata"]):
            for label in ("controller-uid", "batch.kubernetes.io/controller-uid"):
                (holder.get("labels") or {}).pop(label, None)
    if plural == "jobs" and answer["status"] >= 300:
        return {"status": answer["status"], "fields": [cause[:2] for cause in answer["causes"]]}
    return answer


relaxed = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@relaxed
@given(steps=histories("configmaps"))
def test_config_maps_end_the_same(servers: tuple[Embedded, Real], steps: Any) -> None:
    play(servers, "configmaps", steps)


@relaxed
@given(steps=histories("jobs"))
def test_jobs_end_the_same(servers: tuple[Embedded, Real], steps: Any) -> None:
    play(servers, "jobs", steps)


@relaxed
@given(steps=histories("things"))
def test_custom_objects_end_the_same(servers: tuple[Embedded, Real], steps: Any) -> None:
    play(servers, "things", steps)

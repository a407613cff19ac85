"""Requests about field ownership, in order; the answers of a real API server are in golden/apply/apply.jsonl."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.local.apply.servers import APPLY, MERGE

Json = Any
JSON = "application/json"
MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


class Step(NamedTuple):
    title: str
    method: str
    path: str
    body: Json
    content_type: str = APPLY


def config_map(data: Json = None, name: str = "a", **meta: Json) -> Json:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}
    return tree if data is None else {**tree, "data": data}


def job(name: str, containers: Json = None, **spec: Json) -> Json:
    pod = {"restartPolicy": "Never", "containers": containers or [{"name": "a", "image": "x"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}, **spec},
    }


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "x",
                "env": [{"name": "A", "value": "1"}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}
PORTS = [{"containerPort": 8080}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 9}]
TWICE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: '1'\n  a: '2'\n"
STATUS = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "status": {"ready": 1}}

STEPS = [
    Step("no manager", "PATCH", f"{MAPS}/a", config_map({"a": "1"})),
    Step("force is for apply", "PATCH", f"{MAPS}/a?force=true", {"data": {}}, MERGE),
    Step("a manager's name is too long", "PATCH", f"{MAPS}/a?fieldManager={'x' * 129}", config_map()),
    Step("apply creates", "PATCH", f"{MAPS}/a?fieldManager=one", config_map({"a": "1"})),
    Step("the same value is shared", "PATCH", f"{MAPS}/a?fieldManager=two", config_map({"a": "1"})),
    Step("a conflict", "PATCH", f"{MAPS}/a?fieldManager=two", config_map({"a": "2", "b": "1"})),
    Step("two conflicts", "PATCH", f"{MAPS}/a?fieldManager=three", config_map({"a": "2", "b": "1"})),
    Step("forced", "PATCH", f"{MAPS}/a?fieldManager=three&force=true", config_map({"a": "2", "b": "1"})),
    Step("another name", "PATCH", f"{MAPS}/a?fieldManager=one", config_map(name="b")),
    Step("no name", "PATCH", f"{MAPS}/a?fieldManager=one", {"apiVersion": "v1", "kind": "ConfigMap"}),
    Step("another kind", "PATCH", f"{MAPS}/a?fieldManager=one", {"apiVersion": "v1", "kind": "Pod"}),
    Step("no kind", "PATCH", f"{MAPS}/a?fieldManager=one", {"metadata": {"name": "a"}}),
    Step("another group", "PATCH", f"{MAPS}/a?fieldManager=one", {"apiVersion": "batch/v2", "kind": "ConfigMap"}),
    Step("no YAML", "PATCH", f"{MAPS}/a?fieldManager=one", "a: ["),
    Step("a list", "PATCH", f"{MAPS}/a?fieldManager=one", "[]"),
    Step("a string", "PATCH", f"{MAPS}/a?fieldManager=one", "hello"),
    Step("nothing", "PATCH", f"{MAPS}/a?fieldManager=one", ""),
    Step("managedFields in it", "PATCH", f"{MAPS}/a?fieldManager=one", config_map(managedFields=[])),
    Step("an unknown field", "PATCH", f"{MAPS}/a?fieldManager=one", {**config_map(), "foo": 1}),
    Step("a wrong type", "PATCH", f"{MAPS}/a?fieldManager=one", config_map({"a": 1})),
    Step("a list for a map", "PATCH", f"{MAPS}/a?fieldManager=one", config_map([1])),
    Step("a key twice, strict", "PATCH", f"{MAPS}/a?fieldManager=one&fieldValidation=Strict", TWICE),
    Step("a key twice, warned of", "PATCH", f"{MAPS}/a?fieldManager=one&fieldValidation=Warn&force=true", TWICE),
    Step("an old resourceVersion", "PATCH", f"{MAPS}/a?fieldManager=one", config_map(resourceVersion="1")),
    Step("another uid", "PATCH", f"{MAPS}/a?fieldManager=one", config_map(uid="1")),
    Step("a uid for nothing", "PATCH", f"{MAPS}/new?fieldManager=one", config_map(name="new", uid="1")),
    Step(
        "a resourceVersion for nothing",
        "PATCH",
        f"{MAPS}/n?fieldManager=one",
        config_map(name="n", resourceVersion="1"),
    ),
    Step("no namespace", "PATCH", "/api/v1/namespaces/nope/configmaps/a?fieldManager=one", config_map()),
    Step("another namespace", "PATCH", f"{MAPS}/a?fieldManager=one", config_map(namespace="x")),
    Step("the status of nothing", "PATCH", f"{JOBS}/j/status?fieldManager=one", STATUS),
    Step("create", "POST", JOBS, job("j"), JSON),
    Step("create with a manager", "POST", f"{JOBS}?fieldManager=kc", job("j1", suspend=True), JSON),
    Step("apply a Job", "PATCH", f"{JOBS}/j2?fieldManager=one", job("j2")),
    Step("a status", "PATCH", f"{JOBS}/j/status?fieldManager=one", {"status": {"active": 1}}, MERGE),
    Step("apply a status", "PATCH", f"{JOBS}/j/status?fieldManager=one", {**STATUS, "spec": {"parallelism": 7}}),
    Step("a container twice", "PATCH", f"{JOBS}/j3?fieldManager=one", job("j3", [{"name": "a"}] * 2)),
    Step(
        "keys with defaults",
        "PATCH",
        f"{JOBS}/j3?fieldManager=one",
        job("j3", [{"name": "a", "image": "x", "ports": PORTS}]),
    ),
    Step("an invalid Job", "PATCH", f"{JOBS}/j4?fieldManager=one", job("j4", parallelism=-1)),
    Step("two wrong types", "PATCH", f"{JOBS}/j4?fieldManager=one", job("j4", parallelism="x", suspend=3)),
    Step("create a pod", "POST", PODS, POD, JSON),
    Step("forget all managers", "PATCH", f"{MAPS}/a", {"metadata": {"managedFields": [{}]}}, MERGE),
    Step("no manager is tracked", "PATCH", f"{MAPS}/a?fieldManager=m", {"data": {"z": "1"}}, MERGE),
    Step("before the first apply", "PATCH", f"{MAPS}/a?fieldManager=one", config_map({"y": "1"})),
    *(
        Step(f"updater {index}", "PATCH", f"{MAPS}/a?fieldManager=u{index:02}", {"data": {f"k{index}": "1"}}, MERGE)
        for index in range(12)
    ),
]

"""The first inputs of the corpus, from the recorded answers of real servers in tests/golden.

    python -m tests.fuzz.seeds DIRECTORY      write them below DIRECTORY, a folder for each target

They are more than the corpus keeps: `python -m tests.fuzz.minimize --from DIRECTORY` takes those that reach other code.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from job_controller.json_tree import Json
from queue_manager.api import crd_generation
from queue_manager.api.conversion.conversion_review import answer
from queue_manager.api.keys import API_VERSION, V1BETA1
from queue_manager.api.models import KINDS
from queue_manager.api.models.v1beta1 import DIFFERENT
from queue_manager.api.webhook_table import WEBHOOKS
from queue_manager.engine.certificates import issue
from queue_manager.local.kubeconfig_file import write_kubeconfig
from queue_manager.operator.webhooks.certificate_rotation import CertificateState, Pair
from queue_manager.operator.webhooks.certificate_secret import data
from tests.fuzz.targets.objects import WIRE_TYPES
from tests.fuzz.targets.requests import COLLECTIONS, OBJECTS
from tests.fuzz.targets.reviews import NOW

REPOSITORY = Path(__file__).parents[2]
GOLDEN = REPOSITORY / "tests/golden"
MAX_BYTES = 4096  # of a seed
CREDENTIAL_API = "client.authentication.k8s.io/v1"
RULES = b"""\
- match: {labels: {team: a}, priorityClassName: high}
  toLocalQueue: team-a
- match: {labels: {team: b}}
  skip: true
- toLocalQueue: rest
"""
CLUSTER_OBJECTS = b"""\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  cohortName: teams
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
"""
SETTINGS = (
    b"components=Apart\nnamespaces={a,b}\nimage.tag=v1",
    b"webhook.enabled=false\nadmissionPolicies.enabled=true\nadmissionPolicies.queueAccounts=[a:b]",
    b"resources={limits: {cpu: 1}}\ntolerations=[{key: k}]\nreplicas=1",
    b"replicas=none",
    b"image.tag=2026-13-01",
)
Seeds = Iterator[tuple[str, str, bytes]]  # target, head, body


def seeds() -> Seeds:
    """Every seed, many of them alike."""
    yield from _of_objects()
    yield from _of_configurations()
    yield from _of_requests()
    yield from _of_texts()
    yield from _of_access()
    yield from _of_commands()


def _lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def _recorded() -> Iterator[Json]:
    """Objects of Kueue and Jobs as users wrote and servers returned them."""
    for record in _lines("kueue/validation.jsonl"):
        if isinstance(record.get("body"), dict):
            yield record["body"]
    for record in _lines("job-validation.jsonl"):
        for part in ("object", "result"):
            if isinstance(record.get(part), dict):
                yield record[part]
    for file in sorted((GOLDEN / "contract").glob("*.json")):
        for exchanges in json.loads(file.read_text()).values():
            for exchange in exchanges:
                if isinstance(exchange.get("body"), dict):
                    yield exchange["body"]


def _of_objects() -> Seeds:
    plural = {
        kind.__name__: path for kind in KINDS for path in COLLECTIONS if path.endswith(f"/{kind.__name__.lower()}s")
    }
    hooks = {webhook.resource.kind: webhook.path for webhook in WEBHOOKS}
    for obj in _recorded():
        kind, body = str(obj.get("kind", "")), json.dumps(obj).encode()
        if kind in WIRE_TYPES:
            yield "wire-types", kind, body
        if kind in plural and obj.get("apiVersion") == API_VERSION:
            yield "models", kind, body
            yield "conversion-review", "", _conversion(obj)
        if kind in hooks:
            yield "admission-review", hooks[kind], _admission(obj)
        if kind in ("Job", "Workload"):
            event = {"type": "MODIFIED", "object": obj}
            yield "watch-lines", kind, json.dumps(event).encode() + b"\n"
        marks = (obj.get("metadata") or {}).get("annotations") or {}
        if marks and all(isinstance(value, str) for value in marks.values()):
            yield "annotations", "", json.dumps(marks).encode()
        if kind in DIFFERENT and obj.get("apiVersion") == V1BETA1:
            yield "models", f"v1beta1.{kind}", body
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {}}
    yield "watch-lines", "Job", json.dumps({"type": "ERROR", "object": status}).encode()
    bookmark = {"kind": "Job", "metadata": {"resourceVersion": "12"}}
    yield "watch-lines", "Job", json.dumps({"type": "BOOKMARK", "object": bookmark}).encode()
    own = {"sluice/pods-ready-timeout": "10m", "sluice/requeuing-limit": "3", "sluice/min-runtime": "30m"}
    ours = {
        "sluice/backoff-seconds": "5",
        "sluice/failed-pods-limit": "2",
        "sluice/parallelism": "7",
        "sluice/sequence": "9",
        "sluice/job-created": "2026-01-05T10:00:00Z",
    }
    kueue = {"kueue.x-k8s.io/job-min-parallelism": "1", "kueue.x-k8s.io/max-exec-time-seconds": "60"}
    yield "annotations", "", json.dumps(own | ours | kueue).encode()


def _conversion(obj: Json) -> bytes:
    older = answer({"request": {"uid": "u", "desiredAPIVersion": V1BETA1, "objects": [obj]}})["response"]
    found = older.get("convertedObjects") or [obj]
    return json.dumps({"request": {"uid": "u", "desiredAPIVersion": API_VERSION, "objects": found}}).encode()


def _admission(obj: Json) -> bytes:
    group, _, version = str(obj.get("apiVersion", "")).partition("/")
    plural = f"{str(obj['kind']).lower()}s".replace("priorityclasss", "priorityclasses")
    asked = {
        "uid": "u",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": plural},
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def _of_configurations() -> Seeds:
    for name in ("kueue/config-defaults.jsonl", "kueue/config-errors.jsonl"):
        for record in _lines(name):
            if isinstance(record.get("file"), str):
                yield "config", "", record["file"].encode()
            if isinstance(record.get("config"), dict):
                yield "config", "", yaml.safe_dump(record["config"], sort_keys=False).encode()
    for chapter in (REPOSITORY / "config/kueue_config.yaml").read_text().split("\n\n"):
        yield "config", "", b"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n" + chapter.encode()
    for text in _lines("yaml/asked.jsonl"):
        yield "yaml", "", str(text).encode()
        yield "requests", f"POST {next(iter(OBJECTS))}?fieldValidation=Strict application/yaml", str(text).encode()
    issued = issue("fuzz", ["localhost"], NOW)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        write_kubeconfig(file, "https://localhost:1", "t", issued.authority)
        tree = yaml.safe_load(file.read_text())
    users: list[Json] = [
        tree["users"][0]["user"],
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "aws",
                "args": ["x"],
                "env": [{"name": "A", "value": "b"}],
            }
        },
        {"username": "u", "password": "p", "as": "a", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}},
        {"tokenFile": "token", "client-certificate-data": "LS0=", "client-key-data": "LS0="},
    ]
    for user in users:
        tree["users"][0]["user"] = user
        yield "kubeconfig", "", yaml.safe_dump(tree).encode()
    yield "kubeconfig", "", json.dumps(tree).encode()
    state = CertificateState(Pair(issued.certificate, issued.key), issued.authority, None, NOW)
    yield "certificates", "", json.dumps({"data": data(state)}).encode()


def _of_requests() -> Seeds:
    bodies = {str(obj.get("kind")): obj for obj in _recorded()}
    for path, obj in OBJECTS.items():
        body = json.dumps(obj).encode()
        yield "requests", f"POST {path}?fieldValidation=Strict application/json", body
        yield "requests", f"PUT {path}/a? application/json", body
        yield "requests", f"GET {path}?limit=1&labelSelector=l%3D1 application/json", b""
        for media, patch in _patches(obj):
            yield "patches", f"PATCH {path}/a?fieldManager=m {media}", json.dumps(patch).encode()
    for kind, obj in bodies.items():
        for path in COLLECTIONS:
            if path.endswith(f"/{kind.lower()}s"):
                yield "requests", f"POST {path}? application/json", json.dumps(obj).encode()
    definition = crd_generation.crd(KINDS[3])
    yield (
        "requests",
        "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions? application/json",
        json.dumps(definition).encode(),
    )
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "default": 1, "minimum": 0},
                    "b": {"type": "string", "pattern": "^a+$", "format": "date-time", "enum": ["a"]},
                    "c": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                },
                "x-kubernetes-validations": [{"rule": "self.a > 0", "message": "m"}],
            }
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "A", "type": "integer", "jsonPath": ".spec.a"}],
    }
    small = {
        "metadata": {"name": "as.x.io"},
        "spec": {"group": "x.io", "names": {"plural": "as", "kind": "A"}, "scope": "Namespaced", "versions": [version]},
    }
    yield (
        "requests",
        "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions? application/json",
        json.dumps(small).encode(),
    )


def _patches(obj: Json) -> Iterator[tuple[str, Any]]:
    yield (
        "application/merge-patch+json",
        {"metadata": {"labels": {"a": "b", "l": None}}, **({"spec": obj["spec"]} if "spec" in obj else {})},
    )
    yield "application/apply-patch+yaml", obj
    yield (
        "application/json-patch+json",
        [
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
            {"op": "test", "path": "/metadata/name", "value": "a"},
            {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
            {"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/c"},
            {"op": "replace", "path": "/metadata/labels/c", "value": "d"},
            {"op": "remove", "path": "/metadata/labels/c"},
        ],
    )
    containers = [{"name": "c", "image": "j", "$patch": "merge"}, {"name": "d", "$patch": "delete"}]
    template = {
        "spec": {
            "containers": containers,
            "$setElementOrder/containers": [{"name": "c"}],
            "$retainKeys": ["containers"],
        }
    }
    yield (
        "application/strategic-merge-patch+json",
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}, "spec": {"template": template}},
    )


def _of_texts() -> Seeds:
    for text in ("1", "100m", "1.5Gi", "-2e3", "1E", "0.1n", "12e-9", "+.5k", "9223372036854775807", "1Ei"):
        yield "scalars", "quantity", text.encode()
        yield "scalars", "server-quantity", text.encode()
    for head, texts in {
        "duration": ("1h30m", "300ms", "-1.5s", "1µs", "0", "2562047h47m16.854775807s"),
        "time": ("2026-01-01T00:00:00Z", "2026-12-31T23:59:60+01:00", "2024-02-29T00:00:00.123456789-07:00"),
        "micro-time": ("2026-01-01T00:00:00.000001Z",),
        "integer": ("0", "+007", "-9223372036854775808"),
        "indexes": ("0,2-5,7", "1-3,3", "9-1,a"),
        "address": (":8443", "127.0.0.1:80", "[::1]:9", "0"),
        "jsonpath": (".o.items[0].n", '{.o.items[?(@.n=="a")].n}', "$['s']", ".list[*]", ".list[-1]"),
        "continue": ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",),
    }.items():
        for text in texts:
            yield "scalars", head, text.encode()
    for record in _lines("patterns/recorded.jsonl")[::20]:
        yield (
            "scalars",
            "pattern",
            str(record.get("pattern", record) if isinstance(record, dict) else record[0]).encode(),
        )
    for text in ("a=1,b/c!=d", "a in (1,2),!b", "x notin (y), z > 3", "a", "a=", "metadata.name=a\\,b,spec.x!=y"):
        yield "selectors", "labels", text.encode()
        yield "selectors", "fields", text.encode()
    for record in _lines("apply/cel.jsonl"):
        yield "cel", "rule", str(record["rule"]).encode()
    for record in _lines("apply/cel-values.jsonl"):
        yield "cel", "message", str(record["expression"]).encode()
    config_map = b"\n\x0f\n\x02v1\x12\tConfigMap\x12\x0f\n\x05\n\x01a\x12\x00\x12\x06\n\x01k\x12\x01v"
    yield "protobuf", "", b"k8s\x00" + config_map


def _of_access() -> Seeds:
    user = {"username": "u", "groups": ["g"], "uid": "1", "extra": {"k": ["v"]}}
    yield (
        "access-review",
        "review",
        json.dumps({"status": {"authenticated": True, "user": user, "allowed": True}}).encode(),
    )
    headers = {f"requestheader-{key}": json.dumps(["X-Remote-User"]) for key in ("username-headers", "group-headers")}
    more = {"requestheader-allowed-names": '["front"]', "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]'}
    yield (
        "access-review",
        "front-proxy",
        msgspec.json.encode({"requestheader-client-ca-file": "pem", **headers, **more}),
    )


def _of_commands() -> Seeds:
    status = {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z", "clientCertificateData": "c"}
    credential = {"apiVersion": CREDENTIAL_API, "kind": "ExecCredential", "status": status}
    for tree in (credential, {**credential, "status": {}}, {**credential, "apiVersion": "v1"}):
        yield "exec-credential", "", json.dumps(tree).encode()
    yield "import-rules", "", RULES
    yield "cluster-objects", "", CLUSTER_OBJECTS
    yield "cluster-objects", "", CLUSTER_OBJECTS.replace(b"v1beta2", b"v1beta1").replace(b"cohortName", b"cohort")
    for document in (REPOSITORY / "config/samples/queues.yaml").read_bytes().split(b"---\n"):
        yield "cluster-objects", "", document
    for number, obj in enumerate(_recorded()):
        if obj.get("kind") in ("Job", "Workload") and number % 20 == 0:
            page = {"kind": "List", "metadata": {"resourceVersion": "7", "continue": "c"}, "items": [obj]}
            yield "api-responses", "list", json.dumps(page).encode()
            yield "api-responses", "get" if obj["kind"] == "Job" else "patch", json.dumps(obj).encode()
    for details in ({"retryAfterSeconds": 1, "causes": [{"field": "spec"}]}, ["x"], None):
        failure = {"kind": "Status", "reason": "Conflict", "message": "changed", "details": details}
        yield "api-responses", "error", json.dumps(failure).encode()
    yield "api-responses", "error", b"<html>bad gateway</html>"
    for text in SETTINGS:
        yield "settings", "set", text
    values = (REPOSITORY / "deploy/chart/values.yaml").read_text()
    for chapter in values.split("\n\n"):
        yield "settings", "values", chapter.encode()
    labels = {"app.kubernetes.io/name": "kueue"}
    saved: list[Json] = [
        {"kind": "Namespace", "metadata": {"name": "kueue-system", "labels": labels}},
        {"kind": "Deployment", "metadata": {"name": "a", "namespace": "kueue-system"}, "spec": {"replicas": 1}},
        {"kind": "Secret", "metadata": {"name": "s", "namespace": "kueue-system"}, "type": "Opaque"},
    ]
    yield "undo-file", "", yaml.safe_dump_all(saved, sort_keys=False).encode()
    yield "undo-file", "", yaml.safe_dump(crd_generation.crd(KINDS[2]), sort_keys=False).encode()
    yield "undo-file", "", b"kind: Deployment\nmetadata: {name: 2026-13-01}\n"


def write(folder: Path) -> None:
    """Write every seed that is small, named by its content."""
    for target, head, body in seeds():
        content = f"{head}\n".encode() + body if head else body
        if len(content) <= MAX_BYTES:
            file = folder / target / f"seed-{hashlib.sha1(content).hexdigest()[:12]}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

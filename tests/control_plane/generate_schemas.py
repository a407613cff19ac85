"""Write queue_manager/local/data/types.json: the types of the built-in kinds, as a real API server has them.

    python -m tests.control_plane.generate_schemas https://127.0.0.1:6443 TOKEN

Only structure is taken from /openapi/v3: types, formats, list and map types, merge keys. The decoding errors of the
server print the names of its own types; to learn them, each field is sent once with a value of a wrong type.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections import deque
from pathlib import Path
from typing import Any

Json = Any
TARGET = Path(__file__).parents[2] / "queue_manager" / "local" / "data" / "types.json"
DOCUMENTS = (
    "api/v1",
    "apis/batch/v1",
    "apis/events.k8s.io/v1",
    "apis/policy/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
)
# Kind -> path to which it can be posted. A wrong type is refused before any other check.
ROOTS = {
    "io.k8s.api.core.v1.Namespace": "/api/v1/namespaces",
    "io.k8s.api.core.v1.Node": "/api/v1/nodes",
    "io.k8s.api.core.v1.Pod": "/api/v1/namespaces/default/pods",
    "io.k8s.api.core.v1.Event": "/api/v1/namespaces/default/events",
    "io.k8s.api.core.v1.ConfigMap": "/api/v1/namespaces/default/configmaps",
    "io.k8s.api.core.v1.Secret": "/api/v1/namespaces/default/secrets",
    "io.k8s.api.core.v1.ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
    "io.k8s.api.core.v1.LimitRange": "/api/v1/namespaces/default/limitranges",
    "io.k8s.api.core.v1.Binding": "/api/v1/namespaces/default/pods/none/binding",
    "io.k8s.api.batch.v1.Job": "/apis/batch/v1/namespaces/default/jobs",
    "io.k8s.api.events.v1.Event": "/apis/events.k8s.io/v1/namespaces/default/events",
    "io.k8s.api.policy.v1.Eviction": "/api/v1/namespaces/default/pods/none/eviction",
    "io.k8s.api.scheduling.v1.PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "io.k8s.api.coordination.v1.Lease": "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "io.k8s.api.node.v1.RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ),
}
KEPT = (
    "type",
    "format",
    "enum",
    "default",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-group-version-kind",
)
PLACE = re.compile(r"Go struct field (\w+)\.(\S+) of type (\S+)$")


class Server:
    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._ssl = ssl._create_unverified_context()

    def get(self, path: str) -> Json:
        return self._send(urllib.request.Request(self._url + path))

    def post(self, path: str, body: Json) -> Json:
        data = json.dumps(body).encode()
        return self._send(urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}))

    def _send(self, request: urllib.request.Request) -> Json:
        request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, context=self._ssl) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)


def reduce(schema: Json) -> Json:
    """A schema without descriptions, with references as bare names."""
    out = {key: schema[key] for key in KEPT if key in schema}
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), None)
    if reference:
        out["$ref"] = reference.rsplit("/", 1)[1]
    if "items" in schema:
        out["items"] = reduce(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = reduce(schema["additionalProperties"])
    if "properties" in schema:
        out["properties"] = {name: reduce(value) for name, value in sorted(schema["properties"].items())}
    return out


def references(schema: Json) -> list[str]:
    found = [schema["$ref"]] if "$ref" in schema else []
    for part in (schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()):
        found += references(part) if part else []
    return found


def reachable(schemas: dict[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    queue = deque(ROOTS)
    while queue:
        name = queue.popleft()
        if name not in found:
            found[name] = reduce(schemas[name])
            queue.extend(references(found[name]))
    return dict(sorted(found.items()))


def probe(server: Server, types: dict[str, Json]) -> int:
    """Learn the server's type of every field by sending a wrong value for each; returns the number of requests."""
    asked = 0
    for root, url in ROOTS.items():
        kind = types[root]["x-kubernetes-group-version-kind"][0]
        version = f"{kind['group']}/{kind['version']}".lstrip("/")
        queue: deque[tuple[str, list[tuple[str, Json]]]] = deque([(root, [])])
        while queue:
            name, path = queue.popleft()
            if "probed" in types[name]:
                continue
            types[name]["probed"] = True
            for field, schema in types[name].get("properties", {}).items():
                if not path and field in ("apiVersion", "kind"):
                    continue
                step = [*path, (field, schema)]
                asked += 1
                ask(server, url, {"apiVersion": version, "kind": kind["kind"]}, step, types[name])
                inner = schema.get("items") or schema.get("additionalProperties") or schema
                inner = inner.get("items") or inner
                if "$ref" in inner:
                    queue.append((inner["$ref"], step))
    for schema in types.values():
        schema.pop("probed", None)
    return asked


def wrap(schema: Json, value: Json) -> Json:
    """A list or map that contains the value, if the field holds one."""
    if "items" in schema:
        return [wrap(schema["items"], value)]
    if "additionalProperties" in schema:
        return {"k": wrap(schema["additionalProperties"], value)}
    return value


def document(head: Json, path: list[tuple[str, Json]], value: Json) -> Json:
    for field, schema in reversed(path):
        value = {field: value if schema is None else wrap(schema, value)}
    return {**head, **value}


def wrong(schema: Json) -> Json:
    """A value that does not decode as this schema."""
    if schema.get("type") == "string" or schema.get("$ref", "").endswith(("Time",)):
        return 1
    return True if "$ref" in schema and schema["$ref"].endswith("IntOrString") else "x"


def ask(server: Server, url: str, head: Json, path: list[tuple[str, Json]], owner: Json) -> None:
    field, schema = path[-1]
    probes = [("x-go-type", [*path[:-1], (field, None)], wrong(schema))]
    if "items" in schema or "additionalProperties" in schema:
        probes.append(("x-go-item", path, wrong(schema.get("items") or schema["additionalProperties"])))
    for key, where, value in probes:
        match = PLACE.search(server.post(url, document(head, where, value)).get("message", ""))
        if match:
            schema[key] = match[3]
            owner["x-go-name"] = match[1]
            inlined = match[2].rsplit(".", 2)[-2:]
            if inlined[0][:1].isupper():  # the server's paths name the structs from which a field is inlined
                schema["x-go-path"] = ".".join(inlined)


def main(url: str, token: str) -> None:
    server = Server(url, token)
    schemas: dict[str, Json] = {}
    for document_ in DOCUMENTS:
        schemas |= server.get(f"/openapi/v3/{document_}")["components"]["schemas"]
    types = reachable(schemas)
    asked = probe(server, types)
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in types.items()
    )
    TARGET.write_text("{\n" + lines + "\n}\n")
    print(f"{len(types)} types, {asked} fields asked, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""Request bodies: objects of the kinds that the contract uses."""

from __future__ import annotations

from typing import Any

from queue_manager.api.api_resources import Resource

Json = Any


def config_map(name: str = "a", data: Json = None, /, **meta: Any) -> Json:
    """A ConfigMap. Without a name, `meta` gives a generateName."""
    named = {"name": name} if name else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": named | meta,
        "data": {"k": "v"} if data is None else data,
    }


def job(name: str = "j", spec: Json = None, /, **meta: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name} | meta,
        "spec": {"template": template} | (spec or {}),
    }


def pod(name: str = "p", spec: Json = None, /, **meta: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name} | meta,
        "spec": {"containers": [{"name": "main", "image": "app:1"}]} | (spec or {}),
    }


def owner(obj: Json, **more: Any) -> Json:
    """An ownerReference to a stored object."""
    meta = obj["metadata"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]} | more


def definition(group: str, schema: Json, /, *, plural: str = "things", kind: str = "Thing", **version: Any) -> Json:
    """A CustomResourceDefinition of one version whose `spec` has a schema."""
    properties = {
        "spec": schema,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "shortNames": [kind[:2].lower()]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }


def thing(group: str, name: str = "t", /, **spec: Any) -> Json:
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def things(group: str) -> Resource:
    return Resource(group, "v1", "things", "Thing")

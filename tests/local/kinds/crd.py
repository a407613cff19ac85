"""A definition that uses every feature of a schema; test_custom_kinds.py has the answers of the real server to it."""

from __future__ import annotations

from typing import Any

_NAMED = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "value": {"type": "number"}},
}
_SPEC: Any = {
    "type": "object",
    "required": ["color"],
    "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "default": 3},
        "color": {"type": "string", "enum": ["red", "green"]},
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "items": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": _NAMED,
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
        "flag": {"type": "boolean", "nullable": True},
        "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
    },
}
_SCHEMA: Any = {
    "type": "object",
    "description": "A thing.",
    "properties": {
        "spec": _SPEC,
        "status": {
            "type": "object",
            "properties": {
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                }
            },
        },
    },
}
_VERSION: Any = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {"status": {}},
    "additionalPrinterColumns": [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
    "selectableFields": [{"jsonPath": ".spec.color"}],
    "schema": {"openAPIV3Schema": _SCHEMA},
}
THINGS: Any = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.demo.example.com"},
    "spec": {
        "group": "demo.example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "shortNames": ["th"],
            "categories": ["all"],
        },
        "versions": [_VERSION],
    },
}

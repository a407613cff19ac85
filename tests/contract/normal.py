"""Normalize answers: replace what differs from run to run (uids, times, versions, generated names) by tokens.

Relations are kept: the same uid becomes the same token wherever it appears, and an unchanged resourceVersion stays
visibly unchanged.
"""

from __future__ import annotations

import re
from typing import Any

Json = Any

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
AGE = re.compile(r"(\d+d)?(\d+h)?(\d+m)?\d+m?s")
REVISION = re.compile(
    r"((?:too old resource version|resource version|current): )\d+|(ResourceVersion in record) \(\d+\)"
)
TOO_OLD = re.compile(r"(too old resource version: ) N \(\d+\)")
GENERATED = re.compile(r"\b(made-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
# Messages print a pod template as a Go struct of the server's own types.
TEMPLATE = re.compile(r'\{"(Labels|Annotations|Finalizers|Spec)":.*?\}: field is immutable')
# The refusal of a pod update contains a diff of the server's own types.
POD_DIFF = re.compile(r"\n@@ [\s\S]*\n")
# The refusal of a patch shows the patched object, whose fields have no fixed order.
CUT = re.compile(r"contract-[0-9a-f]* \.\.\.")  # a truncated body
PATCHED = re.compile(r'Invalid value: "\{\\".*?\}": ', re.DOTALL)
HIDDEN = ("managedFields",)


def _manager(entry: Json) -> list[str]:
    """Sort key of a managedFields entry; their order depends on which were written within the same second."""
    return [str(entry.get(name, "")) for name in ("manager", "operation", "apiVersion", "subresource")]


class Normal:
    """Normalizes the answers of one session; `names` maps texts to tokens."""

    def __init__(self, names: dict[str, str], *, managed_fields: bool = False, versions: bool = True) -> None:
        self._names = names
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._compare_versions = versions
        self._hidden = () if managed_fields else HIDDEN

    def tree(self, value: Json, key: str = "") -> Json:
        """A JSON value, normalized."""
        match value:
            case dict():
                return self._object(value)
            case list() if key == "managedFields":
                return [self.tree(item) for item in sorted(value, key=_manager)]
            case list() if key == "cells":
                return ["AGE" if isinstance(cell, str) and AGE.fullmatch(cell) else self.tree(cell) for cell in value]
            case list():
                return [self.tree(item) for item in value]
            case str() if key == "resourceVersion":
                if not self._compare_versions:
                    return "VERSION"
                return self._versions.setdefault(value, f"version-{len(self._versions) + 1}") if value else ""
            case str() if key == "continue" and value:
                return "CONTINUE"
            case str():
                return self.text(value)
        return value

    def _object(self, value: dict[str, Json]) -> Json:
        collection = "items" in value or "rows" in value
        out = {}
        for name in sorted(value):
            if name in self._hidden or (name == "description" and "priority" in value):
                continue
            if name == "metadata" and collection and isinstance(value[name], dict) and "resourceVersion" in value[name]:
                # The version of a list changes with every write to the server.
                out[name] = self._object(value[name] | {"resourceVersion": ""}) | {"resourceVersion": "VERSION"}
            else:
                out[self.text(name)] = self.tree(value[name], name)
        return out

    def text(self, text: str) -> str:
        """A text, normalized."""
        for name, token in self._names.items():
            text = text.replace(name, token)
        text = UUID.sub(lambda found: self._uids.setdefault(found[0], f"uid-{len(self._uids) + 1}"), text)
        text = MICRO_TIME.sub("MICROTIME", text)
        text = TIME.sub("TIME", text)
        text = REVISION.sub(lambda found: f"{found[1] or found[2]} N", text)
        text = TOO_OLD.sub(r"\1N", text)
        text = TEMPLATE.sub("TEMPLATE: field is immutable", text)
        text = CUT.sub("NAMESPACE ...", text)
        text = POD_DIFF.sub("", text)
        text = PATCHED.sub('Invalid value: "OBJECT": ', text)
        return GENERATED.sub(r"\1XXXXX", text)

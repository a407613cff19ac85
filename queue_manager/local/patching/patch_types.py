"""Apply JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch to an object.

Errors have the API server's texts. The work of a JSON patch is bounded: operations, copied bytes and moved list items.
"""

from __future__ import annotations

import copy
import re
from http import HTTPStatus

import orjson

from job_controller.api_rules.field_errors import invalid_here, show
from job_controller.json_tree import Json
from queue_manager.engine.transport_protocol import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.patching.strategic import BadPatch, go, strategic_merge
from queue_manager.local.request_limits import excess
from queue_manager.local.schema.json_parsing import parse_json
from queue_manager.local.schema.strict_decoding import TypedSchema
from queue_manager.local.status_errors import StatusError, bad_request, unsupported_media_type

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024  # bytes that all copy operations of one patch may add
MAX_SHIFTED = 50_000_000  # list items moved aside by insertions and removals of one patch

_MISMATCH = re.compile(r"json: cannot unmarshal (\w+)(?: \S+)? into Go struct field \S+ of type (\S+)$")
_UNKNOWN_FORMAT = "the body of the request was in an unknown format - accepted media types include: "


def apply_patch(kind: Kind, content_type: str, current: Json, patch: bytes) -> Json:
    """Return the patched object. Consumes `current`, except for a merge patch. Raises StatusError 4xx, 500."""
    media = content_type.partition(";")[0].strip().lower()
    if media == JSON_PATCH:
        return _json_patch(current, patch)
    if media == MERGE_PATCH:
        tree = _decode(patch, "error decoding patch: ")
        return merge_patch(current, _require_map(tree, "error decoding patch: "))
    if media == STRATEGIC_PATCH and isinstance(kind.schema, TypedSchema):
        tree = _decode(patch, "")
        try:
            return strategic_merge(current, _require_map(tree, ""), kind.schema.shape)
        except BadPatch as error:
            reason = "BadRequest" if error.code == HTTPStatus.BAD_REQUEST else ""
            raise StatusError(error.code, reason, str(error)) from None
    require_language(kind, content_type)
    raise AssertionError(f"a patch of {media} passed as one of a known language")


def is_merge(content_type: str) -> bool:
    """Whether the content type is that of a JSON merge patch."""
    return content_type.partition(";")[0].strip().lower() == MERGE_PATCH


def is_strategic(content_type: str) -> bool:
    """Whether the content type is that of a strategic merge patch."""
    return content_type.partition(";")[0].strip().lower() == STRATEGIC_PATCH


def require_language(kind: Kind, content_type: str) -> None:
    """Raise 415 for a patch type that objects of this kind do not support."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    typed = isinstance(kind.schema, TypedSchema)
    if media in (JSON_PATCH, MERGE_PATCH) or (media == STRATEGIC_PATCH and typed):
        return
    accepted = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH if typed else APPLY_PATCH]
    raise unsupported_media_type(_UNKNOWN_FORMAT + ", ".join(accepted))


def undecodable(kind: Kind, content_type: str, patch: bytes, patched: bytes, why: str) -> StatusError:
    """Return 422 for a patched object that cannot be decoded, or has unknown fields under Strict."""
    media = content_type.partition(";")[0].strip().lower()
    shown = go(orjson.loads(patch)) if media == STRATEGIC_PATCH else patched.decode()
    why = why.removeprefix(
        f'{kind.resource.kind} in version "{kind.resource.version}" cannot be handled as a {kind.resource.kind}: '
    )
    if media == STRATEGIC_PATCH:
        why = _converted(why)
    cause = invalid_here("patch", f"{show(shown)}: {why}")
    details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}]}
    return StatusError(422, "Invalid", f' "" is invalid: {cause}', details)


def _converted(why: str) -> str:
    """Reword a decoding error for a strategic merge patch, whose result is converted instead of decoded."""
    match = _MISMATCH.match(why)
    if match is None:
        return why
    match match[1], match[2]:
        case "object", kind if kind.startswith("[]"):
            return "cannot restore slice from map"
        case "number", "string":
            return "cannot convert int64 to string"
        case "string", "int32" | "int64" | "bool" as kind:
            return f"unrecognized type: {kind}"
    return why


def _decode(patch: bytes, prefix: str) -> Json:
    tree = parse_json(patch, prefix, repeated=False)
    if too_much := excess(tree, patch):
        raise bad_request(f"{prefix}the patch {too_much}")
    return tree


def _require_map(tree: Json, prefix: str) -> Json:
    if isinstance(tree, dict):
        return tree
    if tree is None:
        raise bad_request("Invalid JSON Patch")
    raise bad_request(
        f"{prefix}json: cannot unmarshal {_json_kind(tree)} into Go value of type map[string]interface {{}}"
    )


def _json_kind(tree: Json) -> str:
    return {list: "array", dict: "object", str: "string", bool: "bool"}.get(type(tree), "number")


# --- merge patch ---------------------------------------------------------------------------------------------


def merge_patch(current: Json, patch: Json) -> Json:
    """Apply RFC 7386. `current` is not changed; the result shares the untouched parts with it."""
    if not isinstance(patch, dict):
        return patch
    current = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            current.pop(name, None)
        elif isinstance(value, dict):
            current[name] = merge_patch(current.get(name), value)
        else:
            current[name] = value
    return current


# --- JSON patch ----------------------------------------------------------------------------------------------


class _Rejected(Exception):
    """An operation that cannot be applied. The server does not report the cause."""


def _json_patch(current: Json, patch: bytes) -> Json:
    operations = _decode(patch, "error decoding patch: ")
    if operations is None:
        return current
    prefix = "error decoding patch: json: cannot unmarshal"
    if not isinstance(operations, list):
        raise bad_request(f"{prefix} {_json_kind(operations)} into Go value of type []handlers.jsonPatchOp")
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request(f"{prefix} {_json_kind(operation)} into Go value of type handlers.jsonPatchOp")
    if len(operations) > MAX_OPERATIONS:
        limit = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {limit}")
    try:
        patched = _Document(current).apply(operations)
    except _Rejected:
        raise StatusError(
            422, "Invalid", "the server rejected our request due to an error in our request", {}
        ) from None
    return patched


class _Document:
    """A tree with operations applied, and the amount of work that they have caused."""

    def __init__(self, tree: Json) -> None:
        self._tree = tree
        self._copied = self._shifted = 0

    def apply(self, operations: list[Json]) -> Json:
        for operation in operations:
            self._apply(operation)
        if excess(self._tree):
            raise _Rejected
        return self._tree

    def _apply(self, operation: Json) -> None:
        path = _pointer(operation.get("path"))
        match operation.get("op"):
            case "add":
                self._add(path, operation.get("value"))
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, operation.get("value"))
            case "move":
                self._add(path, self._remove(_pointer(operation.get("from"))))
            case "copy":
                self._copy(_pointer(operation.get("from")), path)
            case "test":
                if not same(self._get(path), operation.get("value")):
                    raise _Rejected
            case _:
                raise _Rejected

    def _parent(self, path: list[str]) -> Json:
        if not path:
            raise _Rejected
        node = self._tree
        for step in path[:-1]:
            node = self._child(node, step)
        if not isinstance(node, dict | list):
            raise _Rejected
        return node

    def _child(self, node: Json, step: str) -> Json:
        if isinstance(node, dict) and step in node:
            return node[step]
        if isinstance(node, list):
            return node[_index(step, len(node))]
        raise _Rejected

    def _get(self, path: list[str]) -> Json:
        if not path:
            return self._tree
        parent = self._parent(path)
        return parent.get(path[-1]) if isinstance(parent, dict) else self._child(parent, path[-1])

    def _add(self, path: list[str], value: Json) -> None:
        parent = self._parent(path)
        if isinstance(parent, dict):
            parent[path[-1]] = value
            return
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent) + 1)
        self._shift(len(parent) - at)
        parent.insert(at, value)

    def _remove(self, path: list[str]) -> Json:
        parent = self._parent(path)
        if isinstance(parent, dict):
            if path[-1] not in parent:
                raise _Rejected
            return parent.pop(path[-1])
        at = _index(path[-1], len(parent))
        self._shift(len(parent) - at)
        return parent.pop(at)

    def _replace(self, path: list[str], value: Json) -> None:
        if not path:
            self._tree = value
            return
        parent = self._parent(path)
        if isinstance(parent, dict):
            parent[path[-1]] = value
        else:
            parent[_index(path[-1], len(parent))] = value

    def _copy(self, source: list[str], path: list[str]) -> None:
        value = self._get(source)
        try:
            self._copied += len(orjson.dumps(value))
        except (orjson.JSONEncodeError, RecursionError):  # nested deeper than any object may be
            raise _Rejected from None
        if self._copied > MAX_COPIED:
            raise _Rejected
        self._add(path, copy.deepcopy(value))

    def _shift(self, items: int) -> None:
        self._shifted += items
        if self._shifted > MAX_SHIFTED:
            raise _Rejected


def _pointer(text: Json) -> list[str]:
    """Parse a JSON pointer (RFC 6901)."""
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _Rejected
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(text: str, length: int) -> int:
    """Parse a list index. Negative ones count from the end of the list."""
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 10:
        raise _Rejected
    index = int(text) + (length if text.startswith("-") else 0)
    if not 0 <= index < length:
        raise _Rejected
    return index


def same(one: Json, other: Json) -> bool:
    """Compare JSON values: 1, 1.0 and true are not equal to each other."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)

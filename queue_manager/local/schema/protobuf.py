"""Decode Kubernetes objects from protobuf by tables of known fields.

`kubectl create` sends the kinds in `KINDS` in protobuf and has no option to send JSON. The tables contain the fields
that kubectl sets, and those that Go always encodes, even if empty, because they are not pointers. A field outside the
tables is rejected and never dropped: without it the object would not be what the client requested.

The body is the magic number, then the message `Unknown`, which names the kind and contains the object:

    k8s   Unknown{1: TypeMeta{1: apiVersion, 2: kind}, 2: raw, 3: contentEncoding, 4: contentType}
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import NamedTuple

from job_controller.json_tree import Json
from queue_manager.local.request_limits import MAX_VALUES, TOO_MANY

MAGIC = b"k8s\0"
_VARINT, _BYTES = 0, 2  # wire types; Kubernetes has no fields of fixed size
_MAX_VARINT = 10  # bytes


class Malformed(ValueError):
    """The bytes are not a valid message of the expected type."""


class NotKnown(ValueError):
    """The tables do not contain this kind, or this field of the kind."""

    def __init__(self, kind: str, field: str = "") -> None:
        super().__init__(f"{field} of {kind}" if field else kind)
        self.kind = kind
        self.field = field


class Scalar(Enum):
    """The type of a value that is not a message. A text and base64 are bytes on the wire, the others varints."""

    TEXT = auto()
    BASE64 = auto()  # bytes, which are base64 in JSON
    INTEGER = auto()
    BOOLEAN = auto()


class Form(Enum):
    """Whether a field is a single value, repeated, or a map."""

    ONE = auto()  # omitted from the JSON when empty
    LIST = auto()
    MAP = auto()  # with string keys


class WireField(NamedTuple):
    """A field of a message: its name in JSON and the type of its values."""

    name: str
    type: Scalar | Message
    form: Form = Form.ONE


Message = Mapping[int, WireField]


def decode(body: bytes) -> Json:
    """Return the object in a body as JSON. Raises Malformed, NotKnown."""
    head, raw = _envelope(body)
    api_version, kind = head.get("apiVersion", ""), head.get("kind", "")
    fields = KINDS.get((api_version, kind))
    if fields is None:
        raise NotKnown(kind)
    return {"apiVersion": api_version, "kind": kind, **_Decoder(kind).message(raw, fields, "")}


def kind_of(body: bytes) -> str:
    """Return the kind of the object in a body, even if it is not in the tables; empty if the body names none."""
    try:
        return str(_envelope(body)[0].get("kind", ""))
    except (Malformed, NotKnown):
        return ""


def _envelope(body: bytes) -> tuple[Json, bytes]:
    if not body.startswith(MAGIC):
        raise Malformed("it does not begin with the magic number of Kubernetes")
    head, raw = {}, b""
    for number, value in _wire(body[len(MAGIC) :]):
        if number == 1:
            head = _Decoder("TypeMeta").message(_bytes(value, "typeMeta"), _TYPE_META, "")
        elif number == 2:
            raw = _bytes(value, "raw")
        elif value:
            raise Malformed("the object in it is encoded or of another content type")
    return head, raw


class _Decoder:
    """Decodes one object and counts its values."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._left = MAX_VALUES

    def message(self, data: bytes, fields: Message, path: str) -> Json:
        tree: Json = {}
        for number, value in _wire(data):
            self._left -= 1
            if self._left < 0:
                raise Malformed(f"it {TOO_MANY}")
            field = fields.get(number)
            if field is None:
                raise NotKnown(self._kind, f"field {number}{f' of {path}' if path else ''}")
            self._add(tree, field, value, f"{path}.{field.name}" if path else field.name)
        return tree

    def _add(self, tree: Json, field: WireField, value: int | bytes, path: str) -> None:
        match field.form:
            case Form.MAP:
                entry = self.message(_bytes(value, path), {1: _KEY, 2: WireField("value", field.type)}, path)
                tree.setdefault(field.name, {})[entry.get("key", "")] = entry.get("value", "")
            case Form.LIST:
                tree.setdefault(field.name, []).append(self._value(field.type, value, path))
            case Form.ONE:
                if decoded := self._value(field.type, value, path):
                    tree[field.name] = decoded

    def _value(self, type: Scalar | Message, value: int | bytes, path: str) -> Json:
        match type:
            case Scalar.TEXT:
                return _text(_bytes(value, path), path)
            case Scalar.BASE64:
                return base64.b64encode(_bytes(value, path)).decode()
            case Scalar.INTEGER:
                number = _integer(value, path)
                return number - (1 << 64) if number >= 1 << 63 else number
            case Scalar.BOOLEAN:
                return bool(_integer(value, path))
            case _:
                return self.message(_bytes(value, path), type, path)


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field, in the order of the bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value, at = _varint(data, at)
        if key & 7 == _BYTES:
            end = at + value
            if end > len(data):
                raise Malformed("it ends within a field")
            yield key >> 3, data[at:end]
            at = end
        elif key & 7 == _VARINT:
            yield key >> 3, value
        else:
            raise Malformed(f"field {key >> 3} has wire type {key & 7}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a varint (seven bits per byte, the lowest first). Returns the value and the position after it."""
    value = 0
    for index, byte in enumerate(data[at : at + _MAX_VARINT]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value & (1 << 64) - 1, at + index + 1
    raise Malformed("it ends within a number, or the number is too large")


def _bytes(value: int | bytes, path: str) -> bytes:
    if isinstance(value, int):
        raise Malformed(f"{path} is a number")
    return value


def _integer(value: int | bytes, path: str) -> int:
    if isinstance(value, bytes):
        raise Malformed(f"{path} is not a number")
    return value


def _text(value: bytes, path: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{path} is not UTF-8") from None


# --- tables -------------------------------------------------------------------------------------------------

_KEY = WireField("key", Scalar.TEXT)
_EMPTY: Message = {}  # a message that Go encodes even if it is empty
_TYPE_META: Message = {1: WireField("apiVersion", Scalar.TEXT), 2: WireField("kind", Scalar.TEXT)}
_METADATA = WireField(
    "metadata",
    {
        1: WireField("name", Scalar.TEXT),
        2: WireField("generateName", Scalar.TEXT),
        3: WireField("namespace", Scalar.TEXT),
        4: WireField("selfLink", Scalar.TEXT),
        5: WireField("uid", Scalar.TEXT),
        6: WireField("resourceVersion", Scalar.TEXT),
        7: WireField("generation", Scalar.INTEGER),
        8: WireField("creationTimestamp", _EMPTY),
        11: WireField("labels", Scalar.TEXT, Form.MAP),
        12: WireField("annotations", Scalar.TEXT, Form.MAP),
    },
)
_CONTAINER: Message = {
    1: WireField("name", Scalar.TEXT),
    2: WireField("image", Scalar.TEXT),
    3: WireField("command", Scalar.TEXT, Form.LIST),
    5: WireField("workingDir", Scalar.TEXT),
    8: WireField("resources", _EMPTY),
    13: WireField("terminationMessagePath", Scalar.TEXT),
    14: WireField("imagePullPolicy", Scalar.TEXT),
    16: WireField("stdin", Scalar.BOOLEAN),
    17: WireField("stdinOnce", Scalar.BOOLEAN),
    18: WireField("tty", Scalar.BOOLEAN),
    20: WireField("terminationMessagePolicy", Scalar.TEXT),
}
_POD_SPEC: Message = {
    2: WireField("containers", _CONTAINER, Form.LIST),
    3: WireField("restartPolicy", Scalar.TEXT),
    6: WireField("dnsPolicy", Scalar.TEXT),
    8: WireField("serviceAccountName", Scalar.TEXT),
    9: WireField("serviceAccount", Scalar.TEXT),
    10: WireField("nodeName", Scalar.TEXT),
    11: WireField("hostNetwork", Scalar.BOOLEAN),
    12: WireField("hostPID", Scalar.BOOLEAN),
    13: WireField("hostIPC", Scalar.BOOLEAN),
    16: WireField("hostname", Scalar.TEXT),
    17: WireField("subdomain", Scalar.TEXT),
    19: WireField("schedulerName", Scalar.TEXT),
    24: WireField("priorityClassName", Scalar.TEXT),
}
_POD_TEMPLATE: Message = {1: _METADATA, 2: WireField("spec", _POD_SPEC)}
_JOB_STATUS: Message = {
    4: WireField("active", Scalar.INTEGER),
    5: WireField("succeeded", Scalar.INTEGER),
    6: WireField("failed", Scalar.INTEGER),
    7: WireField("completedIndexes", Scalar.TEXT),
}
KINDS: Mapping[tuple[str, str], Message] = {
    ("v1", "Namespace"): {
        1: _METADATA,
        2: WireField("spec", _EMPTY),
        3: WireField("status", {1: WireField("phase", Scalar.TEXT)}),
    },
    ("v1", "ConfigMap"): {
        1: _METADATA,
        2: WireField("data", Scalar.TEXT, Form.MAP),
        3: WireField("binaryData", Scalar.BASE64, Form.MAP),
    },
    ("v1", "Secret"): {
        1: _METADATA,
        2: WireField("data", Scalar.BASE64, Form.MAP),
        3: WireField("type", Scalar.TEXT),
    },
    ("batch/v1", "Job"): {
        1: _METADATA,
        2: WireField("spec", {6: WireField("template", _POD_TEMPLATE)}),
        3: WireField("status", _JOB_STATUS),
    },
}

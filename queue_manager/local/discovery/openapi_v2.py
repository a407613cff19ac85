"""A minimal OpenAPI v2 document, for clients that read v3 for everything else.

kubectl reads /openapi/v2 only for manifests of `kind: List`, to find out whether the server validates fields: whether
PATCH of namespaces has a query parameter fieldValidation. Without the document it rejects the manifest. It accepts the
document only in protobuf; the messages are those of gnostic's openapiv2, whose field numbers stand below.
"""

from __future__ import annotations

CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
_GVK = "x-kubernetes-group-version-kind"


def document() -> bytes:
    """Return a `Document` with one path, PATCH of a namespace, and its query parameters."""
    query = [_parameter(name) for name in PARAMETERS]
    extension = _message(1, _GVK.encode()) + _message(2, _message(2, b'{"group":"","kind":"Namespace","version":"v1"}'))
    patch = b"".join(_message(8, parameter) for parameter in query) + _message(13, extension)  # Operation
    path = _message(1, b"/api/v1/namespaces/{name}") + _message(2, _message(8, patch))  # NamedPathItem, PathItem
    info = _message(1, b"Kubernetes") + _message(2, b"v1")
    return _message(1, b"2.0") + _message(2, info) + _message(8, _message(2, path))  # Document, Paths


def _parameter(name: str) -> bytes:
    """Encode ParametersItem > Parameter > NonBodyParameter > QueryParameterSubSchema {in, name, type}."""
    schema = _message(2, b"query") + _message(4, name.encode()) + _message(6, b"string")
    return _message(1, _message(2, _message(3, schema)))


def _message(field: int, content: bytes) -> bytes:
    """Encode a protobuf field of wire type 2 (length-delimited)."""
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)

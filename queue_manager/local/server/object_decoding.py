"""Decode the body of a request into an object of the kind that the URL names. Errors have the API server's texts."""

from __future__ import annotations

from functools import cache

from job_controller.json_tree import Json
from queue_manager.local.kinds.custom_kinds import CustomSchema
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.request_limits import MAX_BODY
from queue_manager.local.schema import protobuf
from queue_manager.local.schema.builtin_types import definitions
from queue_manager.local.schema.json_parsing import parse_json
from queue_manager.local.server.http_messages import JSON_TYPE, PROTOBUF, YAML_TYPES, ServerRequest, media_type
from queue_manager.local.server.request_bodies import (
    check_size,
    json_type,
    no_object,
    protobuf_refusal,
    read_body,
    read_yaml,
    yaml_errors,
)
from queue_manager.local.status_errors import StatusError, bad_request, unsupported_media_type

SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
_SHOWN = 30  # bytes of the body quoted in an error


def read_object(request: ServerRequest, kind: Kind, warnings: list[str]) -> Json:
    """Decode the body as an object of this kind. Raises StatusError 400, 413, 415.

    Repeated names survive in JSON as json_parsing.Repeated. In YAML they are rejected here, or added to `warnings`.
    """
    media, body = media_type(request), request.body
    if media == PROTOBUF and len(body) <= MAX_BODY:
        tree = _from_protobuf(body)
    elif media in ("", JSON_TYPE) and len(body) <= MAX_BODY:
        tree = _parse_json(body, kind)
    elif media in YAML_TYPES and len(body) <= MAX_BODY:
        tree = _parse_yaml(request, kind, warnings)
    else:
        tree = read_body(request)
    if tree is None and not isinstance(kind.schema, CustomSchema):
        tree = {}
    if not isinstance(tree, dict):
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {no_object(tree)}", body)
    _check_head(tree, body, kind)
    return tree


def _from_protobuf(body: bytes) -> Json:
    try:
        return protobuf.decode(body)
    except protobuf.NotKnown as error:
        raise unsupported_media_type(protobuf_refusal(error.kind, error.field)) from None
    except protobuf.Malformed as error:
        raise bad_request(f"the body is not valid protobuf: {error}") from None


def _parse_json(body: bytes, kind: Kind) -> Json:
    try:
        tree = parse_json(body)
    except StatusError as error:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {error.message}", body) from None
    check_size(tree, body)
    return tree


def _parse_yaml(request: ServerRequest, kind: Kind, warnings: list[str]) -> Json:
    read = read_yaml(request.body)
    if read.error is not None:
        raise _unrecognized(kind, read.error, request.body)
    validation = request.query.get("fieldValidation", "")
    if read.repeated and validation == "Strict":
        name = kind.resource.kind
        raise bad_request(
            f'{name} in version "{kind.resource.version}" cannot be handled as a {name}: strict decoding error: '
            + yaml_errors(read.repeated)
        )
    if validation != "Ignore":
        warnings += read.repeated
    return read.tree


def _unrecognized(kind: Kind, why: str, body: bytes) -> StatusError:
    shown = body[:_SHOWN].decode("utf-8", "replace") if body[:1] == b"{" else body[:_SHOWN].hex()
    shown += " ..." if len(body) > _SHOWN else ""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.resource.kind}): {why} ({shown or '<empty>'})"
    )


def _check_head(tree: Json, body: bytes, kind: Kind) -> None:
    """Check that apiVersion and kind match the URL. Built-in kinds may omit them."""
    for field in ("kind", "apiVersion"):
        value = tree.get(field)
        if value is not None and not isinstance(value, str):
            why = f"json: cannot unmarshal {json_type(value)} into Go struct field .{field} of type string"
            raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", body)
    version, name = tree.get("apiVersion") or "", tree.get("kind") or ""
    resource = kind.resource
    if isinstance(kind.schema, CustomSchema):
        if not name:
            text = body.decode("utf-8", "replace")
            raise _unrecognized(kind, f"Object 'Kind' is missing in '{text}'", body)
        if version != resource.api_version:
            expected = f"does not match the expected API version ({resource.api_version})"
            raise bad_request(f"the API version in the data ({version}) {expected}")
        return
    version, name = version or resource.api_version, name or resource.kind
    if version.count("/") > 1:
        raise _unrecognized(kind, f"unexpected GroupVersion string: {version}", body)
    if (version, name) == (resource.api_version, resource.kind):
        return
    short = version.rpartition("/")[2]
    if (version, name) in _known():
        inner = resource.group.partition(".")[0] or "core"
        why = f"converting ({short}.{name}) to ({inner}.{resource.kind}): unknown conversion"
    else:
        why = f'no kind "{name}" is registered for version "{version}" {SCHEME}'
    raise bad_request(f'{name} in version "{short}" cannot be handled as a {resource.kind}: {why}')


@cache
def _known() -> frozenset[tuple[str, str]]:
    """Return the kinds that a Kubernetes API server has a Go type for.

    These are the kinds whose types this server has, and a few that clients often send to the wrong path.
    """
    found = {("batch/v1", "CronJob"), ("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "List")}
    for definition in definitions().values():
        for gvk in definition.get("x-kubernetes-group-version-kind", ()):
            found.add((f"{gvk['group']}/{gvk['version']}".lstrip("/"), gvk["kind"]))
    return frozenset(found)

"""Reads the body of a request as JSON: from JSON or YAML, within the limits of its size and depth.

A body that is too large is answered with 413, one of a format that is not read with 415, anything else that cannot be
read with 400. `object_decoding` makes an object of a kind from it.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import orjson
import yaml

from job_controller.json_tree import Json
from queue_manager import kube_yaml
from queue_manager.local import status_errors
from queue_manager.local.request_limits import MAX_BODY, MAX_VALUES, TOO_MANY, excess
from queue_manager.local.schema import protobuf
from queue_manager.local.schema.cpu_time_limits import TimeLimitExceeded, limited
from queue_manager.local.schema.json_parsing import marked_object, whole
from queue_manager.local.server.http_messages import JSON_TYPE, PROTOBUF, YAML_TYPES, ServerRequest, media_type

_HEAD = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def read_body(request: ServerRequest) -> Json:
    """Return the body as a JSON object. Raises 400, 413, 415.

    Repeated field names are detected only if the client requests field validation, because that takes ten times as long
    as decoding.
    """
    media = media_type(request)
    if len(request.body) > MAX_BODY:
        raise status_errors.too_large(MAX_BODY)
    if media in ("", JSON_TYPE):
        tree = decode_json(request.body)
        if request.query.get("fieldValidation", "Ignore") != "Ignore":
            tree = _with_repeated(request.body)
            check_size(tree, request.body)
    elif media in YAML_TYPES:
        tree = _decode_yaml(request.body)
    elif media == PROTOBUF:
        raise status_errors.unsupported_media_type(protobuf_refusal(protobuf.kind_of(request.body)))
    else:
        raise status_errors.unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: "
            f"{JSON_TYPE}, {YAML_TYPES[0]}"
        )
    if not isinstance(tree, dict):
        raise status_errors.bad_request(f"couldn't get version/kind; json parse error: {no_object(tree)}")
    return tree


def protobuf_refusal(kind: str, field: str = "") -> str:
    """Return the error for a kind or field that is not decoded from protobuf. It names a kubectl command to use."""
    match kind:
        case "DeleteOptions":
            instead = "kubectl drain without --disable-eviction"
        case "PriorityClass":
            instead = "kubectl create priorityclass NAME --value=VALUE --dry-run=client -o yaml | kubectl apply -f -"
        case "ServiceAccount":
            instead = "kubectl create serviceaccount NAME --dry-run=client -o yaml | kubectl apply -f -"
        case _:
            instead = "kubectl apply -f FILE"
    what = f"{field} of {kind}" if field else kind or "this body"
    return f"this API server does not read {what} in protobuf; send JSON or YAML, with kubectl: {instead}"


def decode_json(body: bytes) -> Json:
    """Return a JSON value of bounded size and depth. Raises 400."""
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise status_errors.bad_request(f"the body is not valid JSON: {error}") from None
    check_size(tree, body)
    return tree


def _decode_yaml(body: bytes) -> Json:
    read = read_yaml(body)
    if read.error is not None:
        raise status_errors.bad_request(f"the body is not valid YAML: {read.error}")
    return read.tree


class Yaml(NamedTuple):
    """The content of a YAML body: its first document and the keys repeated in a mapping, or why it cannot be parsed."""

    tree: Json
    repeated: list[str]
    error: str | None


def read_yaml(body: bytes) -> Yaml:
    """Convert a YAML body to JSON as an API server does. Raises NeedsWorkerProcess; StatusError 400 beyond a limit."""
    try:
        read = limited(lambda: convert_yaml(body), "yaml", lambda: [body.decode("latin-1")], Yaml)
    except TimeLimitExceeded:
        raise _too_much("takes too long to read") from None
    if read.error == TOO_MANY:
        raise _too_much(TOO_MANY)
    return read


def convert_yaml(body: bytes) -> Yaml:
    """The conversion that `read_yaml` runs within a time limit. TOO_MANY is returned like any other error."""
    repeated: list[kube_yaml.Repeated] = []
    try:
        tree = kube_yaml.load(body, MAX_VALUES, repeated)
    except kube_yaml.TooManyValues:
        return Yaml(None, [], TOO_MANY)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return Yaml(None, [], _yaml_error(error))
    return Yaml(
        tree, [f"line {key.start_mark.line + 1}: key {_shown(key)} already set in map" for _, key in repeated], None
    )


def _shown(key: yaml.ScalarNode) -> str:
    return f'"{key.value}"' if key.tag == kube_yaml.STR else kube_yaml.key_name(key)


def yaml_errors(lines: list[str]) -> str:
    """Join errors of several lines as the server's YAML parser does."""
    return "yaml: unmarshal errors:\n" + "\n".join(f"  {line}" for line in lines)


def _yaml_error(error: Exception) -> str:
    """Convert an error to the format of the server's YAML parser, which contains only the line and the problem."""
    if isinstance(error, kube_yaml.NotJson):
        return str(error.problem)
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {' '.join(str(error).split())}"
    mark = error.context_mark if error.context_mark and error.context_mark.line else error.problem_mark
    line = (mark.line if mark else 0) + (isinstance(error, yaml.scanner.ScannerError) and bool(mark and mark.line))
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def check_size(tree: Json, text: bytes | None = None) -> None:
    """Reject a body that exceeds the limits of a request. Raises 400.

    `text` is the tree as JSON, if JSON was sent.
    """
    if too_much := excess(tree, text):
        raise _too_much(too_much)


def _too_much(why: str) -> status_errors.StatusError:
    return status_errors.bad_request(f"the body {why}")


def _with_repeated(body: bytes) -> Json:
    """Parse JSON and mark objects that repeat a field name as `Repeated`; the last value of the field is kept."""
    return json.loads(body, object_pairs_hook=marked_object, parse_int=whole)


def no_object(value: Json) -> str:
    """Return Go's error for a body that is not a JSON object."""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {_HEAD}"


def json_type(value: Json) -> str:
    """Return the name that Go's decoder gives to the type of a JSON value."""
    names = {list: "array", dict: "object", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")

"""The apply verb: PATCH with an apply configuration creates an object or merges into the existing one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, forbidden, invalid, required
from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.engine.transport_protocol import APPLY_PATCH
from queue_manager.local import status_errors
from queue_manager.local.apply.managed_fields import APPLY, Managers, decode, encode
from queue_manager.local.apply.server_side_apply import Applied, apply
from queue_manager.local.kinds.custom_kinds import CustomSchema
from queue_manager.local.request_limits import MAX_BODY
from queue_manager.local.schema.json_parsing import whole
from queue_manager.local.schema.structural_schemas import CompiledSchema
from queue_manager.local.server import object_metadata
from queue_manager.local.server.field_ownership import manager_id, view_of
from queue_manager.local.server.http_messages import flag, media_type
from queue_manager.local.server.request_bodies import check_size, read_yaml, yaml_errors
from queue_manager.local.server.request_info import Call
from queue_manager.local.storage.store import Stored, WritableStore


class Writes(Protocol):
    """Protocol of the methods of Writer that the apply verb uses."""

    def applied_create(self, call: Call, new: Json) -> bytes:
        """Create the object, whose managedFields are set. Returns it as stored. Raises StatusError."""
        ...

    def applied_update(self, call: Call, new: Json, old: Json) -> bytes:
        """Store `new`, whose managedFields are set, in place of `old`. Returns it as stored. Raises StatusError."""
        ...


def is_apply(call: Call) -> bool:
    """Whether the request is a server-side apply."""
    return media_type(call.request) == APPLY_PATCH


def option_problems(call: Call) -> list[FieldError]:
    """Return the invalid options: apply requires a fieldManager, and only apply may use force."""
    if is_apply(call):
        missing = required("fieldManager", "is required for apply patch")
        return [] if call.option("fieldManager") else [missing]
    if "force" in call.request.query:
        return [forbidden("force", "may not be specified for non-apply patch")]
    return []


def apply_object(writer: Writes, store: WritableStore, call: Call) -> bytes:
    """Merge the configuration into the object, or create the object. Raises 400, 404, 409, 415, 422."""
    config = _read(call)
    stored = store.get(call.table, call.namespace, call.name)
    if stored is None:
        return _create(writer, store, call, config)
    return _update(writer, store, call, config, stored)


def _create(writer: Writes, store: WritableStore, call: Call, config: Json) -> bytes:
    if call.subresource:
        raise status_errors.not_found(call.resource, call.name)
    view = view_of(call)
    live = {**view.empty, "metadata": {}}
    new = _merged(store, call, live, config, {})
    meta = object_metadata.check_envelope(call, new)
    object_metadata.check_name(call, meta)
    if meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise status_errors.conflict(call.resource, call.name, why)
    meta.pop("resourceVersion", None)
    _refuse_nulls(call, new)
    call.created = True
    return writer.applied_create(call, new)


def _update(writer: Writes, store: WritableStore, call: Call, config: Json, stored: Stored) -> bytes:
    old, live = call.load(stored), call.load(stored)
    managers = decode(live["metadata"].pop("managedFields", None)) or {}
    new = _merged(store, call, live, config, managers)
    meta = object_metadata.check_envelope(call, new)
    object_metadata.check_name(call, meta)
    _check_uid(call, meta, old["metadata"]["uid"])
    _refuse_nulls(call, new)
    return writer.applied_update(call, new, old)


def _refuse_nulls(call: Call, new: Json) -> None:
    schema = call.kind.schema
    if isinstance(schema, CustomSchema):
        problems = list(_nulls(schema.node, new, ""))
        if problems:
            raise status_errors.invalid(call.resource, call.name, problems + schema.broken_rules(problems, new))


def _nulls(node: CompiledSchema, value: Json, path: str) -> Iterator[FieldError]:
    """Yield an error for each field that an apply configuration sets to null, and that is not nullable.

    In other writes, an object that is sent as a whole, such nulls are dropped instead.
    """
    if isinstance(value, list) and node.item is not None:
        for index, item in enumerate(value):
            yield from _nulls(node.item, item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for name, child in node.children.items():
        if name not in value:
            continue
        below = f"{path}.{name}" if path else name
        if value[name] is None and not child.nullable and "default" not in child.schema:
            wanted = ",".join(child.types)
            text = f'Invalid value: "null": {below} in body must be of type {wanted}: "null"'
            yield FieldError("FieldValueTypeInvalid", below, text)
        yield from _nulls(child, value[name], below)


def _merged(store: WritableStore, call: Call, live: Json, config: Json, managers: Managers) -> Json:
    meta = config["metadata"]
    given = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}" if isinstance(meta, dict) else "/"
    subject = f"{given}; {_kind_name(call.resource.api_version, call.resource.kind)}"
    applied: Applied = apply(
        view_of(call),
        live,
        config,
        managers,
        manager_id(call, APPLY),
        version=call.resource.api_version,
        force=flag(call.request.query, "force"),
        now=timestamp(store.now()),
        subject=subject,
    )
    head = {"apiVersion": call.resource.api_version, "kind": call.resource.kind}
    new = _fresh({**head, **applied.object})
    if applied.managers:
        new["metadata"]["managedFields"] = encode(applied.managers)
    return new


def _fresh(tree: Json) -> Json:
    """Return a copy that can be changed in place."""
    if isinstance(tree, dict):
        return {name: _fresh(value) for name, value in tree.items()}
    return [_fresh(item) for item in tree] if isinstance(tree, list) else tree


def _check_uid(call: Call, meta: dict[str, Any], uid: str) -> None:
    """Check that the uid in the configuration, if any, is that of the object."""
    if meta.get("uid", uid) != uid:
        problem = invalid("metadata.uid", meta["uid"], IMMUTABLE)
        raise status_errors.invalid(call.resource, call.name, [problem, problem])


# --- reading -------------------------------------------------------------------------------------------------


def _read(call: Call) -> Json:
    """Decode the configuration. Raises 400 when the body is not one, or is of another kind."""
    body = call.request.body
    if len(body) > MAX_BODY:
        raise status_errors.too_large(MAX_BODY)
    config, repeated = _read_json(body), list[str]()
    if config is None:
        config, repeated, error = read_yaml(body)
        if error is not None:
            raise status_errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}")
    check_size(config)
    if config is None:
        config = {}
    if not isinstance(config, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(config), "number")
        raise status_errors.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    _check_kind(call, config)
    if repeated:
        _report(call, repeated)
    return config


def _read_json(body: bytes) -> Json:
    """Decode the body as JSON; None if the YAML parser must read it.

    Clients send JSON, a subset of YAML that the JSON parser reads a hundred times as fast. The YAML parser reads bodies
    with repeated names, because it reports their lines.
    """
    if not body.startswith(b"{"):
        return None
    try:
        return json.loads(body, object_pairs_hook=_once, parse_int=whole, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Json]]) -> Json:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a name occurs twice")
    return tree


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def _check_kind(call: Call, config: Json) -> None:
    version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    resource = call.resource
    if (version, kind) != (resource.api_version, resource.kind):
        raise status_errors.bad_request(f"invalid object type: {_kind_name(version, kind)}")
    meta = config.setdefault("metadata", {})
    if meta is None:
        config["metadata"] = meta = {}
    if isinstance(meta, dict) and meta.get("managedFields") is not None:
        raise status_errors.bad_request("metadata.managedFields must be nil")


def _kind_name(version: str, kind: str) -> str:
    return f"{version if '/' in version else f'/{version}'}, Kind={kind}"


def _report(call: Call, repeated: list[str]) -> None:
    text = yaml_errors(repeated)
    if call.option("fieldValidation") == "Strict":
        raise status_errors.bad_request(f"error strict decoding YAML: error converting YAML to JSON: {text}")
    if call.option("fieldValidation") == "Warn":
        call.warnings.append(f"error converting YAML to JSON: {text}")

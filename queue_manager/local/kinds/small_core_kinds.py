"""The small kinds of the core group: namespaces, config maps, secrets, service accounts, limit ranges."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, forbidden, invalid, required
from job_controller.json_tree import Json
from queue_manager.api.api_resources import CONFIG_MAPS, LIMIT_RANGES, NAMESPACES, SECRETS, Resource
from queue_manager.local.kinds.builtin_kind import builtin, immutable, lookup
from queue_manager.local.kinds.kind import Column
from queue_manager.local.kinds.limit_ranges import default_limits, validate_limits
from queue_manager.local.kinds.tables import AGE, NAME, age
from queue_manager.local.schema.fieldset import of_paths

CORE = "io.k8s.api.core.v1."
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
_SIZE_LIMIT = 1024 * 1024  # bytes of all values of a ConfigMap or Secret

# --- namespaces --------------------------------------------------------------------------------------------


def _prepare_namespace(namespace: Json) -> None:
    """Add the finalizer `kubernetes`, which keeps a namespace until it is empty."""
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}
    _name_label(namespace, None)


def _prepare_namespace_update(new: Json, old: Json) -> None:
    """Keep spec.finalizers, which change only through /finalize."""
    new["spec"] = dict(old.get("spec") or {})
    _name_label(new, old)


def _name_label(namespace: Json, _old: Json | None) -> None:
    """Set the label kubernetes.io/metadata.name, by which a namespace can be selected."""
    meta = namespace["metadata"]
    if meta.get("name"):
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]


def _namespace_name(name: str) -> list[str]:
    found = names.dns_label(name)
    return ["must not contain dots"] if found and "." in name else found


def _namespace_row(namespace: Json, now: datetime) -> list[Any]:
    return [namespace["metadata"]["name"], lookup(namespace, "status.phase") or "", age(namespace, now)]


NAMESPACE = builtin(
    NAMESPACES,
    CORE + "Namespace",
    name_check=_namespace_name,
    short_names=("ns",),
    generation=False,
    prepare_create=_prepare_namespace,
    prepare_update=_prepare_namespace_update,
    fields=lambda tree: {
        "name": lookup(tree, "metadata.name") or "",
        "status.phase": lookup(tree, "status.phase") or "",
    },
    columns=(NAME, Column("Status", "string", "Whether the namespace is in use or goes away"), AGE),
    row=_namespace_row,
    generated_fields=lambda _: of_paths(("f:spec", "f:finalizers")),
)

# --- config maps and secrets -------------------------------------------------------------------------------


def _validate_keys(object: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in object.get(field) or {}:
        errors += [invalid(f"{field}[{key}]", key, text) for text in names.config_key(key)]
    return errors


def _too_large(size: int, field: str) -> list[FieldError]:
    text = f"Too long: may not be more than {_SIZE_LIMIT} bytes"
    return [FieldError("FieldValueTooLong", field, text)] if size > _SIZE_LIMIT else []


def _decoded_size(values: Json) -> int:
    return sum(len(base64.b64decode(value)) for value in (values or {}).values())


def _validate_config_map(new: Json) -> list[FieldError]:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    errors = _validate_keys(new, "data")
    errors += [invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary]
    errors += _validate_keys(new, "binaryData")
    return errors + _too_large(sum(len(v.encode()) for v in data.values()) + _decoded_size(binary), "[]")


def _unchanged(new: Json, old: Json, fields: tuple[str, ...]) -> list[FieldError]:
    """Errors for changes of these fields that `immutable: true` forbids."""
    if not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(forbidden("immutable", "field is immutable when `immutable` is set"))
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            errors.append(forbidden(field, "field is immutable when `immutable` is set"))
    return errors


def _validate_config_map_update(new: Json, old: Json) -> list[FieldError]:
    return _unchanged(new, old, ("data", "binaryData")) + _validate_config_map(new)


CONFIG_MAP = builtin(
    CONFIG_MAPS,
    CORE + "ConfigMap",
    short_names=("cm",),
    generation=False,
    has_status=False,
    create=_validate_config_map,
    update=_validate_config_map_update,
    columns=(NAME, Column("Data", "string", "Number of entries"), AGE),
    row=lambda o, now: [
        o["metadata"]["name"],
        len(o.get("data") or {}) + len(o.get("binaryData") or {}),
        age(o, now),
    ],
)

# Required keys by type of secret.
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _prepare_secret(secret: Json, _old: Json | None = None) -> None:
    """Move `stringData` into `data`; it is write-only."""
    for key, value in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    secret.setdefault("type", "Opaque")


def _validate_secret(new: Json) -> list[FieldError]:
    data = new.get("data") or {}
    errors = _validate_keys(new, "data") + _too_large(_decoded_size(data), "data")
    return errors + [required(f"data[{key}]") for key in _REQUIRED_KEYS.get(new["type"], ()) if key not in data]


def _validate_secret_update(new: Json, old: Json) -> list[FieldError]:
    errors = immutable(new, old, "type")
    return errors + _unchanged(new, old, ("data",)) + _validate_secret(new)


SECRET = builtin(
    SECRETS,
    CORE + "Secret",
    generation=False,
    has_status=False,
    prepare_create=_prepare_secret,
    prepare_update=_prepare_secret,
    create=_validate_secret,
    update=_validate_secret_update,
    fields=lambda tree: {"type": tree.get("type") or ""},
    columns=(NAME, Column("Type", "string", "What the secret is for"), Column("Data", "string", "Entries"), AGE),
    row=lambda o, now: [o["metadata"]["name"], o.get("type", ""), len(o.get("data") or {}), age(o, now)],
)

SERVICE_ACCOUNT = builtin(
    SERVICE_ACCOUNTS,
    CORE + "ServiceAccount",
    short_names=("sa",),
    generation=False,
    has_status=False,
    columns=(NAME, AGE),
    row=lambda o, now: [o["metadata"]["name"], age(o, now)],
)

LIMIT_RANGE = builtin(
    LIMIT_RANGES,
    CORE + "LimitRange",
    short_names=("limits",),
    generation=False,
    has_status=False,
    prepare_create=default_limits,
    prepare_update=lambda new, _old: default_limits(new),
    create=validate_limits,
    update=lambda new, _old: validate_limits(new),
    created_by_update=True,
)

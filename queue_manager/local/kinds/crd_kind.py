"""The kind CustomResourceDefinition: its names, versions and conditions."""

from __future__ import annotations

from typing import Any

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, forbidden, invalid, not_supported, required
from job_controller.json_tree import Json
from queue_manager.api.api_resources import CRDS
from queue_manager.local.kinds.builtin_kind import builtin, immutable, lookup
from queue_manager.local.kinds.crd_schemas import validate_schema
from queue_manager.local.kinds.crd_versions import is_converted_here, validate_deprecation, validate_stored
from queue_manager.local.kinds.crd_webhooks import set_webhook_defaults, validate_webhook
from queue_manager.local.schema.cpu_time_limits import TimeLimitExceeded, limited

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def _default(crd: Json) -> None:
    spec = crd.setdefault("spec", {})
    names_ = spec.setdefault("names", {})
    kind = names_.get("kind") or ""
    if not names_.get("singular"):
        names_["singular"] = kind.lower()
    if not names_.get("listKind") and kind:
        names_["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})
    set_webhook_defaults(spec)
    for version in spec.get("versions") or []:
        version.setdefault("served", False)
        version.setdefault("storage", False)


def _prepare_create(crd: Json) -> None:
    """Set defaults, and a status in which the names are accepted: they cannot conflict with those of another CRD."""
    _default(crd)
    time = crd["metadata"].get("creationTimestamp")
    crd["status"] = {
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", time),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", time),
        ],
        "acceptedNames": dict(crd["spec"]["names"]),
        "storedVersions": [v["name"] for v in crd["spec"].get("versions") or [] if v.get("storage") and v.get("name")],
    }


def _condition(type: str, reason: str, message: str, time: Any) -> Json:
    return {"type": type, "status": "True", "lastTransitionTime": time, "reason": reason, "message": message}


def _prepare_update(new: Json, _old: Json) -> None:
    """Keep every version ever used for storage in status.storedVersions; a client removes it after migration."""
    _default(new)
    status = new.setdefault("status", {})
    status["acceptedNames"] = dict(new["spec"]["names"])
    stored = status.setdefault("storedVersions", [])
    stored += [v["name"] for v in new["spec"].get("versions") or [] if v.get("storage") and v["name"] not in stored]


def _validate_create(crd: Json) -> list[FieldError]:
    spec = crd["spec"]
    name, wanted = crd["metadata"].get("name") or "", f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}"
    named = [] if name == wanted else [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]
    return named + _validate(crd)


def _validate(crd: Json) -> list[FieldError]:
    spec = crd["spec"]
    group = spec.get("group") or ""
    errors: list[FieldError] = []
    if not group:
        errors.append(required("spec.group"))
    else:
        errors += [invalid("spec.group", group, text) for text in names.dns_subdomain(group)]
        if "." not in group:
            errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        errors.append(not_supported("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced")))
    errors += _validate_versions(crd, spec) + _validate_names(spec["names"]) + _validate_conversion(spec)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    return errors


def _validate_conversion(spec: Json) -> list[FieldError]:
    path = "spec.conversion"
    strategy = lookup(spec, "conversion.strategy")
    if not strategy:
        return [required(f"{path}.strategy")]
    if strategy == "Webhook":
        if not is_converted_here(spec):
            return [not_supported(f"{path}.strategy", strategy, ("None",))]
        return validate_webhook(lookup(spec, "conversion.webhook"), path)
    errors = [] if strategy == "None" else [not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))]
    webhook = lookup(spec, "conversion.webhook") or {}
    for field, shown in (("clientConfig", "webhookClientConfig"), ("conversionReviewVersions",) * 2):
        if webhook.get(field):
            errors.append(forbidden(f"{path}.{shown}", "should not be set when strategy is not set to Webhook"))
    return errors


def _validate_versions(crd: Json, spec: Json) -> list[FieldError]:
    versions = spec.get("versions") or []
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        errors += _label(f"{path}.name", version.get("name") or "")
        errors += validate_deprecation(version, path)
        errors += _validate_version(version, path, "spec.validation" if len(versions) == 1 else f"{path}.schema")
    found = [version.get("name") for version in versions]
    shown = [_go_version(version) for version in versions]
    if len(set(found)) != len(found):
        errors.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
    return errors + validate_stored(crd)


def _go_version(version: Json) -> Json:
    head = {"Name": version.get("name", ""), "Served": version["served"], "Storage": version["storage"]}
    empty = ("DeprecationWarning", "Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
    return head | {"Deprecated": bool(version.get("deprecated"))} | dict.fromkeys(empty)


def _validate_version(version: Json, path: str, schema_path: str) -> list[FieldError]:
    schema = lookup(version, "schema.openAPIV3Schema")
    if not schema:
        return [required(f"{path}.schema.openAPIV3Schema")]
    try:
        asked = (schema, f"{schema_path}.openAPIV3Schema")
        errors = limited(
            lambda: validate_schema(*asked),
            "definition",
            lambda: list(asked),
            lambda found: [FieldError(*error) for error in found],
        )
    except TimeLimitExceeded:
        return [forbidden(f"{schema_path}.openAPIV3Schema", "its patterns take too long to check its defaults")]
    for index, column in enumerate(version.get("additionalPrinterColumns") or []):
        at = f"spec.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            errors.append(required(f"{at}.name"))
        if column.get("type") not in _COLUMN_TYPES:
            errors.append(invalid(f"{at}.type", column.get("type") or "", f"must be one of {','.join(_COLUMN_TYPES)}"))
        if not (column.get("jsonPath") or "").startswith("."):
            errors.append(
                invalid(f"{at}.JSONPath", column.get("jsonPath") or "", "must be a simple json path starting with .")
            )
    for index, field in enumerate(version.get("selectableFields") or []):
        if not _refers(schema, field.get("jsonPath") or ""):
            detail = "is an invalid path: does not refer to a valid field"
            errors.append(invalid(f"spec.selectableFields[{index}].jsonPath", field.get("jsonPath") or "", detail))
    return errors


def _refers(schema: Json, path: str) -> bool:
    """Whether a simple path refers to a field of a scalar type."""
    for step in path.removeprefix(".").split("."):
        schema = (schema.get("properties") or {}).get(step)
        if not schema:
            return False
    return schema.get("type") in ("string", "integer", "boolean")


def _validate_names(names_: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = names_.get(field) or ""
        if not value:
            errors.append(required(f"spec.names.{field}"))
        else:
            errors += _label(f"spec.names.{field}", value, mixed_case=field in ("kind", "listKind"))
    if names_.get("kind") and names_.get("kind") == names_.get("listKind"):
        errors.append(invalid("spec.names.listKind", names_["listKind"], "kind and listKind may not be the same"))
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names_.get(field) or []):
            errors += _label(f"spec.names.{field}[{index}]", value)
    return errors


def _label(path: str, value: str, *, mixed_case: bool = False) -> list[FieldError]:
    texts = names.dns_1035_label(value.lower() if mixed_case else value)
    excuse = "may have mixed case, but should otherwise match: " if mixed_case else ""
    return [invalid(path, value, excuse + ",".join(texts))] if texts else []


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    errors = _validate(new)
    for field in ("spec.scope", "spec.names.kind", "spec.group", "spec.names.plural"):
        errors += immutable(new, old, field)
    return errors


CRD = builtin(
    CRDS,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    create=_validate_create,
    update=_validate_update,
)

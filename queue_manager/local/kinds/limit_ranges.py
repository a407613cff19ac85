"""LimitRanges: defaulting and validation of items."""

from __future__ import annotations

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, duplicate, forbidden, invalid, required
from job_controller.json_tree import Json
from queue_manager.local.schema import times_and_quantities

_STANDARD = ("Pod", "Container", "PersistentVolumeClaim")


def default_limits(object: Json) -> None:
    """Default the items of type Container: `default` from `max`, `defaultRequest` from `default`, else from `min`."""
    object.setdefault("spec", {}).setdefault("limits", None)
    for item in object["spec"]["limits"] or []:
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def validate_limits(object: Json) -> list[FieldError]:
    """Return the errors of a LimitRange's spec.limits, as an API server words them."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate((object.get("spec") or {}).get("limits") or []):
        path = f"spec.limits[{index}]"
        kind = item.get("type") or ""
        if kind not in _STANDARD and "/" not in kind:
            errors.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += _validate_item(item, kind, path)
    return errors


def _validate_item(item: Json, kind: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        for name in item.get(field) or {}:
            at = f"{path}.{field}[{name}]"
            errors += [invalid(at, name, text) for text in names.qualified_name(name)]
    if kind == "Pod":
        for field in ("default", "defaultRequest"):
            if item.get(field):
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
        item = {field: value for field, value in item.items() if field not in ("default", "defaultRequest")}
    resources = sorted(
        {name for field in ("max", "min", "default", "defaultRequest") for name in item.get(field) or {}}
    )
    for name in resources:
        errors += _validate_order(item, name, path)
    if kind == "PersistentVolumeClaim" and not any("storage" in (item.get(field) or {}) for field in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", text))
    return errors + _validate_ratios(item, path)


def _validate_ratios(item: Json, path: str) -> list[FieldError]:
    """Errors of maxLimitRequestRatio: it is at least 1, and at most max divided by min."""
    errors = []
    for name, amount in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        at, ratio = f"{path}.maxLimitRequestRatio[{name}]", times_and_quantities.number(amount)
        if ratio < 1:
            errors.append(invalid(at, amount, f"ratio {amount} is less than 1"))
        low, high = ((item.get(field) or {}).get(name) for field in ("min", "max"))
        if low is None or high is None or not times_and_quantities.number(low):
            continue
        widest = times_and_quantities.number(high) / times_and_quantities.number(low)
        if ratio > widest:
            text = f"ratio {amount} is greater than max/min = {times_and_quantities.approximate(widest):f}"
            errors.append(invalid(at, amount, text))
    return errors


# (smaller, larger, name of the smaller, name of the larger, the field at fault, the field whose value is shown)
_ORDER = (
    ("min", "max", "min", "max", "min", "min"),
    ("min", "defaultRequest", "min", "default request", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "default request", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "default request", "default limit", "defaultRequest", "defaultRequest"),
    ("min", "default", "min", "default", "default", "min"),
    ("default", "max", "default", "max", "default", "max"),
)


def _validate_order(item: Json, name: str, path: str) -> list[FieldError]:
    errors = []
    for low, high, low_name, high_name, fault, shown in _ORDER:
        smaller, larger = (item.get(low) or {}).get(name), (item.get(high) or {}).get(name)
        if (
            smaller is None
            or larger is None
            or times_and_quantities.number(smaller) <= times_and_quantities.number(larger)
        ):
            continue
        detail = f"{low_name} value {smaller} is greater than {high_name} value {larger}"
        errors.append(invalid(f"{path}.{fault}[{name}]", (item.get(shown) or {})[name], detail))
    return errors

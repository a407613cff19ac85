"""Validation of resource requirements: names, amounts, requests against limits, claims (upstream
ValidateContainerResourceRequirements).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, duplicate, forbidden, invalid, not_found, required
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json
from job_controller.quantities import MALFORMED, MalformedQuantity, Quantity, quantity

_CONTAINER = ("cpu", "memory", "ephemeral-storage")
_STANDARD = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    ]
)


def validate_resources(resources: Json, claims: Collection[str], path: str) -> list[FieldError]:
    """The errors of the resources of a container or pod; `claims` are the names in spec.resourceClaims."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: list[FieldError] = []
    plain = True
    for name in sorted(limits):
        plain = plain and name in _CONTAINER
        errors += _validate_amount(name, limits[name], f"{path}.limits")
    for name in sorted(requests):
        plain = plain and name in _CONTAINER
        errors += _validate_amount(name, requests[name], f"{path}.requests")
        if limits or not plain:
            errors += _validate_request(name, requests[name], limits, path)
    if not plain:
        errors += _validate_huge_pages({*limits, *requests}, path)
    if resources.get("claims"):
        errors += _validate_claims(resources["claims"], claims, f"{path}.claims")
    return errors


def _validate_huge_pages(named: set[str], path: str) -> list[FieldError]:
    if any(name.startswith("hugepages-") for name in named) and not named & {"cpu", "memory"}:
        return [forbidden(path, "HugePages require cpu or memory")]
    return []


def _validate_amount(name: str, value: Any, path: str) -> list[FieldError]:
    amount = _read(value)
    if name in _CONTAINER and amount is not None and amount.nano >= 0:
        return []
    path = f"{path}[{name}]"
    errors = [] if name in _CONTAINER else _validate_name(name, path)
    if amount is None:
        return [*errors, invalid(path, value, MALFORMED)]
    if amount.nano < 0:
        errors.append(invalid(path, value, NOT_NEGATIVE))
    if name not in _CONTAINER and amount.nano % 10**9 and _is_extended(name):
        errors.append(invalid(path, value, "must be an integer"))
    if name.startswith("hugepages-") and not _is_whole_pages(name, amount):
        errors.append(invalid(path, value, f"{value} is not positive integer multiple of {name}"))
    return errors


def _is_whole_pages(name: str, amount: Quantity) -> bool:
    page = _read(name.removeprefix("hugepages-"))
    if page is None or page.nano <= 0 or page.nano % 10**9:
        return False
    return amount.scaled(0) % page.scaled(0) == 0


def _read(value: Any) -> Quantity | None:
    try:
        return quantity(value)
    except MalformedQuantity:
        return None


def _validate_name(name: str, path: str) -> list[FieldError]:
    errors = [invalid(path, name, text) for text in names.qualified_name(name)]
    if "/" not in name:
        if name not in _STANDARD and not name.startswith("hugepages-"):
            errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
        if not name.startswith("hugepages-"):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not _is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    return not _is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def _validate_request(name: str, value: Any, limits: Mapping[str, Any], path: str) -> list[FieldError]:
    """The errors of one request: at most its limit; equal to it for resources that cannot be overcommitted."""
    shared = _is_native(name) and not name.startswith("hugepages-")
    if name not in limits:
        text = "Limit must be set for non overcommitable resources"
        return [] if shared else [required(f"{path}.limits", text)]
    request, limit = _read(value), _read(limits[name])
    if request is None or limit is None:
        return []
    if not shared and request.nano != limit.nano:
        return [invalid(f"{path}.requests", value, f"must be equal to {name} limit of {limits[name]}")]
    if request.nano > limit.nano:
        return [invalid(f"{path}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}")]
    return []


def _validate_claims(claims: Json, known: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        name = claim.get("name", "")
        if not name:
            errors.append(required(f"{path}[{i}]"))
            continue
        if name in seen:
            errors.append(duplicate(f"{path}[{i}]", name))
        seen.add(name)
        if name not in known:
            listed = ": " + ", ".join(sorted(known)) if known else " which is empty"
            errors.append(
                not_found(f"{path}[{i}]", name, f"must be one of the names in pod.spec.resourceClaims{listed}")
            )
    return errors

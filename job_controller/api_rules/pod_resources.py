"""The resources of a pod as a whole (spec.resources), beside the resources of its containers (KEP-2837)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from job_controller.api_rules.field_errors import FieldError, forbidden, invalid, not_supported
from job_controller.api_rules.resource_validation import validate_resources
from job_controller.json_tree import Json
from job_controller.quantities import MalformedQuantity, Quantity, canonical, quantity

_SUPPORTED = ("cpu", "hugepages-", "memory")

Amounts = Mapping[str, Quantity]


def default_pod_requests(spec: Json) -> None:
    """Default the requests of a pod with limits, in place: cpu and memory to the sum of its containers, others to the
    limits.

    The requests of containers must be defaulted before.
    """
    resources = spec.get("resources") or {}
    if not resources.get("limits"):
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in aggregate_requests(spec).items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, canonical(amount))
    for name, limit in resources["limits"].items():
        if _is_supported(name):
            requests.setdefault(name, limit)
    if requests:
        resources["requests"] = requests


def aggregate_requests(spec: Json) -> Amounts:
    """The highest requests of the containers at any time; sidecars run beside all later containers."""
    running: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own_requests = _amounts(container, "requests")
        if container.get("restartPolicy") == "Always":
            running = _sum(running, own_requests)
        largest = _larger(largest, _sum(running, {} if container.get("restartPolicy") == "Always" else own_requests))
    for container in spec.get("containers") or ():
        running = _sum(running, _amounts(container, "requests"))
    return _larger(largest, running)


def validate_pod_resources(spec: Json, claims: Collection[str], path: str) -> list[FieldError]:
    """The errors of the resources of a pod: wrong values, and what contradicts the resources of its containers."""
    resources, at = spec["resources"], f"{path}.resources"
    errors = validate_resources(resources, claims, at)
    if resources.get("claims"):
        errors.append(forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level"))
    for field in ("limits", "requests"):
        for name in resources.get(field) or {}:
            if not _is_supported(name):
                errors.append(not_supported(f"{at}.{field}[{name}]", name, _SUPPORTED))
    requests, limits = _amounts(spec, "requests"), _amounts(spec, "limits")
    for name, amount in aggregate_requests(spec).items() if requests else ():
        if name in requests and amount.nano > requests[name].nano:
            text = f"must be greater than or equal to aggregate container requests of {canonical(amount)}"
            errors.append(invalid(f"{at}.requests[{name}]", canonical(requests[name]), text))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, amount in _amounts(container, "limits").items():
            if name in limits and amount.nano > limits[name].nano:
                text = f"must be less than or equal to pod limits of {canonical(limits[name])}"
                errors.append(invalid(f"{at}.containers[{index}][{name}].limits", canonical(amount), text))
    return errors


def _is_supported(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _amounts(holder: Json, field: str) -> Amounts:
    """The well-formed quantities of a container or pod; malformed ones are rejected by resource_validation."""
    found: dict[str, Quantity] = {}
    for name, value in sorted(((holder.get("resources") or {}).get(field) or {}).items()):
        amount = _read(value)
        if amount is not None:
            found[name] = amount
    return found


def _read(value: Any) -> Quantity | None:
    try:
        return quantity(value)
    except MalformedQuantity:
        return None


def _sum(one: Amounts, other: Amounts) -> Amounts:
    added = {
        name: Quantity(one[name].nano + amount.nano, one[name].style) for name, amount in other.items() if name in one
    }
    return {**one, **other, **added}


def _larger(one: Amounts, other: Amounts) -> Amounts:
    larger = {name: max(one[name], amount, key=lambda a: a.nano) for name, amount in other.items() if name in one}
    return {**one, **other, **larger}

"""The requests of one pod (core/v1; KEP-753 sidecars, KEP-2837 pod-level resources).

As kube-scheduler counts them: the larger of all containers together with all sidecars, or the largest init container
together with the sidecars started before it; plus the overhead.
"""

from __future__ import annotations

from collections.abc import Mapping

from job_controller.json_tree import Json
from queue_manager.scheduling.amounts import Amounts, amount

# Resources that a pod may request as a whole, instead of the sum of its containers (KEP-2837).
POD_LEVEL = ("cpu", "memory", "hugepages-")


def pod_requests(pod_spec: Json) -> Amounts:
    """Requests of one pod, by resource. Raises ValueError on a malformed quantity."""
    total: Amounts = {}
    for container in pod_spec.get("containers") or ():
        _add(total, container_requests(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod_spec.get("initContainers") or ():
        requests = container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, _sum(sidecars, requests))
    _raise_to(total, peak)
    for name, value in container_requests(pod_spec).items():
        if name.startswith(POD_LEVEL):
            total[name] = value
    _add(total, _amounts(pod_spec.get("overhead")))
    return total


def container_requests(container: Json) -> Amounts:
    """Requests of a container; a limit without a request counts as the request."""
    resources = container.get("resources") or {}
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def container_maxima(container: Json) -> Amounts:
    """The larger of request and limit, by resource."""
    resources = container.get("resources") or {}
    requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
    return {name: max(requests.get(name, 0), limits.get(name, 0)) for name in requests.keys() | limits.keys()}


def over_limits(pod_spec: Json, path: str) -> str:
    """The first container whose requests exceed its limits, in Kueue's words; "" if all are within."""
    for field in ("initContainers", "containers"):
        for i, container in enumerate(pod_spec.get(field) or ()):
            resources = container.get("resources") or {}
            limits = _amounts(resources.get("limits"))
            requests = _amounts(resources.get("requests"))
            over = sorted(name for name, value in requests.items() if name in limits and value > limits[name])
            if over:
                names = ", ".join(f'"{name}"' for name in over)
                return f"{path}.{field}[{i}]: Invalid value: [{names}]: requests must not exceed its limits"
    return ""


def _amounts(quantities: Mapping[str, str | int] | None) -> Amounts:
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _sum(a: Amounts, b: Amounts) -> Amounts:
    total = dict(a)
    _add(total, b)
    return total


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, value in floor.items():
        total[name] = max(total.get(name, 0), value)

"""What LimitRanges of a namespace and a RuntimeClass add to a pod: defaults, bounds and overhead.

The API server applies these when it creates a pod; the queue counts them before the pod exists. They are never written
into the Workload. BEHAVIOUR.md#q15-counted-requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from job_controller.json_tree import Json
from queue_manager.api.types import LimitRange, LimitRangeItem, Quantity, RuntimeClass
from queue_manager.scheduling.amounts import Amounts, amount
from queue_manager.scheduling.pod_requests import container_maxima, container_requests, pod_requests

Quantities = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class PodSurroundings:
    """The LimitRanges of one namespace, and the overhead of each RuntimeClass."""

    limit_ranges: tuple[LimitRange, ...] = ()
    overheads: Mapping[str, Quantities] = field(default_factory=dict)

    def complete(self, spec: Json) -> Json:
        """The pod spec with defaults and overhead, as the API server completes it; unchanged if nothing is added."""
        changes: dict[str, Json] = {}
        defaults = [item for item in self._items("Container") if item.default or item.default_request]
        if defaults:
            for kind in ("containers", "initContainers"):
                if spec.get(kind):
                    changes[kind] = [_with_defaults(container, defaults) for container in spec[kind]]
        overhead = self.overheads.get(spec.get("runtimeClassName") or "")
        if overhead and not spec.get("overhead"):
            changes["overhead"] = dict(overhead)
        return {**spec, **changes} if changes else spec

    def refusal(self, spec: Json, path: str) -> str:
        """The first bound of a LimitRange that the pod violates, in Kueue's words; "" if it is within all."""
        for item in self._items("Container"):
            for kind in ("initContainers", "containers"):
                for i, container in enumerate(spec.get(kind) or ()):
                    least, most = container_requests(container), container_maxima(container)
                    text = _outside(least, most, item, f"{path}.{kind}[{i}]")
                    if text:
                        return text
        for item in self._items("Pod"):
            total = pod_requests(spec)
            text = _outside(total, total, item, path)
            if text:
                return text
        return ""

    def _items(self, type: str) -> list[LimitRangeItem]:
        items = (item for limit_range in self.limit_ranges for item in limit_range.spec.limits or ())
        return [item for item in items if item.type == type]


NO_SURROUNDINGS = PodSurroundings()


def pod_surroundings(limit_ranges: Iterable[LimitRange], classes: Iterable[RuntimeClass]) -> PodSurroundings:
    """The surroundings of pods in one namespace, from its LimitRanges and all RuntimeClasses."""
    ranges = sorted(limit_ranges, key=lambda each: each.metadata.name)
    return PodSurroundings(tuple(ranges), {c.metadata.name: c.overhead.pod_fixed for c in classes if c.overhead})


def _with_defaults(container: Json, items: list[LimitRangeItem]) -> Json:
    """The container with default requests and limits; its own limit has precedence over a default request."""
    resources = container.get("resources") or {}
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    for name, value in limits.items():
        requests.setdefault(name, value)
    for item in items:
        for name, value in item.default.items():
            limits.setdefault(name, value)
        for name, value in item.default_request.items():
            requests.setdefault(name, value)
    return {**container, "resources": {**resources, "limits": limits, "requests": requests}}


def _outside(least: Amounts, most: Amounts, item: LimitRangeItem, path: str) -> str:
    """The bound of `item` that is violated. `least`, `most`: the smaller and the larger of request and limit."""
    above = [name for name, bound in item.max.items() if most.get(name, 0) > amount(name, bound)]
    if above:
        return f"{path}: Invalid value: {_names(above)}: requests must not be above the limitRange max"
    below = [name for name, bound in item.min.items() if name in least and least[name] < amount(name, bound)]
    if below:
        return f"{path}: Invalid value: {_names(below)}: requests must not be below the limitRange min"
    return ""


def _names(names: list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in sorted(names)) + "]"

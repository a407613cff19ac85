"""Which requests count against quota, and as what: `resources` of the configuration.

Resources with an excluded prefix are dropped first. A transformation turns a resource into others: input × factor (×
the amount of the resource in multiplyBy); the outputs of several inputs add up. Strategy Replace removes the input,
Retain keeps it. BEHAVIOUR.md#q15-counted-requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from job_controller.quantities import exact
from queue_manager.scheduling.amounts import Amounts


@dataclass(frozen=True, slots=True)
class ResourceTransformation:
    """What one resource counts as.

    `outputs`: by resource, the amount that counts for one unit of the input. `multiply_by`: the resource by whose
    amount the outputs are multiplied, or "". `replace`: whether the input itself no longer counts.
    """

    replace: bool
    outputs: Mapping[str, str | int]
    multiply_by: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """The configuration's `resources`."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: Mapping[str, ResourceTransformation] = field(default_factory=dict)  # by input
    ignore_undeclared: bool = False  # resources without quota in the ClusterQueue do not count

    def apply(self, requests: Amounts) -> Amounts:
        """The requests of one pod as they count against quota. Outputs are rounded up and not negative."""
        counted = {n: v for n, v in requests.items() if not n.startswith(self.excluded_prefixes)}
        if not self.transformations:
            return counted
        result = {n: v for n, v in counted.items() if not self._replaced(n)}
        for name, value in counted.items():
            rule = self.transformations.get(name)
            if rule is None:
                continue
            times = _value(rule.multiply_by, counted.get(rule.multiply_by, 0)) if rule.multiply_by else 1
            for output, factor in rule.outputs.items():
                more = _value(name, value) * exact(factor) * times
                result[output] = result.get(output, 0) + max(0, ceil(more * _units(output)))
        return result

    def _replaced(self, name: str) -> bool:
        rule = self.transformations.get(name)
        return rule is not None and rule.replace


COUNT_ALL = ResourceRules()


def _units(resource: str) -> int:
    return 1000 if resource == "cpu" else 1


def _value(resource: str, amount: int) -> Fraction:
    return Fraction(amount, _units(resource))

"""Counters, gauges and histograms in memory, written out in Prometheus' text format.

A metric is made by its first use; `describe` gives it a help text, and buckets if it is a histogram.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class _Histogram:
    counts: list[int]  # observations per bucket, the last one is +Inf
    total: float = 0.0


@dataclass(slots=True)
class _Family:
    kind: str
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, _Histogram] = field(default_factory=dict)


class Registry:
    """Implements `Metrics` of the job controller's ports, and gauges."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._help: dict[str, str] = {}
        self._buckets: dict[str, tuple[float, ...]] = {}
        self._collectors: list[Callable[[], None]] = []
        self._added: dict[str, Labels] = {}

    def describe(self, name: str, help: str, buckets: Sequence[float] = ()) -> None:
        """Give a metric its help text and, for a histogram, the upper bounds of its buckets."""
        self._help[name] = help
        if buckets:
            self._buckets[name] = tuple(sorted(buckets))

    def inc(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Count. Raises ValueError if `by` is negative or the name is not a counter's."""
        if by < 0:
            raise ValueError(f"counter {name} cannot go down by {-by}")
        values, key = self._family(name, "counter").values, _key(labels)
        values[key] = values.get(key, 0.0) + by

    def set(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        self._family(name, "gauge").values[_key(labels)] = value

    def remove(self, name: str, labels: Mapping[str, str]) -> None:
        """Drop the series of a thing that is no more."""
        family = self._families.get(name)
        if family is not None:
            family.values.pop(_key(labels), None)
            family.histograms.pop(_key(labels), None)

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Put a value into a histogram."""
        histograms, key = self._family(name, "histogram").histograms, _key(labels)
        bounds = self._buckets.get(name, DEFAULT_BUCKETS)
        histogram = histograms.get(key)
        if histogram is None:
            histogram = histograms[key] = _Histogram([0] * (len(bounds) + 1))
        histogram.counts[bisect_left(bounds, value)] += 1
        histogram.total += value

    def value(self, name: str, labels: Mapping[str, str]) -> float:
        """A counter or gauge, or how often a histogram was observed; 0 if never."""
        family = self._families.get(name)
        if family is None:
            return 0.0
        key = _key(labels)
        if key in family.histograms:
            return float(sum(family.histograms[key].counts))
        return family.values.get(key, 0.0)

    def add_label(self, beginning: str, label: str, value: str) -> None:
        """Write this label on every series whose name begins so; whoever counts need not know of it. The last value
        given holds."""
        self._added[beginning] = tuple({**dict(self._added.get(beginning, ())), label: value}.items())

    def _with_added(self, name: str, key: Labels) -> Labels:
        added = (own for beginning, own in self._added.items() if name.startswith(beginning))
        return tuple(sorted((*key, *(pair for own in added for pair in own))))

    def before_exposition(self, collect: Callable[[], None]) -> None:
        """Call `collect` before each exposition, to set gauges that are computed only when asked for."""
        self._collectors.append(collect)

    def exposition(self) -> str:
        """All metrics, as Prometheus reads them; sorted, so that equal states give equal texts."""
        for collect in self._collectors:
            collect()
        lines: list[str] = []
        for name in sorted(self._families):
            family = self._families[name]
            if name in self._help:
                lines.append(f"# HELP {name} {_escape(self._help[name])}")
            lines.append(f"# TYPE {name} {family.kind}")
            for key, value in sorted(family.values.items()):
                lines.append(f"{name}{_braces(self._with_added(name, key))} {_number(value)}")
            for key, histogram in sorted(family.histograms.items()):
                own = self._with_added(name, key)
                lines += _histogram_lines(name, own, histogram, self._buckets.get(name, DEFAULT_BUCKETS))
        return "".join(line + "\n" for line in lines)

    def _family(self, name: str, kind: str) -> _Family:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = _Family(kind)
        elif family.kind != kind:
            raise ValueError(f"metric {name} is a {family.kind}, not a {kind}")
        return family


def _histogram_lines(name: str, key: Labels, histogram: _Histogram, bounds: Sequence[float]) -> list[str]:
    lines, cumulative = [], 0
    for bound, count in zip((*bounds, math.inf), histogram.counts, strict=True):
        cumulative += count
        lines.append(f"{name}_bucket{_braces((*key, ('le', _number(bound))))} {cumulative}")
    return [*lines, f"{name}_sum{_braces(key)} {_number(histogram.total)}", f"{name}_count{_braces(key)} {cumulative}"]


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _braces(key: Labels) -> str:
    return "{" + ",".join(f'{name}="{_quote(value)}"' for name, value in key) + "}" if key else ""


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quote(text: str) -> str:
    return _escape(text).replace('"', '\\"')


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))

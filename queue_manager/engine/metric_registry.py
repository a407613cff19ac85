"""Counters, gauges and histograms in memory, written out in Prometheus' text format.

A registry knows its families (`queue_manager.api.metric_families`) from the start; a family is written out once it has
been used.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from queue_manager.api.metric_families import FAMILIES, Family, Kind

Labels = tuple[tuple[str, str], ...]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class _Histogram:
    counts: list[int]  # observations per bucket, the last one is +Inf
    total: float = 0.0


@dataclass(slots=True)
class _Series:
    """The series of one family."""

    family: Family
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, _Histogram] = field(default_factory=dict)


class MetricRegistry:
    """Implements `Metrics` of the job controller's ports, and gauges.

    Every method that counts raises ValueError for a name that is no family of this registry, or of another type.
    """

    def __init__(self, families: Iterable[Family] = FAMILIES) -> None:
        self._declared = {family.name: family for family in families}
        self._series: dict[str, _Series] = {}
        self._collectors: list[Callable[[], None]] = []
        self._added: dict[str, Labels] = {}

    def inc(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Count. Raises ValueError if `by` is negative."""
        if by < 0:
            raise ValueError(f"counter {name} cannot go down by {-by}")
        values, key = self._family(name, "counter").values, _key(labels)
        values[key] = values.get(key, 0.0) + by

    def set(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        self._family(name, "gauge").values[_key(labels)] = value

    def remove(self, name: str, labels: Mapping[str, str]) -> None:
        """Drop the series of a thing that is no more."""
        family = self._series.get(name)
        if family is not None:
            family.values.pop(_key(labels), None)
            family.histograms.pop(_key(labels), None)

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Put a value into a histogram."""
        series, key = self._family(name, "histogram"), _key(labels)
        bounds = series.family.buckets
        histogram = series.histograms.get(key)
        if histogram is None:
            histogram = series.histograms[key] = _Histogram([0] * (len(bounds) + 1))
        histogram.counts[bisect_left(bounds, value)] += 1
        histogram.total += value

    def value(self, name: str, labels: Mapping[str, str]) -> float:
        """A counter or gauge, or how often a histogram was observed; 0 if never."""
        family = self._series.get(name)
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
        for name in sorted(self._series):
            series = self._series[name]
            family = series.family
            lines += [f"# HELP {name} {_escape(family.help)}", f"# TYPE {name} {family.kind}"]
            for key, value in sorted(series.values.items()):
                lines.append(f"{name}{_braces(self._with_added(name, key))} {_number(value)}")
            for key, histogram in sorted(series.histograms.items()):
                lines += _histogram_lines(name, self._with_added(name, key), histogram, family.buckets)
        return "".join(line + "\n" for line in lines)

    def _family(self, name: str, kind: Kind) -> _Series:
        series = self._series.get(name)
        if series is None:
            if name not in self._declared:
                raise ValueError(f"metric {name} is not declared")
            series = self._series[name] = _Series(self._declared[name])
        if series.family.kind != kind:
            raise ValueError(f"metric {name} is a {series.family.kind}, not a {kind}")
        return series


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

"""The metrics of one process: families of `queue_manager.api.metric_families`, kept and written by prometheus_client.

prometheus_client counts, and writes both text formats. This module adds what its callers rely on:

- names and labels are checked against the table; a family without any value is not served;
- a label that is the same for all series (`replica_role`) is added when they are served, so that no caller passes it;
- gauges that are computed only for a scrape are set by callbacks before it, on the event loop;
- a scrape is encoded in a thread, one scrape at a time: 10 000 series take a tenth of a second;
- times of creation are not served: they would add one series to each counter and histogram.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from prometheus_client import Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from queue_manager.api.metric_families import FAMILIES, Family, Kind

Labels = tuple[tuple[str, str], ...]


class Exposition(NamedTuple):
    """The answer to a scrape."""

    content_type: str
    body: bytes


class _Series:
    """The series of one family, by the values of their labels."""

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        self.kind = family.kind
        self.labels = labels
        self.metric = _metric(family, labels)
        self.children: dict[tuple[str, ...], Counter | Gauge | Histogram] = {}

    def child(self, labels: Mapping[str, str]) -> Counter | Gauge | Histogram:
        values = self.values(labels)
        child = self.children.get(values)
        if child is None:
            child = self.children[values] = self.metric.labels(*values) if values else self.metric
        return child

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The values in the order of the names. Raises ValueError if the names are others."""
        if len(labels) == len(self.labels):
            try:
                return tuple([labels[name] for name in self.labels])
            except KeyError:
                pass
        raise ValueError(f"metric {self.metric} has the labels {self.labels}, not {tuple(labels)}")


class MetricRegistry(Collector):
    """Implements `Metrics` of the job controller's ports, and gauges.

    Every method that counts raises ValueError for a name that is not a family of this registry, for a family of another
    kind, and for other labels than the declared ones.
    """

    def __init__(self, families: Iterable[Family] = FAMILIES) -> None:
        self._declared = {family.name: family for family in families}
        self._series: dict[str, _Series] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._added: dict[str, dict[str, str]] = {}
        self._included: list[MetricRegistry] = []
        self._encoding = asyncio.Lock()

    def inc(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Add `by` to a counter. Raises ValueError if it is negative."""
        cast(Counter, self._child(name, "counter", labels)).inc(by)

    def set(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        cast(Gauge, self._child(name, "gauge", labels)).set(value)

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add a value to a histogram."""
        cast(Histogram, self._child(name, "histogram", labels)).observe(value)

    def remove(self, name: str, labels: Mapping[str, str]) -> None:
        """Stop serving a series, because what it describes no longer exists."""
        series = self._series.get(name)
        if series is not None and series.children.pop(values := series.values(labels), None) is not None:
            series.metric.remove(*values)

    def value(self, name: str, labels: Mapping[str, str]) -> float:
        """The value of a counter or gauge, or the number of observations of a histogram; 0 without any."""
        series = self._series.get(name)
        samples = (sample for metric in series.metric.collect() for sample in metric.samples) if series else ()
        names = (name, f"{name}_count")
        return next((sample.value for sample in samples if sample.name in names and sample.labels == labels), 0.0)

    def add_label(self, beginning: str, label: str, value: str) -> None:
        """Serve this label with every series whose name begins with `beginning`. The last value given holds."""
        self._added.setdefault(beginning, {})[label] = value

    def before_exposition(self, callback: Callable[[], None]) -> None:
        """Call `callback` before each scrape, to set gauges that are computed only for it."""
        self._callbacks.append(callback)

    def include(self, other: MetricRegistry) -> None:
        """Serve the families of another registry with these. A family may be in one of them only."""
        self._included.append(other)

    async def expose(self, accept: str = "") -> Exposition:
        """All metrics in the format of OpenMetrics if the Accept header requests it, else in Prometheus' own."""
        encode, content_type = choose_encoder(accept)
        async with self._encoding:
            self._measure()
            return Exposition(content_type, await asyncio.to_thread(encode, self))

    def exposition(self) -> str:
        """All metrics in Prometheus' text format, as text."""
        self._measure()
        return generate_latest(self).decode()

    def _measure(self) -> None:
        for callback in self._callbacks:
            callback()

    def collect(self) -> Iterator[Metric]:
        """Families by name; the series of each in the order of their first values. May run beside writers: every step
        takes a copy, or a lock of prometheus_client.
        """
        for name in sorted(self._series):
            added: dict[str, str] = {}
            for beginning, labels in list(self._added.items()):
                if name.startswith(beginning):
                    added |= labels
            for metric in self._series[name].metric.collect():
                yield _served(metric, added)
        for other in self._included:
            yield from other.collect()

    def _child(self, name: str, kind: Kind, labels: Mapping[str, str]) -> Counter | Gauge | Histogram:
        series = self._series.get(name) or self._begin(name, labels)
        if series.kind != kind:
            raise ValueError(f"metric {name} is a {series.kind}, not a {kind}")
        return series.child(labels)

    def _begin(self, name: str, labels: Mapping[str, str]) -> _Series:
        """Register a family at its first value. Declared labels that the caller does not pass come from `add_label`."""
        family = self._declared.get(name)
        if family is None:
            raise ValueError(f"metric {name} is not declared")
        series = _Series(family, tuple(label for label in family.labels if label in labels))
        series.values(labels)
        self._series[name] = series
        return series


def _metric(family: Family, labels: tuple[str, ...]) -> Counter | Gauge | Histogram:
    match family.kind:
        case "counter":
            return Counter(family.name, family.help, labels, registry=None)
        case "gauge":
            return Gauge(family.name, family.help, labels, registry=None)
        case "histogram":
            return Histogram(family.name, family.help, labels, buckets=family.buckets, registry=None)


def _served(metric: Metric, added: Mapping[str, str]) -> Metric:
    """Return a copy of the family with the `added` labels on each series, and without the series of creation times."""
    created = f"{metric.name}_created"
    metric.samples = [
        sample._replace(labels={**sample.labels, **added}) if added else sample
        for sample in metric.samples
        if sample.name != created
    ]
    return metric

"""Counts evictions by what status.schedulingStats gained in a write, so none is missed and none counted twice."""

from __future__ import annotations

from collections.abc import Iterator

from queue_manager.api.types import Workload
from queue_manager.engine.metrics import Registry

EVICTED = "kueue_evicted_workloads_total"
EVICTED_ONCE = "kueue_evicted_workloads_once_total"


def describe(metrics: Registry) -> None:
    metrics.describe(EVICTED, "Evictions of Workloads, by reason and what is behind it.")
    metrics.describe(EVICTED_ONCE, "Workloads that were evicted at least once, by reason and what is behind it.")


def count(metrics: Registry, before: Workload, after: Workload) -> None:
    """After a successful write that made `after` of `before`."""
    admission = before.status.admission
    class_ref = before.spec.priority_class_ref
    for reason, cause, old, new in _gained(before, after):
        labels = {
            "cluster_queue": admission.cluster_queue if admission is not None else "",
            "reason": reason,
            "underlying_cause": cause,
            "priority_class": class_ref.name if class_ref is not None else "",
        }
        metrics.inc(EVICTED, labels, new - old)
        if old == 0:
            metrics.inc(EVICTED_ONCE, labels)


def _gained(before: Workload, after: Workload) -> Iterator[tuple[str, str, int, int]]:
    old = _counts(before)
    for (reason, cause), new in _counts(after).items():
        if new > old.get((reason, cause), 0):
            yield reason, cause, old.get((reason, cause), 0), new


def _counts(workload: Workload) -> dict[tuple[str, str], int]:
    stats = workload.status.scheduling_stats
    evictions = stats.evictions if stats is not None else ()
    return {(e.reason or "", e.underlying_cause or ""): e.count or 0 for e in evictions}

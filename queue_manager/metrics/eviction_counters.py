"""Counts evictions by the growth of status.schedulingStats in each write, so that none is missed or counted twice."""

from __future__ import annotations

from collections.abc import Iterator

from queue_manager.api import condition_types
from queue_manager.api.types import Workload
from queue_manager.engine.metric_registry import MetricRegistry

EVICTED = "kueue_evicted_workloads_total"
EVICTED_ONCE = "kueue_evicted_workloads_once_total"
BY_LOCAL_QUEUE = "kueue_local_queue_evicted_workloads_total"
READY_UNTIL = "kueue_pods_ready_to_evicted_time_seconds"


def count(metrics: MetricRegistry, before: Workload, after: Workload, *, by_local_queue: bool = True) -> None:
    """Count the evictions of a successful write that changed `before` to `after`."""
    admission = before.status.admission
    class_ref = before.spec.priority_class_ref
    for reason, cause, old, new in _gained(before, after):
        why = {"reason": reason, "underlying_cause": cause}
        queue = {"cluster_queue": admission.cluster_queue if admission is not None else ""}
        own = {**why, "priority_class": class_ref.name if class_ref is not None else ""}
        metrics.inc(EVICTED, {**queue, **own}, new - old)
        if old == 0:
            metrics.inc(EVICTED_ONCE, {**queue, **own})
        if by_local_queue:
            key = before.local_queue
            metrics.inc(BY_LOCAL_QUEUE, {"name": key.name, "namespace": key.namespace, **own}, new - old)
        seconds = _ready_seconds(before, after)
        if seconds is not None:
            metrics.observe(READY_UNTIL, {**queue, **why}, seconds)


def _ready_seconds(before: Workload, after: Workload) -> float | None:
    """How long the pods had been ready; None if they were not."""
    ready, evicted = before.condition(condition_types.PODS_READY), after.condition(condition_types.EVICTED)
    if ready is None or not ready.is_true or evicted is None:
        return None
    if ready.last_transition_time is None or evicted.last_transition_time is None:
        return None
    return max(0.0, (evicted.last_transition_time - ready.last_transition_time).total_seconds())


def _gained(before: Workload, after: Workload) -> Iterator[tuple[str, str, int, int]]:
    old = _counts(before)
    for (reason, cause), new in _counts(after).items():
        if new > old.get((reason, cause), 0):
            yield reason, cause, old.get((reason, cause), 0), new


def _counts(workload: Workload) -> dict[tuple[str, str], int]:
    stats = workload.status.scheduling_stats
    evictions = stats.evictions if stats is not None else ()
    return {(e.reason or "", e.underlying_cause or ""): e.count or 0 for e in evictions}

"""The queue's metrics under the names dashboards for Kueue expect (spec: kueue.md section 8).

Counters and histograms follow the conditions of Workloads: each time one becomes True it is counted, once,
wherever the write came from. What stands in the caches at the start is not counted. Gauges are computed when
somebody asks. Evictions are counted where they are written (`eviction_metrics`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from queue_manager.api import labels
from queue_manager.api.types import Condition, Workload
from queue_manager.engine.metrics import Labels, Registry
from queue_manager.engine.resources import WORKLOADS
from queue_manager.engine.runtime import Runtime
from queue_manager.workloads.scheduler import Scheduler

BUCKETS_14 = (1.0, *(2.5 * 2**k for k in range(13)))
BUCKETS_16 = (1.0, *(2.5 * 2**k for k in range(15)))
MILLI = {"cpu": 1000}  # amounts of cpu are thousandths
BLOCKED = "sluice_cluster_queue_blocked_by_never_fitting_head"

COUNTERS = {
    "quota_reserved_workloads_total": "Reservations of quota.",
    "admitted_workloads_total": "Admissions.",
    "finished_workloads_total": "Workloads that have ended.",
}
HISTOGRAMS = {
    "quota_reserved_wait_time_seconds": ("Time in line before quota was reserved.", BUCKETS_14, BUCKETS_14),
    "admission_wait_time_seconds": ("Time in line before admission.", BUCKETS_16, BUCKETS_14),
    "admission_checks_wait_time_seconds": ("Time from reservation to admission.", BUCKETS_14, BUCKETS_14),
    "ready_wait_time_seconds": ("Time from creation until the pods are ready.", BUCKETS_14, BUCKETS_14),
    "admitted_until_ready_wait_time_seconds": ("Time from admission until ready.", BUCKETS_14, BUCKETS_14),
    "execution_time_seconds": ("Time from admission to the end.", BUCKETS_16, BUCKETS_16),
}
EVICTION_LATENCY = "kueue_workload_eviction_latency_seconds"


class QueueMetrics:
    def __init__(self, runtime: Runtime, scheduler: Scheduler, *, resources: bool, local_queues: bool) -> None:
        """`resources`: also quota and usage; `local_queues`: also the same by LocalQueue."""
        self._metrics: Registry = runtime.metrics
        self._scheduler = scheduler
        self._resources = resources
        self._local_queues = local_queues
        self._workloads = runtime.cache(WORKLOADS, Workload)
        self._shown: dict[str, set[Labels]] = {}
        for name, text in COUNTERS.items():
            self._metrics.describe(f"kueue_{name}", text)
            self._metrics.describe(f"kueue_local_queue_{name}", text)
        for name, (text, buckets, local_buckets) in HISTOGRAMS.items():
            self._metrics.describe(f"kueue_{name}", text, buckets)
            self._metrics.describe(f"kueue_local_queue_{name}", text, local_buckets)
        self._metrics.describe(EVICTION_LATENCY, "Time from an eviction until its quota is free.", BUCKETS_14)
        self._metrics.describe(BLOCKED, "1: the first Workload can never be admitted, and nobody behind it will be.")
        self._workloads.subscribe(self._on_workload)
        self._metrics.before_exposition(self.collect)

    # --- what happens ---

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return
        if reserved := _became_true(old, new, labels.QUOTA_RESERVED):
            self._count("quota_reserved_workloads_total", new)
            self._observe("quota_reserved_wait_time_seconds", new, _queued_at(new), reserved)
        if admitted := _became_true(old, new, labels.ADMITTED):
            self._count("admitted_workloads_total", new)
            self._observe("admission_wait_time_seconds", new, _queued_at(new), admitted)
            if new.status.admission_checks:
                self._observe("admission_checks_wait_time_seconds", new, _since(new, labels.QUOTA_RESERVED), admitted)
        if ready := _became_true(old, new, labels.PODS_READY):
            self._observe("ready_wait_time_seconds", new, _queued_at(new), ready)
            self._observe("admitted_until_ready_wait_time_seconds", new, _since(new, labels.ADMITTED), ready)
        if finished := _became_true(old, new, labels.FINISHED):
            self._count("finished_workloads_total", new)
            self._observe("execution_time_seconds", new, _since(new, labels.ADMITTED), finished)
        if old.status.admission is not None and new.status.admission is None:
            self._released(old, new)

    def _count(self, name: str, workload: Workload) -> None:
        for full, own in self._series(name, workload):
            self._metrics.inc(full, own)

    def _observe(self, name: str, workload: Workload, start: datetime | None, end: Condition) -> None:
        if start is None or end.last_transition_time is None:
            return
        seconds = max(0.0, (end.last_transition_time - start).total_seconds())
        for full, own in self._series(name, workload):
            self._metrics.observe(full, own, seconds)

    def _series(self, name: str, workload: Workload) -> Iterator[tuple[str, dict[str, str]]]:
        admission, reference = workload.status.admission, workload.spec.priority_class_ref
        own = {"priority_class": reference.name if reference is not None else ""}
        yield f"kueue_{name}", {"cluster_queue": admission.cluster_queue if admission else "", **own}
        if self._local_queues:
            key = workload.local_queue
            yield f"kueue_local_queue_{name}", {"name": key.name, "namespace": key.namespace, **own}

    def _released(self, old: Workload, new: Workload) -> None:
        evicted, reserved = new.condition(labels.EVICTED), new.condition(labels.QUOTA_RESERVED)
        if evicted is None or not evicted.is_true or reserved is None or old.status.admission is None:
            return
        if evicted.last_transition_time is not None and reserved.last_transition_time is not None:
            own = {"cluster_queue": old.status.admission.cluster_queue, "reason": evicted.reason}
            seconds = (reserved.last_transition_time - evicted.last_transition_time).total_seconds()
            self._metrics.observe(EVICTION_LATENCY, own, max(0.0, seconds))

    # --- what is ---

    def collect(self) -> None:
        """Set all gauges, and drop those of what is no more."""
        shown: dict[str, set[Labels]] = {}
        for name, own, value in self._gauges():
            self._metrics.set(name, own, value)
            shown.setdefault(name, set()).add(tuple(sorted(own.items())))
        for name, series in self._shown.items():
            for gone in series - shown.get(name, set()):
                self._metrics.remove(name, dict(gone))
        self._shown = shown

    def _gauges(self) -> Iterator[tuple[str, dict[str, str], float]]:
        state, queues = self._scheduler.state, self._scheduler.queues
        for name, queue in state.queues.items():
            own = {"cluster_queue": name}
            pending = queues.cluster_queues.get(name)
            active, parked = (pending.active, pending.inadmissible) if pending is not None else (0, 0)
            yield "kueue_pending_workloads", {**own, "status": "active"}, active
            yield "kueue_pending_workloads", {**own, "status": "inadmissible"}, parked
            yield "kueue_reserving_active_workloads", own, len(queue.holdings)
            yield "kueue_admitted_active_workloads", own, sum(h.admitted for h in queue.holdings.values())
            yield BLOCKED, own, float(pending is not None and pending.never is not None)
            yield from self._status(name)
            if self._resources:
                yield from self._quotas(name)
        if self._local_queues:
            yield from self._by_local_queue()

    def _status(self, name: str) -> Iterator[tuple[str, dict[str, str], float]]:
        """Of a ClusterQueue; `pending` means that it admits nothing."""
        if self._scheduler.state.queues[name].queue.metadata.deletion_timestamp is not None:
            current = "terminating"
        else:
            current = "active" if self._scheduler.is_active(name) else "pending"
        for status in ("pending", "active", "terminating"):
            yield "kueue_cluster_queue_status", {"cluster_queue": name, "status": status}, float(status == current)

    def _quotas(self, name: str) -> Iterator[tuple[str, dict[str, str], float]]:
        queue = self._scheduler.state.queues[name]
        for fr, quota in queue.node.quotas.items():
            unit = MILLI.get(fr.resource, 1)
            own = {"cohort": queue.queue.spec.cohort_name, "cluster_queue": name}
            own |= {"flavor": fr.flavor, "resource": fr.resource}
            used = sum(h.usage.get(fr, 0) for h in queue.holdings.values() if h.admitted)
            yield "kueue_cluster_queue_resource_reservation", own, queue.node.usage.get(fr, 0) / unit
            yield "kueue_cluster_queue_resource_usage", own, used / unit
            yield "kueue_cluster_queue_nominal_quota", own, quota.nominal / unit
            for limit, value in (("borrowing", quota.borrowing_limit), ("lending", quota.lending_limit)):
                yield f"kueue_cluster_queue_{limit}_limit", own, float("inf") if value is None else value / unit

    def _by_local_queue(self) -> Iterator[tuple[str, dict[str, str], float]]:
        state, queues = self._scheduler.state, self._scheduler.queues
        holdings = [h for queue in state.queues.values() for h in queue.holdings.values()]
        for key, local in queues.local_queues.items():
            own = {"name": key.name, "namespace": key.namespace}
            active, parked = queues.waiting_by_status(key)
            yield "kueue_local_queue_pending_workloads", {**own, "status": "active"}, active
            yield "kueue_local_queue_pending_workloads", {**own, "status": "inadmissible"}, parked
            mine = [h for h in holdings if h.queue == key]
            yield "kueue_local_queue_reserving_active_workloads", own, len(mine)
            yield "kueue_local_queue_admitted_active_workloads", own, sum(h.admitted for h in mine)
            works = local.spec.stop_policy in ("", labels.STOP_NONE)
            now = str(works and self._scheduler.is_active(local.spec.cluster_queue))
            for value in ("True", "False", "Unknown"):
                yield "kueue_local_queue_status", {**own, "active": value}, float(value == now)


def _became_true(old: Workload, new: Workload, kind: str) -> Condition | None:
    condition = new.condition(kind)
    return condition if condition is not None and condition.is_true and not old.is_true(kind) else None


def _queued_at(workload: Workload) -> datetime | None:
    """Since when it waits for this run: since it was put back in line, or created."""
    requeued = workload.condition(labels.REQUEUED)
    if requeued is not None and requeued.is_true:
        return requeued.last_transition_time
    return workload.metadata.creation_timestamp


def _since(workload: Workload, kind: str) -> datetime | None:
    condition = workload.condition(kind)
    return condition.last_transition_time if condition is not None and condition.is_true else None

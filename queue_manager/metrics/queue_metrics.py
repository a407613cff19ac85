"""Counters and histograms of the queue, and the exposition of its gauges.

Counters and histograms follow the conditions of Workloads: each change of a condition to True counts once, whoever
wrote it. The content of the caches at the start does not count. Gauges are computed for each exposition (`gauges`),
evictions are counted where they are written (`eviction_counters`). BEHAVIOUR.md#q42-metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from job_controller.model import Key
from queue_manager.api import condition_types, reasons
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Condition, Workload
from queue_manager.configuration.process_sections import Metrics
from queue_manager.engine.metric_registry import Labels, MetricRegistry
from queue_manager.engine.runtime import Runtime
from queue_manager.metrics import eviction_counters, gauges
from queue_manager.metrics.build_info import set_build_info
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.workload_writer import WorkloadWriter

ROLE = "replica_role"  # leader, follower, or standalone without leader election

EVICTION_LATENCY = "kueue_workload_eviction_latency_seconds"


class QueueMetrics:
    """Counts the changes of Workloads, and sets the gauges before each exposition."""

    def __init__(self, runtime: Runtime, quota_cache: QuotaCache, writer: WorkloadWriter, config: Metrics) -> None:
        """`config`: the initial configuration; set the attribute to apply a new one."""
        self.config = config
        self._metrics: MetricRegistry = runtime.metrics
        self._quota_cache = quota_cache
        self._workloads = runtime.cache(WORKLOADS, Workload)
        self._shown: dict[str, set[Labels]] = {}
        self._metrics.add_label("kueue_", ROLE, "standalone")
        set_build_info(self._metrics)
        writer.listeners.append(self._on_written)
        self._workloads.subscribe(self._on_workload)
        self._metrics.before_exposition(self.collect)

    # --- events ---

    def _on_written(self, before: Workload, after: Workload) -> None:
        eviction_counters.count(self._metrics, before, after, by_local_queue=self._is_exported(before.local_queue))

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return
        if reserved := _became_true(old, new, condition_types.QUOTA_RESERVED):
            self._count("quota_reserved_workloads_total", new)
            self._observe("quota_reserved_wait_time_seconds", new, _queued_at(new), reserved)
        if admitted := _became_true(old, new, condition_types.ADMITTED):
            self._count("admitted_workloads_total", new)
            self._count_admission_in_cohorts(new)
            self._observe("admission_wait_time_seconds", new, _queued_at(new), admitted)
            if new.status.admission_checks:
                self._observe(
                    "admission_checks_wait_time_seconds", new, _since(new, condition_types.QUOTA_RESERVED), admitted
                )
        if ready := _became_true(old, new, condition_types.PODS_READY):
            self._observe("ready_wait_time_seconds", new, _queued_at(new), ready)
            self._observe("admitted_until_ready_wait_time_seconds", new, _since(new, condition_types.ADMITTED), ready)
        if finished := _became_true(old, new, condition_types.FINISHED):
            self._count("finished_workloads_total", new)
            self._observe("execution_time_seconds", new, _since(new, condition_types.ADMITTED), finished)
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

    def _count_admission_in_cohorts(self, workload: Workload) -> None:
        admission = workload.status.admission
        queue = self._quota_cache.state.queues.get(admission.cluster_queue) if admission is not None else None
        for cohort in gauges.ancestors(queue.node) if queue is not None else ():
            own = {"cohort": cohort.name, **_priority_class(workload)}
            self._metrics.inc("kueue_cohort_subtree_admitted_workloads_total", own)

    def _series(self, name: str, workload: Workload) -> Iterator[tuple[str, dict[str, str]]]:
        admission, own = workload.status.admission, _priority_class(workload)
        yield f"kueue_{name}", {"cluster_queue": admission.cluster_queue if admission else "", **own}
        key = workload.local_queue
        if self._is_exported(key):
            yield f"kueue_local_queue_{name}", {"name": key.name, "namespace": key.namespace, **own}

    def _released(self, old: Workload, new: Workload) -> None:
        evicted, reserved = new.condition(condition_types.EVICTED), new.condition(condition_types.QUOTA_RESERVED)
        if evicted is None or not evicted.is_true or reserved is None or old.status.admission is None:
            return
        if evicted.last_transition_time is not None and reserved.last_transition_time is not None:
            reason = evicted.reason
            if reason.startswith(reasons.DEACTIVATED_DUE_TO):  # as in the counters of evictions, without the cause
                reason = reasons.DEACTIVATED
            own = {"cluster_queue": old.status.admission.cluster_queue, "reason": reason}
            seconds = (reserved.last_transition_time - evicted.last_transition_time).total_seconds()
            self._metrics.observe(EVICTION_LATENCY, own, max(0.0, seconds))

    # --- gauges ---

    def collect(self) -> None:
        """Set all gauges, and remove the series that no longer exist."""
        shown: dict[str, set[Labels]] = {}
        found = gauges.gauges(
            self._quota_cache,
            self._workloads.values(),
            self._is_exported,
            resources=self.config.enable_cluster_queue_resources,
        )
        for name, own, value in found:
            full = name if name.startswith("sluice_") else f"kueue_{name}"
            self._metrics.set(full, own, value)
            shown.setdefault(full, set()).add(tuple(sorted(own.items())))
        for name, series in self._shown.items():
            for gone in series - shown.get(name, set()):
                self._metrics.remove(name, dict(gone))
        self._shown = shown

    def _is_exported(self, queue: Key) -> bool:
        """Whether a LocalQueue has series of its own."""
        wanted = self.config.local_queue_metrics
        if not wanted.enable or wanted.local_queue_selector is None:
            return wanted.enable
        local = self._quota_cache.queues.local_queues.get(queue)
        return local is not None and wanted.local_queue_selector.matches(local.metadata.labels)


def _priority_class(workload: Workload) -> dict[str, str]:
    reference = workload.spec.priority_class_ref
    return {"priority_class": reference.name if reference is not None else ""}


def _became_true(old: Workload, new: Workload, kind: str) -> Condition | None:
    condition = new.condition(kind)
    return condition if condition is not None and condition.is_true and not old.is_true(kind) else None


def _queued_at(workload: Workload) -> datetime | None:
    """Since when the Workload has been pending for this run: since it was requeued, or created."""
    requeued = workload.condition(condition_types.REQUEUED)
    if requeued is not None and requeued.is_true:
        return requeued.last_transition_time
    return workload.metadata.creation_timestamp


def _since(workload: Workload, kind: str) -> datetime | None:
    condition = workload.condition(kind)
    return condition.last_transition_time if condition is not None and condition.is_true else None

"""Metrics of admission cycles, under Kueue's names (config/METRICS.md).

`preemption_target_recomputations_total` of Kueue has no counterpart: its cycle searches new victims for an entry whose
victims were taken, while here such an entry is nominated from scratch in the next cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.scheduling.cycle import Admit, Outcome, Refuse
from queue_manager.scheduling.quota_state import SchedulerState

ATTEMPTS = "kueue_admission_attempts_total"
DURATION = "kueue_admission_attempt_duration_seconds"
SKIPS = "kueue_admission_cycle_preemption_skips"


class CycleMetrics:
    """Counts cycles. A series of a ClusterQueue lasts as long as the ClusterQueue."""

    def __init__(self, metrics: MetricRegistry, state: SchedulerState) -> None:
        self._metrics = metrics
        self._state = state
        self._skipping: set[str] = set()  # ClusterQueues with a series
        metrics.before_exposition(self._forget_deleted)

    def record(self, decided: Iterable[Outcome], seconds: float) -> None:
        """Count one cycle with its duration."""
        admitted, skips = False, Counter[str]()
        for outcome in decided:
            admitted = admitted or isinstance(outcome, Admit)
            if isinstance(outcome, Refuse) and outcome.skips_preemption:
                skips[outcome.cluster_queue] += 1
        result = {"result": "success" if admitted else "inadmissible"}
        self._metrics.inc(ATTEMPTS, result)
        self._metrics.observe(DURATION, result, seconds)
        for queue, count in skips.items():
            self._metrics.set(SKIPS, {"cluster_queue": queue}, count)
            self._skipping.add(queue)

    def _forget_deleted(self) -> None:
        deleted = self._skipping - self._state.queues.keys()
        for queue in deleted:
            self._metrics.remove(SKIPS, {"cluster_queue": queue})
        self._skipping -= deleted

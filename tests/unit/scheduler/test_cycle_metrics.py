"""What is counted about admission cycles."""

from __future__ import annotations

from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.scheduler.cycle_metrics import ATTEMPTS, SKIPS, CycleMetrics
from queue_manager.scheduling.cycle import run_cycle
from tests.unit.queueing.builders import T0, pending
from tests.unit.scheduling.preemption_cases import queue, run, state


def test_a_preemption_that_another_one_prevents_counts_as_skipped() -> None:
    """Both heads need the quota that b has borrowed; the second one finds the victim taken."""
    s = state(queue("a1", "1", "co", reclaim="Any"), queue("a2", "1", "co", reclaim="Any"), queue("b", "0", "co"))
    run(s, "b0", "b"), run(s, "b1", "b")
    metrics = MetricRegistry()
    cycles = CycleMetrics(metrics, s)
    heads = [("a1", pending("first")), ("a2", pending("second", created=1))]
    cycles.record(run_cycle(s, heads, T0), 0.5)
    cycles.record([], 0.5)
    assert metrics.value(ATTEMPTS, {"result": "inadmissible"}) == 2
    assert [line for line in metrics.exposition().splitlines() if line.startswith(SKIPS)] == [
        f'{SKIPS}{{cluster_queue="a2"}} 1.0'
    ]
    s.drop_queue("a2")
    assert f"{SKIPS}{{" not in metrics.exposition()


def test_a_head_that_loses_free_quota_skips_no_preemption() -> None:
    s = state(queue("a1", "1", "co"), queue("a2", "0", "co"))
    metrics = MetricRegistry()
    heads = [("a1", pending("first")), ("a2", pending("second", created=1))]
    CycleMetrics(metrics, s).record(run_cycle(s, heads, T0), 0.5)
    assert metrics.value(ATTEMPTS, {"result": "success"}) == 1
    assert SKIPS not in metrics.exposition()

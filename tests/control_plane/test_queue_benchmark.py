"""`make bench-queue` in small: the load is played to its end by the manager and by the plain client.

Figures of time are not compared.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from queue_manager.engine.rest_client import RestClient
from tests.benchmarks import queue_report
from tests.benchmarks.bench_queue import measure, measure_plain
from tests.benchmarks.queue_record import ADMITTED, BY_RUNNER
from tests.benchmarks.queue_shape import Shape
from tests.control_plane.cleanup import clear
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

TINY = Shape().scaled(scale=0.02, duration_scale=0.2, cohorts=1)


async def test_the_queue_benchmark_counts_each_write_once(plane: ControlPlane, api: RestClient, namespace: str) -> None:
    ours = await measure(plane, TINY)
    await clear(api)
    plain = await measure_plain(plane, replace(TINY, prefix="plain"))
    for record in (ours.record, plain.record):
        assert record.finished == record.causes[BY_RUNNER] == TINY.total
        assert record.causes[ADMITTED] >= TINY.total
        assert record.pending == record.running == 0
    assert 0 < ours.record.most_in_use <= TINY.quota_of_cohort
    assert ours.spent.writes["patch workloads/status"] == ours.record.status_writes
    assert ours.spent.cpu["manager"] > 0
    assert len(queue_report.rows(TINY, ours, plain)) > len(TINY.classes)

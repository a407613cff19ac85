"""The lag and the silence of a watch, as metrics."""

from __future__ import annotations

import asyncio
from random import Random

from job_controller.model import ObjectMeta, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.runtime import SILENCE, Runtime
from queue_manager.engine.watch_lag import WATCH_LAG, WatchLag
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import cluster
from tests.unit.engine.loopback import Loopback, pod
from tests.waiting import SECONDS, until

OF_PODS = {"resource": "pods"}


class Watch:
    """A measured watch with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = MetricRegistry()
        self.lag = WatchLag(self.metrics, "pods", lambda: self.now)

    @property
    def seconds(self) -> list[str]:
        """Sum and number of what was observed."""
        lines = self.metrics.exposition().splitlines()
        return [line.split()[1] for line in lines if line.startswith((f"{WATCH_LAG}_sum", f"{WATCH_LAG}_count"))]


def test_the_lag_lasts_from_the_response_to_the_event_of_its_revision() -> None:
    watch = Watch()
    watch.lag.await_revision(10)
    watch.now = 2.0
    watch.lag.delivered(9)
    assert watch.seconds == []
    watch.now = 3.0
    watch.lag.delivered(12)
    watch.lag.delivered(13)
    assert sorted(watch.seconds) == ["1.0", "3.0"]


def test_one_write_at_a_time_is_measured() -> None:
    watch = Watch()
    watch.lag.await_revision(10)
    watch.now = 1.0
    watch.lag.await_revision(11)
    watch.now = 4.0
    watch.lag.delivered(11)
    assert sorted(watch.seconds) == ["1.0", "4.0"]
    watch.lag.await_revision(12)
    watch.now = 6.0
    watch.lag.delivered(12)
    assert sorted(watch.seconds) == ["2.0", "6.0"]


async def test_a_runtime_measures_its_watches(served: tuple[Loopback, HttpTransport]) -> None:
    server, transport = served
    runtime = Runtime(transport, SystemClock(), Random(1))
    cache = runtime.cache(PODS, Pod)
    assert SILENCE not in runtime.metrics.exposition()
    async with runtime:
        await until(lambda: bool(server.watches()))
        cache.apply_response(Pod(metadata=ObjectMeta(name="a", uid="uid-a", resource_version=str(server.revision + 1))))
        server.put(pod("b"))
        await until(lambda: runtime.metrics.value(WATCH_LAG, OF_PODS) == 1)
        runtime.metrics.exposition()
        assert 0 < runtime.metrics.value(SILENCE, OF_PODS) < SECONDS


def test_a_server_in_the_same_process_sends_no_bookmarks_and_has_no_silence() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await asyncio.sleep(3600)
            assert SILENCE not in c.world.metrics.exposition()

    run_virtual(scenario())

"""Client-side rate limit: no more requests than configured, in their order."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_controller.model import ObjectMeta, Pod
from queue_manager.api.api_resources import EVENTS, PODS
from queue_manager.configuration import loads
from queue_manager.engine.request_throttle import ThrottledTransport, TokenBucket, throttled
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def test_a_burst_is_sent_at_once_and_the_rest_at_the_rate() -> None:
    bucket = TokenBucket((10.0, 3))
    assert [round(bucket.take(100.0), 3) for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]


def test_requests_that_wait_leave_in_groups_at_the_rate() -> None:
    bucket = TokenBucket((100.0, 20))
    waits = [round(bucket.take(5.0), 3) for _ in range(20 + 30)]
    assert waits == [0] * 20 + [0.1] * 10 + [0.2] * 10 + [0.3] * 10


def test_no_request_overtakes_those_that_wait() -> None:
    bucket = TokenBucket((100.0, 20))
    for _ in range(21):
        bucket.take(5.0)
    assert bucket.take(5.05) == pytest.approx(0.05)
    assert bucket.take(5.2) == 0


def test_a_group_is_not_larger_than_the_burst() -> None:
    bucket = TokenBucket((100.0, 2))
    assert [round(bucket.take(5.0), 3) for _ in range(6)] == [0, 0, 0.02, 0.02, 0.04, 0.04]


def test_a_pause_fills_the_bucket_up_to_its_size() -> None:
    bucket = TokenBucket((10.0, 3))
    for _ in range(3):
        bucket.take(100.0)
    assert [round(bucket.take(1000.0), 3) for _ in range(4)] == [0, 0, 0, 0.1]


@given(st.lists(st.floats(0, 2), max_size=60), st.floats(0.5, 500), st.integers(1, 30))
def test_no_interval_has_more_requests_than_burst_and_rate_allow(pauses: list[float], qps: float, burst: int) -> None:
    bucket, now, gone = TokenBucket((qps, burst)), 0.0, []
    for pause in pauses:
        now += pause
        gone.append(now + bucket.take(now))
    assert gone == sorted(gone), "in the order in which they came"
    for first in range(len(gone)):
        for last in range(first, len(gone)):
            assert last - first + 1 <= burst + (gone[last] - gone[first]) * qps + 1e-6


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", (300.0, 500)),
        ("clientConnection: {qps: 20, burst: 30}\n", (20.0, 30)),
        ("clientConnection: {qps: -1}\n", None),
        ("clientConnection: {qps: 0, burst: 0}\n", (5.0, 10)),
    ],
)
def test_the_limit_comes_from_the_configuration(text: str, limit: Any) -> None:
    assert loads(HEAD + text).client_connection.limit == limit


def test_without_a_limit_the_transport_is_unchanged() -> None:
    async def scenario() -> None:
        transport = _transport()
        assert throttled(transport, None) is transport
        assert isinstance(throttled(transport, (1.0, 1)), ThrottledTransport)

    run_virtual(scenario(), until=timedelta(hours=1))


def test_a_client_waits_for_its_turn() -> None:
    """Fifty requests at ten per second, the first five at once."""

    async def scenario() -> None:
        client = RestClient(throttled(_transport(), (10.0, 5)))
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(client.list(PODS) for _ in range(50)))
        assert asyncio.get_running_loop().time() - began == pytest.approx(4.5, abs=0.01)

    run_virtual(scenario(), until=timedelta(hours=1))


def test_events_wait_for_no_token_of_other_requests() -> None:
    """A hundred Events recorded before ten lists at one per second: the lists wait for each other only."""

    async def scenario() -> None:
        clock, transport = virtual_clock(), _transport()
        runtime = Runtime(
            throttled(transport, (1.0, 1)),
            clock,
            random.Random(1),
            silence=None,
            event_transport=throttled(transport, (1.0, 1)),
        )
        recorder = runtime.recorder("test")
        async with runtime:
            for number in range(100):
                meta = ObjectMeta(name=f"pod-{number}", namespace="default", uid=f"u{number}")
                recorder.event(Pod(api_version="v1", kind="Pod", metadata=meta), "Normal", "Started", "text")
            await asyncio.sleep(20)
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(runtime.client.list(PODS) for _ in range(10)))
            assert asyncio.get_running_loop().time() - began == pytest.approx(9, abs=0.01)
            events = len(await runtime.client.list(EVENTS, "default"))
            assert 25 <= events <= 35, "at their own pace of one per second"

    run_virtual(scenario(), until=timedelta(hours=1))


def _transport() -> LocalTransport:
    clock = virtual_clock()
    return LocalTransport(ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock))

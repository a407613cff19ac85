"""The runtime: starts in order, stops in time, and fails visibly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from job_controller.model import Key, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.workqueue import WorkQueue
from tests.unit.engine.loopback import Loopback, pod, status
from tests.waiting import until

Served = tuple[Loopback, HttpTransport]


def a_runtime(transport: HttpTransport) -> Runtime:
    return Runtime(transport, SystemClock(), random.Random(1))


async def test_workers_start_when_every_cache_is_synced(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    runtime = a_runtime(transport)
    pods = runtime.cache(PODS, Pod)
    queue: WorkQueue[Key] = WorkQueue("pods")
    pods.subscribe(lambda old, new: queue.add(new.metadata.key) if new else None)
    seen: list[tuple[Key, bool]] = []

    async def sync(key: Key) -> None:
        seen.append((key, pods.synced))

    runtime.worker(queue, sync)
    async with runtime:
        server.put(pod("b"))
        await until(lambda: len(seen) == 2)
    assert seen == [(Key("default", "a"), True), (Key("default", "b"), True)]


async def test_one_cache_for_the_same_arguments(served: Served) -> None:
    runtime = a_runtime(served[1])
    assert runtime.cache(PODS, Pod) is runtime.cache(PODS, Pod)
    assert runtime.cache(PODS, Pod) is not runtime.cache(PODS, Pod, label_selector="a=b")


async def test_a_write_is_in_the_cache_before_the_watch_delivers_it(served: Served) -> None:
    server, transport = served
    runtime = a_runtime(transport)
    pods = runtime.cache(PODS, Pod)
    async with runtime:
        await until(lambda: len(server.watches()) == 1)
        server.stalled = True
        await runtime.client.create(PODS, "default", pod("a"))
        assert pods.get("default", "a") is not None
        await runtime.client.patch(PODS, "default", "a", {"status": {"phase": "Running"}}, type=Pod)
        cached = pods.get("default", "a")
        assert cached is not None
        assert cached.status.phase == "Running"
        await runtime.client.delete(PODS, "default", "a")
        assert pods.get("default", "a") is None


async def test_a_cache_added_after_the_start_fills_itself(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    async with a_runtime(transport) as runtime:
        pods = runtime.cache(PODS, Pod)
        await until(lambda: pods.synced)
        assert len(pods) == 1


async def test_a_task_that_dies_ends_the_block_with_its_error(served: Served) -> None:
    runtime = a_runtime(served[1])

    async def dies() -> None:
        await asyncio.sleep(0)
        raise KeyError("broken")

    runtime.task(dies)
    with pytest.raises(KeyError, match="broken"):
        async with runtime:
            await asyncio.Event().wait()


async def test_a_supporting_task_starts_first_and_its_error_ends_the_start() -> None:
    """The server never answers; an ordinary task would still wait for the caches."""
    began: list[str] = []

    async def supports() -> None:
        began.append("support")
        raise KeyError("lost")

    async def works() -> None:
        began.append("task")

    async with silent_server() as transport:
        runtime = a_runtime(transport)
        runtime.cache(PODS, Pod)
        runtime.task(works)
        runtime.support(supports)
        with pytest.raises(KeyError, match="lost"):
            async with runtime:
                await asyncio.Event().wait()
    assert began == ["support"]


@asynccontextmanager
async def silent_server() -> AsyncIterator[HttpTransport]:
    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    transport = HttpTransport(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    yield transport
    await transport.close()
    server.close()


async def test_a_task_may_return(served: Served) -> None:
    done = asyncio.Event()

    async def returns() -> None:
        done.set()

    runtime = a_runtime(served[1])
    runtime.task(returns)
    async with runtime:
        await done.wait()
        await asyncio.sleep(0)


async def test_the_error_of_the_block_comes_out_of_it(served: Served) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with a_runtime(served[1]):
            raise ValueError("mine")


async def test_cancelling_the_block_is_a_cancellation(served: Served) -> None:
    inside = asyncio.Event()

    async def program() -> None:
        async with a_runtime(served[1]):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(program())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failing_sync_is_retried(served: Served) -> None:
    queue: WorkQueue[str] = WorkQueue("failing", first_delay=0.001)
    attempts: list[str] = []

    async def sync(key: str) -> None:
        attempts.append(key)
        if len(attempts) < 3:
            raise RuntimeError("not yet")

    runtime = a_runtime(served[1])
    runtime.worker(queue, sync)
    async with runtime:
        queue.add("a")
        await until(lambda: len(attempts) == 3 and queue.failures("a") == 0)


async def test_stopping_waits_for_a_running_sync(served: Served) -> None:
    queue: WorkQueue[str] = WorkQueue("slow")
    began, finished = asyncio.Event(), asyncio.Event()

    async def sync(key: str) -> None:
        began.set()
        await asyncio.sleep(0.05)
        finished.set()

    runtime = a_runtime(served[1])
    runtime.worker(queue, sync)
    async with runtime:
        queue.add("a")
        await began.wait()
    assert finished.is_set()


async def test_stopping_takes_less_than_five_seconds_with_a_sync_that_hangs(served: Served) -> None:
    queue: WorkQueue[str] = WorkQueue("hanging")
    began = asyncio.Event()

    async def sync(key: str) -> None:
        began.set()
        await asyncio.Event().wait()

    runtime = a_runtime(served[1])
    runtime.worker(queue, sync)
    async with asyncio.timeout(5):
        async with runtime:
            queue.add("a")
            await began.wait()
        left = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in left if name.startswith(("worker", "reflector", "hanging"))]


async def test_the_start_waits_for_a_server_that_is_busy(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    server.refusals.append(status(429, "TooManyRequests", "busy", {"Retry-After": "0"}))
    runtime = a_runtime(transport)
    pods = runtime.cache(PODS, Pod)
    async with runtime:
        assert len(pods) == 1


async def test_events_recorded_last_are_delivered_before_the_stop(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    runtime = a_runtime(transport)
    pods = runtime.cache(PODS, Pod)
    recorder = runtime.recorder("test")
    async with runtime:
        regarding = pods.get("default", "a")
        assert regarding is not None
        recorder.event(regarding, "Normal", "Stopping", "bye")
    assert [body["reason"] for body in server.bodies] == ["Stopping"]


async def test_an_event_of_a_new_component_does_not_disturb_the_stop(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    runtime = a_runtime(transport)
    pods = runtime.cache(PODS, Pod)
    recorder = runtime.recorder("test")

    async def report() -> None:
        while not server.bodies:
            await asyncio.sleep(0)
        runtime.recorder("late")

    runtime.support(report)
    async with runtime:
        regarding = pods.get("default", "a")
        assert regarding is not None
        recorder.event(regarding, "Normal", "Stopping", "bye")
    assert [body["reason"] for body in server.bodies] == ["Stopping"]

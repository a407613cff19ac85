"""The work queue, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.process_tuning import event_loop
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.simulation.virtual_time import run_virtual

Worker = Callable[[str], Awaitable[None]]


async def work(queue: WorkQueue[str], worker: Worker, seconds: float, concurrency: int = 1) -> None:
    """Let the queue run for so long."""
    running = asyncio.create_task(queue.run(worker, concurrency))
    await asyncio.sleep(seconds)
    queue.close()
    await running


def times_of_attempts(seconds: float) -> list[float]:
    """When a key that always fails is tried."""
    attempts: list[float] = []

    async def fails(key: str) -> None:
        attempts.append(asyncio.get_running_loop().time())
        raise OSError("away")

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        queue.add("a")
        await work(queue, fails, seconds)

    run_virtual(main())
    return attempts


def test_backoff_doubles_from_one_second_to_sixty() -> None:
    attempts = times_of_attempts(300)
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert pauses[:9] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_day_of_backoff_is_a_matter_of_milliseconds() -> None:
    began = time.process_time()
    assert len(times_of_attempts(86_400)) == 7 + (86_400 - 63) // 60
    assert time.process_time() - began < 5


def test_success_makes_the_next_failure_the_first() -> None:
    outcomes = iter([OSError(), OSError(), None, OSError(), None])
    attempts: list[float] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            attempts.append(asyncio.get_running_loop().time())
            if (error := next(outcomes)) is not None:
                raise error

        queue.add("a")
        asyncio.get_running_loop().call_at(10, queue.add, "a")
        await work(queue, worker, 60)

    run_virtual(main())
    assert attempts == [0, 1, 3, 10, 11]


def test_a_queued_key_is_not_added_twice() -> None:
    seen: list[str] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            seen.append(key)

        for key in ("a", "b", "a", "c", "b"):
            queue.add(key)
        await work(queue, worker, 1)

    run_virtual(main())
    assert seen == ["a", "b", "c"]


def test_a_key_added_while_it_is_processed_goes_to_the_end_of_the_queue() -> None:
    seen: list[str] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            seen.append(key)
            if len(seen) == 1:
                queue.add("a")
                queue.add("a")
                queue.add("b")
                await asyncio.sleep(1)

        queue.add("a")
        await work(queue, worker, 5)

    run_virtual(main())
    assert seen == ["a", "b", "a"]


def test_new_keys_wait_for_known_ones_but_not_without_end() -> None:
    """One key in eight is new while others are queued."""
    done: list[str] = []

    async def note(key: str) -> None:
        done.append(key)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        for number in range(3):
            queue.add(f"new-{number}", new=True)
        for number in range(10):
            queue.add(f"old-{number}")
        queue.add("new-2")  # queued already, and keeps its position
        assert len(queue) == 13
        await work(queue, note, 1)

    run_virtual(main())
    assert done[:7] == [f"old-{number}" for number in range(7)]
    assert done[7:] == ["new-0", "old-7", "old-8", "old-9", "new-1", "new-2"]


def test_an_urgent_new_key_overtakes_the_others() -> None:
    """A queued key keeps its one entry; a key that is not queued is appended."""
    done: list[str] = []

    async def note(key: str) -> None:
        done.append(key)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        for number in range(20):
            queue.add(f"new-{number}", new=True)
        queue.add("old")
        queue.add("new-19", urgent=True)
        queue.add("new-19", urgent=True)
        queue.add("other", urgent=True)
        assert len(queue) == 22
        await work(queue, note, 1)

    run_virtual(main())
    assert done[:4] == ["old", "new-19", "other", "new-0"]
    assert len(done) == 22


def test_an_urgent_new_key_is_processed_while_new_keys_use_their_workers() -> None:
    begun: dict[str, float] = {}

    async def slow(key: str) -> None:
        begun[key] = asyncio.get_running_loop().time()
        await asyncio.sleep(10)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        for number in range(4):
            queue.add(f"new-{number}", new=True)
        asyncio.get_running_loop().call_later(5, lambda: queue.add("new-3", urgent=True))
        await work(queue, slow, 100, 4)

    run_virtual(main())
    assert begun == {"new-0": 0, "new-3": 5, "new-1": 10, "new-2": 20}


def test_new_keys_never_use_all_workers() -> None:
    """Of eight workers at most two process new keys; the others are left to known ones."""
    begun: dict[str, float] = {}

    async def slow(key: str) -> None:
        begun[key] = asyncio.get_running_loop().time()
        await asyncio.sleep(10)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        for number in range(5):
            queue.add(f"new-{number}", new=True)
        asyncio.get_running_loop().call_later(5, queue.add, "old")
        await work(queue, slow, 100, 8)

    run_virtual(main())
    assert begun == {"new-0": 0, "new-1": 0, "old": 5, "new-2": 10, "new-3": 10, "new-4": 20}


def test_the_earliest_of_several_delays_counts() -> None:
    seen: list[float] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            seen.append(asyncio.get_running_loop().time())

        for seconds in (30, 10, 20):
            queue.add_after("a", seconds)
        await work(queue, worker, 100)

    run_virtual(main())
    assert seen == [10]


def test_an_addition_now_does_not_cancel_one_for_later() -> None:
    seen: list[float] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            seen.append(asyncio.get_running_loop().time())

        queue.add_after("a", 10)
        queue.add("a")
        await work(queue, worker, 100)

    run_virtual(main())
    assert seen == [0, 10]


def times_of_work(fill: Callable[[WorkQueue[str]], None]) -> list[tuple[str, float]]:
    """When each key is processed in 100 seconds of a queue that `fill` was called with."""
    seen: list[tuple[str, float]] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            seen.append((key, asyncio.get_running_loop().time()))

        fill(queue)
        await work(queue, worker, 100)

    run_virtual(main())
    return seen


@pytest.mark.parametrize("seconds", [0, -5])
def test_a_delay_that_has_passed_is_zero(seconds: float) -> None:
    assert times_of_work(lambda queue: queue.add_after("a", seconds)) == [("a", 0)]


def test_a_delayed_key_can_be_added_at_once_and_runs_once() -> None:
    def fill(queue: WorkQueue[str]) -> None:
        queue.add_after("a", 30)
        queue.add_after("b", 40)
        asyncio.get_running_loop().call_at(10, queue.flush_delayed)
        asyncio.get_running_loop().call_at(20, queue.add_after, "a", 5)

    assert times_of_work(fill) == [("a", 10), ("b", 10), ("a", 25)]


def test_a_closed_queue_accepts_no_keys() -> None:
    def fill(queue: WorkQueue[str]) -> None:
        queue.add_after("a", 30)
        asyncio.get_running_loop().call_at(10, queue.close)
        asyncio.get_running_loop().call_at(20, queue.add_after, "b", 5)
        asyncio.get_running_loop().call_at(20, queue.add, "c")

    assert times_of_work(fill) == []


@pytest.mark.parametrize(
    ("error", "level"),
    [(OSError("away"), "WARNING"), (ApiError(409, "Conflict", "c"), "WARNING"), (KeyError("k"), "ERROR")],
)
def test_expected_api_errors_are_not_logged_as_errors(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(_key: str) -> None:
            raise error

        queue.add("a")
        await work(queue, worker, 0.5)

    run_virtual(main())
    assert [(record.levelname, record.exc_info is not None) for record in caplog.records] == [(level, level == "ERROR")]


def test_closing_finishes_running_syncs_and_drops_the_rest() -> None:
    finished: list[str] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            await asyncio.sleep(10)
            finished.append(key)

        for key in "abc":
            queue.add(key)
        await work(queue, worker, 5, concurrency=2)
        queue.add("d")
        assert len(queue) == 0

    run_virtual(main())
    assert finished == ["a", "b"]


def test_cancelling_a_waiting_run_loses_no_key() -> None:
    seen: list[str] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            seen.append(key)

        first = asyncio.create_task(queue.run(worker))
        await asyncio.sleep(1)
        queue.add("a")  # wakes the worker that is cancelled before it gets the key
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await work(queue, worker, 1)

    run_virtual(main())
    assert seen == ["a"]


def test_a_key_that_always_adds_itself_does_not_block_the_loop() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()

        async def worker(key: str) -> None:
            queue.add(key)

        queue.add("a")
        working = asyncio.create_task(queue.run(worker, 1))
        for _ in range(10):
            await asyncio.sleep(0)
        queue.close()
        await working

    asyncio.run(main())


def test_metrics_of_waiting_processing_and_retrying() -> None:
    metrics = MetricRegistry()

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("job", metrics=metrics)

        async def worker(key: str) -> None:
            await asyncio.sleep(2)
            if metrics.value("workqueue_retries_total", {"name": "job"}) == 0:
                raise OSError

        queue.add("a")
        await work(queue, worker, 60)

    run_virtual(main())
    labels = {"name": "job"}
    assert metrics.value("workqueue_adds_total", labels) == 2
    assert metrics.value("workqueue_retries_total", labels) == 1
    assert metrics.value("workqueue_work_duration_seconds", labels) == 2
    assert 'workqueue_work_duration_seconds_sum{name="job"} 4.0' in metrics.exposition()


def test_counters_of_an_unused_queue_are_zero() -> None:
    metrics = MetricRegistry()
    WorkQueue[str]("job_orphan_pod", metrics=metrics)
    for counter in ("adds", "retries"):
        assert f'workqueue_{counter}_total{{name="job_orphan_pod"}} 0.0\n' in metrics.exposition()


def test_gauges_of_depth_and_unfinished_work() -> None:
    metrics = MetricRegistry()
    reported: list[str] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("job", metrics=metrics)

        async def worker(key: str) -> None:
            await asyncio.sleep(2)
            if key == "a":
                reported.append(metrics.exposition())

        for key in "abc":
            queue.add(key)
        await work(queue, worker, 60)

    run_virtual(main())
    for line in ("depth", 2), ("unfinished_work_seconds", 2), ("longest_running_processor_seconds", 2):
        assert f'workqueue_{line[0]}{{name="job"}} {line[1]}.0\n' in reported[0]
    assert 'workqueue_depth{name="job"} 0.0\n' in metrics.exposition()
    assert 'workqueue_unfinished_work_seconds{name="job"} 0.0\n' in metrics.exposition()


@given(
    additions=st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 20), st.integers(0, 5), st.booleans()), max_size=30
    ),
    concurrency=st.integers(1, 3),
)
def test_no_key_is_processed_twice_at_once_and_none_is_missed(
    additions: list[tuple[str, int, int, bool]], concurrency: int
) -> None:
    """Keys are added at times with delays; a sync takes a while, and may fail the first time."""
    in_progress: set[str] = set()
    done: dict[str, float] = {}  # key -> when its last sync began
    failing = {key for key, _, _, fails in additions if fails}

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        loop = asyncio.get_running_loop()

        async def worker(key: str) -> None:
            assert key not in in_progress
            in_progress.add(key)
            began = loop.time()
            try:
                await asyncio.sleep(3)
                if key in failing:
                    failing.discard(key)
                    raise OSError("first time")
            finally:
                in_progress.discard(key)
            done[key] = began

        for key, at, delay, _ in additions:
            loop.call_at(at, queue.add_after, key, delay)
        await work(queue, worker, 1000, concurrency)

    run_virtual(main())
    for key, at, delay, _ in additions:
        assert done[key] >= at or delay > 0
    assert set(done) == {key for key, *_ in additions}


def test_delays_below_half_a_millisecond_work_with_uvloop() -> None:
    """uvloop has no such short timers and returns a plain handle."""
    done: list[str] = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def worker(key: str) -> None:
            done.append(key)
            queue.finish()

        queue.add_after("a", 0.0001)
        queue.add_after("a", 0.0002)
        queue.add_after("a", 0.00005)
        await queue.run(worker)

    with event_loop() as runner:
        runner.run(main())
    assert done == ["a"]

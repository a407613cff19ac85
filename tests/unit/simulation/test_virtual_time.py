"""The event loop of virtual time: order of timers, limits, deadlocks and livelocks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from queue_manager.simulation.virtual_time import Deadlock, Livelock, VirtualLoop, run_virtual, virtual_clock

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_virtual_time_goes_from_timer_to_timer() -> None:
    async def main() -> list[datetime]:
        clock = virtual_clock()
        times = [clock.now()]
        for seconds in (0.5, 86_400, 30 * 86_400):
            await asyncio.sleep(seconds)
            times.append(clock.now())
        return times

    expected = [timedelta(0), timedelta(seconds=0.5), timedelta(days=1, seconds=0.5), timedelta(days=31, seconds=0.5)]
    assert run_virtual(main(), START) == [START + step for step in expected]


def test_timers_of_one_time_fire_in_the_order_they_were_set() -> None:
    fired: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_at(10, fired.append, number)
        await asyncio.sleep(11)

    run_virtual(main())
    assert sorted(fired) == list(range(50))
    assert len(fired) == 50


def test_a_run_ends_at_its_limit() -> None:
    async def main() -> None:
        await asyncio.sleep(1000)

    with pytest.raises(TimeoutError):
        run_virtual(main(), START, until=START + timedelta(seconds=999))


def test_a_deadlock_names_the_waiting_tasks() -> None:
    async def waits_for_nothing() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="waiting:\n  Task-"):
        run_virtual(waits_for_nothing())


def test_a_livelock_is_an_error() -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    loop = VirtualLoop(max_rounds=1000)
    with pytest.raises(Livelock):
        loop.run_until_complete(spin())


def test_threads_are_refused_under_virtual_time() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run_virtual(main())

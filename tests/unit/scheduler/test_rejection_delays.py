"""How long a rejected write is delayed, and when an Event is recorded about it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random

from queue_manager.api import event_reasons
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.refused_write_events import COUNTS_SECONDS, REPEAT_SECONDS
from queue_manager.scheduler.rejection_delays import MAX_RETRY_SECONDS, Rejections
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock
from tests.simulation.stores import NoServer
from tests.unit.queueing.builders import workload

DENIED = ApiError(403, "Forbidden", "denied")


def test_an_event_is_repeated_while_the_rejections_go_on() -> None:
    """So often that it counts all the time."""

    async def scenario() -> None:
        runtime = Runtime(NoServer(), virtual_clock(), Random(0))
        recorder, times = runtime.recorder(event_reasons.SCHEDULER_COMPONENT), []
        recorder.event = lambda *_: times.append(runtime.clock.now())  # type: ignore[method-assign]
        rejections, waiting, delays = Rejections(runtime), workload(), []
        for _ in range(30):
            delays.append(rejections.record(waiting, DENIED))
            await asyncio.sleep(delays[-1])
        between = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
        assert (delays[:3], max(delays)) == ([1, 2, 4], MAX_RETRY_SECONDS)
        assert len(between) >= 3
        assert all(REPEAT_SECONDS <= seconds <= COUNTS_SECONDS / 2 for seconds in between), between
        before = len(times)
        rejections.forget(waiting.metadata.uid)
        assert (rejections.record(waiting, DENIED), len(times)) == (1, before + 1)

    run_virtual(scenario())

"""The Event about a Job that the API server refuses to queue is repeated, so that it counts as long as that is so."""

from __future__ import annotations

import asyncio

import msgspec

from queue_manager.api.api_resources import EVENTS
from queue_manager.api.event_reasons import QUEUEING_REFUSED
from queue_manager.api.events import Event
from queue_manager.lifecycle.refused_write_events import REPEAT_SECONDS, counts
from tests.local.queue.cluster import NS, cluster
from tests.local.queue.environments import run


def test_the_event_about_a_job_that_is_not_queued_is_repeated() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            c.world.admission.clear()
            await c.queues()
            await c.submit("a", queue="Bad_Name")
            for periods in (1, 2, 3):
                await asyncio.sleep(REPEAT_SECONDS + 60)
                events = msgspec.convert(await c.client.list(EVENTS, NS), list[Event])
                [found] = [event for event in events if event.reason == QUEUEING_REFUSED]
                assert found.last is not None
                assert counts(found.last, c.world.clock.now())
                assert periods <= found.times <= periods + 2

    run(scenario())

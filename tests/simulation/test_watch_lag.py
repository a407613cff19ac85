"""Each kind has a watch of its own, and one watch may lag behind the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from queue_manager.api.api_resources import NAMESPACES
from queue_manager.configuration import loads
from queue_manager.engine.transport_protocol import Relay
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, Cluster

LAG_SECONDS = 3.0
CONFIG = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
managedJobsNamespaceSelector: {matchLabels: {team: x}}
"""


class SlowNamespaces(Relay):
    """Delivers watch events of namespaces later than all others."""

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        inner = super().stream(path, query=query)
        return inner if not path.endswith("/namespaces") else _late(inner)


@asynccontextmanager
async def _late(inner: AbstractAsyncContextManager[AsyncIterator[bytes]]) -> AsyncIterator[AsyncIterator[bytes]]:
    async def lines(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in stream:
            await asyncio.sleep(LAG_SECONDS)
            yield line

    async with inner as stream:
        yield lines(stream)


def test_a_job_seen_before_its_namespace_is_queued_once_that_is_seen() -> None:
    async def scenario() -> None:
        async with World(1, config=loads(CONFIG), separate_queue=True, wrap_transport=SlowNamespaces) as world:
            c = Cluster(world, {})
            tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS, "labels": {"team": "x"}}}
            await c.create(NAMESPACES, tree)
            await c.submit("a", suspend=True)
            await c.until(lambda: c.condition("a", "QuotaReserved"), MISSING, seconds=2 * LAG_SECONDS)

    run_virtual(scenario())


MISSING = ("False", "Misconfigured", "LocalQueue lq doesn't exist")

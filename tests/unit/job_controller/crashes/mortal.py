"""A transport whose requests fail from some write on, or whose watches are late or break off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response
from queue_manager.local.server.in_process import LocalTransport

When = Literal["before", "after"]


@dataclass(frozen=True)
class Fate:
    """What happens to the connection of the controller.

    `death`: the write to Jobs and pods at which it fails, before or after the write is applied. `delay`: seconds by
    which watches are late. `cut`: chunks after which a watch breaks off, losing the last one. `forgotten`: after a cut
    the server answers 410, so that only a new list shows the present state.
    """

    death: tuple[int, When] | None = None
    delay: float = 0.0
    cut: int = 0
    forgotten: bool = False


class MortalTransport(Relay):
    """Rejects every request after its death."""

    def __init__(self, inner: LocalTransport, fate: Fate) -> None:
        super().__init__(inner)
        self._fate = fate
        self.dead = asyncio.Event()
        self.writes = 0
        self._lost: set[str] = set()  # paths whose watch was cut

    async def request(self, request: Request) -> Response:
        if self.dead.is_set():
            await self._silence()
        if request.method == "GET" or "/events" in request.path:
            return await self._inner.request(request)
        self.writes += 1
        if self._fate.death == (self.writes, "before"):
            await self._die()
        answer = await self._inner.request(request)
        if self._fate.death == (self.writes, "after"):
            await self._die()
        return answer

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        if path in self._lost:
            self._lost.discard(path)
            raise ApiError(410, "Expired", "too old resource version")
        async with self._inner.stream(path, query=query) as chunks:
            yield self._late(path, chunks)

    async def _late(self, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        number = 0
        async for chunk in chunks:
            number += 1
            if self._fate.cut and number > self._fate.cut:
                if self._fate.forgotten:
                    self._lost.add(path)
                raise ConnectionResetError("cut")
            if self._fate.delay:
                await asyncio.sleep(self._fate.delay)
            if not self.dead.is_set():
                yield chunk

    async def close(self) -> None: ...

    async def _die(self) -> None:
        self.dead.set()
        await self._silence()

    @staticmethod
    async def _silence() -> None:
        await asyncio.get_running_loop().create_future()

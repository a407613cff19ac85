"""A limit on the request rate of a program: a token bucket, like client-go's QPS and burst.

Every request takes a token, a watch takes one when it opens. The bucket starts with `burst` tokens and gains `qps` per
second. Requests are sent in the order in which they were made.

Events have a bucket of their own with the same limit, as in Kueue: client-go gives each REST client a bucket, unless
rest.Config.RateLimiter is set, and controller-runtime's event recorder has a REST client of its own. controller-runtime
also has a REST client for each kind of object. Here all kinds other than Events share one bucket, so that the limit is
that of the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from queue_manager.engine.kept_loop import KeptLoop
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport

RateLimit = tuple[float, int]  # (requests per second, burst); both more than 0


class TokenBucket:
    """A token bucket. Pure: the caller passes the time, in seconds of any one clock."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._tokens = float(limit[1])
        self._since = float("-inf")

    def take(self, now: float) -> float:
        """Take a token and return the seconds to wait for it, 0 if one is available."""
        qps, burst = self._limit
        if now > self._since:
            gained = (now - self._since) * qps if self._since > float("-inf") else 0.0
            self._tokens, self._since = min(float(burst), self._tokens + gained), now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / qps)


class ThrottledTransport(Relay):
    """Relays to another transport, no faster than the limit."""

    def __init__(self, transport: Transport, limit: RateLimit) -> None:
        super().__init__(transport)
        self._bucket = TokenBucket(limit)
        self._loop = KeptLoop()

    async def request(self, request: Request) -> Response:
        """See `Transport.request`; waits for a token first."""
        await self._wait_for_token()
        return await super().request(request)

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`; waits for a token first."""
        await self._wait_for_token()
        async with self._inner.stream(path, query=query) as chunks:
            yield chunks

    async def _wait_for_token(self) -> None:
        seconds = self._bucket.take(self._loop.time())
        if seconds:
            await asyncio.sleep(seconds)


def throttled(transport: Transport, limit: RateLimit | None) -> Transport:
    """The transport with this limit; the transport itself if `limit` is None."""
    return transport if limit is None else ThrottledTransport(transport, limit)

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from queue_manager.engine.http_transport import HttpTransport
from tests.unit.engine.loopback import Loopback, serve


@pytest_asyncio.fixture
async def served() -> AsyncIterator[tuple[Loopback, HttpTransport]]:
    async with serve() as pair:
        yield pair

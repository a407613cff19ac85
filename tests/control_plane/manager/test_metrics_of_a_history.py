"""What Prometheus reads over TLS, as a service account that may, after a history that is played in virtual time.

The API server answers who reads (TokenReview) and whether it may (SubjectAccessReview), the manager's own server
the scrape. Names, labels and values are those that tests/simulation expects of the history.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from functools import partial

import aiohttp
import pytest

from queue_manager.cli.manager import serve_probes, tls_context
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.addresses import parse
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.operator import probes
from queue_manager.simulation.virtual_time import run_virtual
from tests.control_plane.manager.service_account import account
from tests.control_plane.manager.test_metrics_access import READER, delegate_authentication
from tests.control_plane.server import ControlPlane
from tests.local.queue.cluster import cluster
from tests.simulation.test_metrics_of_a_history import BUILD, CONFIG, EXPECTED, PODS, ROLE, history
from tests.waiting import until

pytestmark = pytest.mark.control_plane


async def played() -> MetricRegistry:
    async with cluster(CONFIG, **PODS) as c:
        await history(c)
        return c.world.metrics


async def test_a_scrape_with_authentication_has_what_the_history_implies(
    api: RestClient, namespace: str, plane: ControlPlane
) -> None:
    registry = await asyncio.to_thread(run_virtual, played())
    server, reader = await account(api, namespace), await account(api, namespace, READER)
    await delegate_authentication(api, namespace, server.name)
    async with AsyncExitStack() as stack:
        transport = HttpTransport(plane.url, token=(await server.token())[0], ssl=plane.ssl_context())
        stack.push_async_callback(transport.close)
        config = KueueConfig()
        answers = probes.routes(config, registry, lambda: "")
        served = {parse(":0"): ["metrics"]}
        context = partial(tls_context, config, None)
        [url] = await serve_probes(stack, served, answers, RestClient(transport), context)
        assert url.startswith("https://")
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)))

        async def scrape(token: str) -> tuple[int, str]:
            async with session.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
                return answer.status, await answer.text()

        allowed = (await reader.token())[0]

        async def is_allowed() -> bool:
            return (await scrape(allowed))[0] == 200

        await until(is_allowed, "server and reader have their roles")
        assert (await scrape("wrong"))[0] == 401
        text = (await scrape(allowed))[1]
    lines = [line for line in text.splitlines() if line.startswith("kueue_") and "_bucket{" not in line]
    found = [re.sub(f"{ROLE},|,?{ROLE}", "", line).removeprefix("kueue_") for line in lines]
    assert sorted(line for line in found if not line.startswith(BUILD)) == sorted(EXPECTED)

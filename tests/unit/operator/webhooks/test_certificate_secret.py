"""Two replicas share one Secret on the embedded API server."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from job_controller.json_tree import Json
from queue_manager.api.api_resources import NAMESPACES, SECRETS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.operator.webhooks.certificate_rotation import RENEW_BEFORE, CertificateState, expiry
from queue_manager.operator.webhooks.certificate_secret import CertificateSecret, data, read
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock

NAMES = ("webhooks.system.svc",)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Slow(Relay):
    """Lets other clients run between a request and its response."""

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(0)
        answer = await super().request(request)
        await asyncio.sleep(0)
        return answer


async def server() -> RestClient:
    clock = virtual_clock()
    transport = LocalTransport(ApiServer(Store(clock, Random(1)), KindRegistry.builtin(), clock), "manager")
    client = RestClient(Slow(transport))
    await client.create(NAMESPACES, "", {"metadata": {"name": "system"}})
    return client


def secret(client: RestClient) -> CertificateSecret:
    return CertificateSecret(client, "system", "cert")


@pytest.mark.parametrize("existing", [None, {}, {"other": base64.b64encode(b"kept").decode()}])
def test_replicas_that_start_at_once_share_one_certificate(existing: Json) -> None:
    async def play() -> tuple[list[CertificateState], Json]:
        client = await server()
        if existing is not None:
            await client.create(SECRETS, "system", {"metadata": {"name": "cert"}, "data": existing})
        states = await asyncio.gather(*(secret(client).advance(NAMES, START, "") for _ in range(4)))
        return states, await client.get(SECRETS, "system", "cert")

    states, stored = run_virtual(play())
    assert len(set(states)) == 1
    assert read(stored) == states[0]
    assert (existing or {}).items() <= stored["data"].items()


def test_nothing_is_written_while_nothing_is_due() -> None:
    async def play() -> list[str]:
        client = await server()
        versions = []
        for _ in range(2):
            await secret(client).advance(NAMES, START, "")
            versions.append((await client.get(SECRETS, "system", "cert"))["metadata"]["resourceVersion"])
        return versions

    assert len(set(run_virtual(play()))) == 1


def test_a_replica_announces_and_another_one_uses_the_successor() -> None:
    async def play() -> list[CertificateState]:
        client = await server()
        states = [await secret(client).advance(NAMES, START, "")]
        assert states[0].serving is not None
        due = expiry(states[0].serving.certificate) - RENEW_BEFORE
        states.append(await secret(client).advance(NAMES, due, states[0].bundle))
        later = due + timedelta(minutes=2)
        states.append(await secret(client).advance(NAMES, later, states[0].bundle))  # has injected only the old bundle
        states.append(await secret(client).advance(NAMES, later, states[1].bundle))
        return states

    first, announced, waiting, used = run_virtual(play())
    assert announced.serving == first.serving
    assert waiting == announced
    assert used.serving == announced.successor


def test_a_refused_read_is_raised() -> None:
    class Forbidding(Relay):
        async def request(self, request: Request) -> Response:
            return Response(403, {}, b'{"kind":"Status","reason":"Forbidden","message":"no"}')

    async def play() -> None:
        client = await server()
        await secret(RestClient(Forbidding(client.transport))).advance(NAMES, START, "")

    with pytest.raises(ApiError, match="no"):
        run_virtual(play())


def test_a_state_survives_its_secret() -> None:
    async def play() -> CertificateState:
        client = await server()
        state = await secret(client).advance(NAMES, START, "")
        assert state.serving is not None
        return await secret(client).advance(NAMES, expiry(state.serving.certificate) - RENEW_BEFORE, "")

    state = run_virtual(play())
    assert state.announced is not None
    assert read({"data": data(state)}) == state


@pytest.mark.parametrize(
    "stored",
    [
        *(None, {}, {"data": None}, {"data": []}),
        *({"data": {"tls.crt": "§", "successor.since": "AAAA"}}, {"data": {"tls.crt": None, "ca.crt": {"a": 1}}}),
    ],
)
def test_a_damaged_secret_reads_as_an_empty_one(stored: Json) -> None:
    assert read(stored) == CertificateState()

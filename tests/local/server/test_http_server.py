"""The server on a socket: authentication, streams, slow readers, shutdown."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, PODS
from queue_manager.local.server import http_server
from queue_manager.local.server.http_server import Listening, serve
from tests.local.server.world import World, config_map, pod
from tests.local.tls import tls
from tests.waiting import until

TOKEN = "secret"
MAPS = CONFIG_MAPS.path("default")


class ListeningWorld:
    """A world whose server listens."""

    def __init__(self, world: World, listening: Listening, session: aiohttp.ClientSession) -> None:
        self.world = world
        self.listening = listening
        self.session = session

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        if body is not None:
            options["data"] = body if isinstance(body, bytes) else json.dumps(body)
        options["headers"] = {"Content-Type": "application/json"} | options.get("headers", {})
        async with self.session.request(method, path, **options) as answer:
            return answer.status, json.loads(await answer.read())


@pytest.fixture
async def site() -> AsyncIterator[ListeningWorld]:
    world = World()
    listening = await serve(world.server, tls().server, token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with session_of(listening, headers=headers) as session:
        yield ListeningWorld(world, listening, session)
    await listening.close()


def session_of(listening: Listening, **options: Any) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=tls().client)
    return aiohttp.ClientSession(listening.url, connector=connector, **options)


def address(listening: Listening) -> tuple[str, int]:
    host, _, port = listening.url.removeprefix("https://").rpartition(":")
    return host, int(port)


async def test_verbs_work_over_the_socket(site: ListeningWorld) -> None:
    status, created = await site.ask("POST", MAPS, config_map("c"))
    assert status == 201
    assert await site.ask("GET", f"{MAPS}/c") == (200, created)
    patch = {"data": {"b": "2"}}
    headers = {"Content-Type": "application/merge-patch+json"}
    _, patched = await site.ask("PATCH", f"{MAPS}/c", patch, headers=headers)
    assert patched["data"] == {"a": "1", "b": "2"}
    status, answer = await site.ask("DELETE", f"{MAPS}/c", {"propagationPolicy": "Background"})
    assert (status, answer["status"]) == (200, "Success")


@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer ", "", "Basic secret", f"bearer {TOKEN}x", "Bearer sécret"])
@pytest.mark.parametrize("path", [MAPS, "/metrics"])
async def test_a_request_without_the_token_is_refused(site: ListeningWorld, given: str, path: str) -> None:
    status, answer = await site.ask("GET", path, headers={"Authorization": given})
    assert (status, answer["reason"], answer["message"]) == (401, "Unauthorized", "Unauthorized")


async def test_the_token_is_taken_as_a_bearer_token_only(site: ListeningWorld) -> None:
    """As the password of a URL it would be in logs and in the names of kubectl's cache directories."""
    basic = base64.b64encode(f"sluice:{TOKEN}".encode()).decode()
    assert (await site.ask("GET", MAPS, headers={"Authorization": f"Basic {basic}"}))[0] == 401
    assert (await site.ask("GET", MAPS, headers={"Authorization": f"bearer {TOKEN}"}))[0] == 200


async def test_plain_http_is_not_answered(site: ListeningWorld) -> None:
    plain = site.listening.url.replace("https://", "http://")
    with pytest.raises(aiohttp.ClientConnectionError):
        await site.session.get(f"{plain}{MAPS}")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1"])
async def test_a_host_header_with_another_name_is_refused(site: ListeningWorld, host: str) -> None:
    port = site.listening.url.rpartition(":")[2]
    status, answer = await site.ask("GET", MAPS, headers={"Host": host.format(port=port)})
    assert (status, answer["reason"]) == (403, "Forbidden")


async def test_localhost_is_an_accepted_host_name(site: ListeningWorld) -> None:
    port = site.listening.url.rpartition(":")[2]
    assert (await site.ask("GET", MAPS, headers={"Host": f"localhost:{port}"}))[0] == 200


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_no_page_of_another_origin_may_read_a_response(site: ListeningWorld, method: str) -> None:
    """A browser then keeps the response from the page, and sends it no request that needs a preflight."""
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    async with site.session.request(method, f"{site.listening.url}{MAPS}", headers=headers) as answer:
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
async def test_only_loopback_is_listened_on(host: str) -> None:
    with pytest.raises(ValueError, match="not a loopback address"):
        await serve(World().server, tls().server, host=host, token=TOKEN)


async def test_there_is_no_server_without_a_token() -> None:
    with pytest.raises(ValueError, match="token"):
        await serve(World().server, tls().server, token="")


async def test_a_body_over_the_limit_is_413(site: ListeningWorld) -> None:
    status, answer = await site.ask("POST", MAPS, b" " * (3 * 1024 * 1024 + 1))
    assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_chunked_body_over_the_limit_is_413(site: ListeningWorld) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 100_000

    async with site.session.post(MAPS, data=body(), headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 413


async def test_expect_100_continue_is_answered(site: ListeningWorld) -> None:
    body = json.dumps(config_map("c")).encode()
    async with site.session.post(
        MAPS, data=body, headers={"Content-Type": "application/json"}, expect100=True
    ) as answer:
        assert answer.status == 201
    assert (await site.ask("GET", f"{MAPS}/c"))[0] == 200


async def test_warnings_reach_the_client(site: ListeningWorld) -> None:
    async with site.session.post(MAPS, json=config_map("c") | {"foo": 1}) as answer:
        assert answer.headers["Warning"] == '299 - "unknown field \\"foo\\""'


async def test_a_selector_of_a_megabyte_is_accepted(site: ListeningWorld) -> None:
    """kubectl and controllers write lists of names into URLs, and a Kubernetes API server accepts them."""
    await site.ask("POST", MAPS, config_map("c", labels={"a": "7"}))
    selector = "a in (" + ",".join(str(n) for n in range(3000)) + ")"
    status, answer = await site.ask("GET", MAPS, params={"labelSelector": selector}, headers={"X": "x" * 20_000})
    assert (status, len(answer["items"])) == (200, 1)


async def test_bytes_that_are_not_http_are_one_log_line(site: ListeningWorld, caplog: pytest.LogCaptureFixture) -> None:
    """There is no traceback in the terminal of `sluice up`."""
    async with site.session.get(MAPS, headers={"X": "x" * (http_server.MAX_HEAD + 100)}) as answer:
        assert answer.status == 400
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert len(record.getMessage()) < 300


async def test_a_watch_streams_events_as_they_happen(site: ListeningWorld) -> None:
    async with site.session.get(f"{MAPS}?watch=1") as answer:
        assert answer.status == 200
        for name in "abc":
            await site.ask("POST", MAPS, config_map(name))
            event = json.loads(await answer.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)


async def test_a_slow_reader_delays_no_other_and_gets_410() -> None:
    world = World(history=50)
    listening = await serve(world.server, tls().server, token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    big = {"data": {"x": "y" * 100_000}}
    try:
        async with (
            session_of(listening, headers=headers, read_bufsize=1024) as slow,
            session_of(listening, headers=headers) as quick,
            slow.get(f"{MAPS}?watch=1") as sleeping,
            quick.get(f"{MAPS}?watch=1") as reading,
        ):
            for index in range(300):
                await quick.post(MAPS, json=config_map(f"c{index}") | big)
                event = json.loads(await reading.content.readuntil(b"}\n"))
                assert event["object"]["metadata"]["name"] == f"c{index}"
            lines = (await sleeping.content.read()).splitlines()
            assert len(lines) < 300
            assert json.loads(lines[-1])["object"]["code"] == 410
    finally:
        await listening.close()


async def test_a_reader_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "STALLED_SECONDS", 0.2)
    world = World()
    listening = await serve(world.server, tls().server, token=TOKEN)
    host, port = address(listening)
    reader, writer = await asyncio.open_connection(host, port, limit=1024, ssl=tls().client)
    writer.write(
        f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    assert b"200" in await reader.readline()
    for index in range(200):
        await world.create(CONFIG_MAPS, config_map(f"c{index}") | {"data": {"x": "y" * 100_000}})
        await asyncio.sleep(0)
    try:
        async with asyncio.timeout(30):
            # The connection ends without its last chunk, or with a reset.
            assert not (await _rest(reader)).endswith(b"0\r\n\r\n")
    finally:
        writer.close()
        await listening.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """The bytes that arrive after the server has given up on this reader."""
    await asyncio.sleep(1)
    tail = b""
    try:
        while piece := await reader.read(1 << 20):
            tail = (tail + piece)[-100:]
    except ConnectionResetError:
        return b""
    return tail


async def test_a_disconnected_client_ends_its_watch(site: ListeningWorld) -> None:
    answer = await site.session.get(f"{MAPS}?watch=1")
    history = site.world.store.history("configmaps")
    await until(lambda: bool(history._sleepers))
    answer.close()
    await until(lambda: not history._sleepers)


async def test_close_ends_watches_and_lets_requests_finish() -> None:
    world = World()
    listening = await serve(world.server, tls().server, token=TOKEN)
    async with session_of(listening, headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        answer = await session.get(f"{PODS.path()}?watch=1")
        await world.create(PODS, pod("p"))
        assert b'"ADDED"' in await answer.content.readline()
        async with asyncio.timeout(10):
            await listening.close()
            assert await answer.content.read() == b""


async def test_a_fixed_port_in_use_is_an_error(site: ListeningWorld) -> None:
    port = int(site.listening.url.rpartition(":")[2])
    with pytest.raises(OSError, match=str(port)):
        await serve(World().server, tls().server, port=port, token=TOKEN)


async def test_health_is_plain_text(site: ListeningWorld) -> None:
    async with site.session.get("/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")

"""The reflector with a server that misbehaves in each known way."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from job_controller.model import Object, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.json_codec import UNDECODABLE
from queue_manager.engine.reflector import SILENCE_SECONDS, Expired, Reflector
from tests.unit.engine.loopback import Loopback, pod, status
from tests.waiting import until

Served = tuple[Loopback, HttpTransport]


class NoJitter(random.Random):
    """The first retry comes after 0.8 s, so that tests wait no longer than necessary."""

    def random(self) -> float:
        return 0.0


@asynccontextmanager
async def reflecting(transport: HttpTransport, silence: float = SILENCE_SECONDS) -> AsyncIterator[Reflector[Pod]]:
    cache: Cache[Pod] = Cache("pods")
    reflector = Reflector(transport, PODS, Pod, cache, rng=NoJitter(1), silence=silence)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(reflector: Reflector[Pod]) -> list[str]:
    return sorted(obj.metadata.name for obj in reflector.cache)


async def watching(server: Loopback, count: int = 1) -> None:
    await until(lambda: len(server.watches()) >= count)


async def test_lists_then_follows_the_watch(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    async with reflecting(transport) as reflector:
        await until(lambda: names(reflector) == ["a"])
        server.put(pod("b"))
        server.put(pod("a", status={"phase": "Running"}))
        server.put(pod("c"))
        server.remove("b")
        await until(lambda: names(reflector) == ["a", "c"])
        found = reflector.cache.get("default", "a")
        assert found is not None
        assert found.status.phase == "Running"


async def test_listed_objects_know_their_kind(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    async with reflecting(transport) as reflector:
        await until(lambda: len(reflector.cache) == 1)
        assert (reflector.cache.values()[0].api_version, reflector.cache.values()[0].kind) == ("v1", "Pod")


async def test_reads_all_pages_of_a_list(served: Served) -> None:
    server, transport = served
    server.page = 2
    for name in "abcde":
        server.put(pod(name))
    async with reflecting(transport) as reflector:
        await until(lambda: reflector.cache.synced)
        assert names(reflector) == list("abcde")
    assert len(server.lists()) == 3


async def test_a_list_that_expires_between_pages_begins_anew(served: Served) -> None:
    server, transport = served
    server.page = 2
    for name in "abc":
        server.put(pod(name))
    serve_page = server._list

    def expire_once(request):  # type: ignore[no-untyped-def]
        if "continue" in request.query and len(server.lists()) == 2:
            return status(410, "Expired", "continue token too old")
        return serve_page(request)

    server._list = expire_once  # type: ignore[method-assign]
    async with reflecting(transport) as reflector:
        await until(lambda: reflector.cache.synced)
        assert names(reflector) == list("abc")
    assert len(server.lists()) == 4


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_lines_split_anywhere_are_put_together(served: Served, size: int) -> None:
    server, transport = served
    server.chunk = size
    async with reflecting(transport) as reflector:
        await watching(server)
        server.put(pod("ä"))
        server.put(pod("b"))
        await until(lambda: names(reflector) == ["b", "ä"], seconds=20)


async def test_a_bookmark_advances_the_resume_version(served: Served) -> None:
    server, transport = served
    async with reflecting(transport) as reflector:
        await watching(server)
        server.revision += 50
        server.bookmark()
        await until(lambda: reflector.cache.progress == server.revision)
        server.cut()
        await watching(server, 2)
        assert server.watches()[1]["resourceVersion"] == str(server.revision)
    assert len(server.lists()) == 1


async def test_a_dropped_connection_is_resumed_where_it_ended(served: Served) -> None:
    server, transport = served
    async with reflecting(transport) as reflector:
        await watching(server)
        server.put(pod("a"))
        await until(lambda: names(reflector) == ["a"])
        server.cut()
        server.put(pod("b"))
        await until(lambda: names(reflector) == ["a", "b"])
    assert len(server.lists()) == 1


@pytest.mark.parametrize("in_stream", [True, False])
async def test_410_lists_anew_and_reports_only_changes(served: Served, in_stream: bool) -> None:
    server, transport = served
    for name in "abc":
        server.put(pod(name))
    async with reflecting(transport) as reflector:
        await watching(server)
        notified: list[tuple[str, str]] = []

        def changed(old: Pod | None, new: Pod | None) -> None:
            notified.append((old.metadata.name if old else "", new.metadata.name if new else ""))

        reflector.cache.subscribe(changed)
        notified.clear()
        server.stalled = True
        server.remove("b")
        server.put(pod("d"))
        server.forget_history()
        if in_stream:
            server.history[-2:] = [(0, b""), (0, b"")]  # the open watch does not get them
        server.stalled = False
        if in_stream:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            server.send("ERROR", gone)
        else:
            server.cut()
        await until(lambda: names(reflector) == ["a", "c", "d"])
        assert len(server.lists()) == 2
    assert notified == [("b", ""), ("", "d")]


@pytest.mark.parametrize("type", [Object, Pod])
def test_410_within_a_watch_is_noticed_for_each_object_type(type: type[Object]) -> None:
    """To a type without a status of its own, a Status looks like an object without a name."""
    cache: Cache[Object] = Cache("things")
    reflector = Reflector(HttpTransport("http://localhost"), PODS, type, cache, rng=NoJitter(1))
    added = {"type": "ADDED", "object": {"metadata": {"name": "a", "uid": "1", "resourceVersion": "5"}}}
    gone = {"kind": "Status", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410, "message": "old"}
    lines = [added, {"type": "ERROR", "object": gone}]
    with pytest.raises(Expired):
        reflector.take("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert [obj.metadata.name for obj in cache] == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "ERROR", "object": {"kind": "Status", "code": {"a": 1}}},
        {"type": "ERROR", "object": []},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "soon"}}},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1" * 5000}}},
    ],
    ids=["status", "no status", "word", "digits"],
)
def test_an_event_of_another_shape_is_an_error_that_is_retried(line: object) -> None:
    """Any other exception would end the reflector, and the cache would stay as it is."""
    cache: Cache[Pod] = Cache("things")
    reflector = Reflector(HttpTransport("http://localhost"), PODS, Pod, cache, rng=NoJitter(1))
    with pytest.raises(UNDECODABLE):
        reflector.take(json.dumps(line).encode() + b"\n")


async def test_an_error_event_that_is_not_410_keeps_the_cache_and_the_place(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    async with reflecting(transport) as reflector:
        await watching(server)
        server.put(pod("b"))
        server.send("ERROR", {"kind": "Status", "status": "Failure", "code": 500, "message": "etcdserver: no leader"})
        await until(lambda: len(server.watches()) == 2)
        server.put(pod("c"))
        await until(lambda: names(reflector) == ["a", "b", "c"])
    assert len(server.lists()) == 1


async def test_retry_after_of_a_busy_server_is_respected(served: Served) -> None:
    server, transport = served
    server.refusals.append(status(429, "TooManyRequests", "busy", {"Retry-After": "2"}))
    loop = asyncio.get_running_loop()
    async with reflecting(transport) as reflector:
        began = loop.time()
        await until(lambda: reflector.cache.synced)
        assert 2 <= loop.time() - began < 3


@pytest.mark.parametrize("code", [500, 503, 401, 404])
async def test_a_refused_list_is_retried(served: Served, code: int) -> None:
    server, transport = served
    server.put(pod("a"))
    server.refusals.append(status(code, "", "not now"))
    async with reflecting(transport) as reflector:
        await until(lambda: names(reflector) == ["a"])


async def test_a_silent_watch_is_closed_and_opened_again(served: Served) -> None:
    server, transport = served
    async with reflecting(transport, silence=0.1) as reflector:
        await watching(server)
        server.stalled = True
        server.put(pod("a"))
        await watching(server, 2)
        server.stalled = False
        await until(lambda: names(reflector) == ["a"])
    assert len(server.lists()) == 1


async def test_an_undecodable_object_is_left_out_and_logged(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    server, transport = served
    server.put(pod("listed", status={"phase": 7}))
    server.put(pod("good"))
    async with reflecting(transport) as reflector:
        await watching(server)
        server.put(pod("watched", status={"phase": 7}))
        server.put(pod("after"))
        await until(lambda: names(reflector) == ["after", "good"])
        assert reflector.undecodable_count == 2
        assert len(server.watches()) == 1
        server.remove("watched")
        server.put(pod("last"))
        await until(lambda: "last" in names(reflector))
    keys = [getattr(record, "key", "") for record in caplog.records if record.levelno == logging.ERROR]
    assert keys == ["default/listed", "default/watched"]


async def test_the_last_readable_state_stays_until_the_object_is_deleted(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    async with reflecting(transport) as reflector:
        await watching(server)
        server.put(pod("a", status={"phase": 7}))
        await until(lambda: reflector.undecodable_count == 1)
        assert names(reflector) == ["a"]
        server.remove("a")
        await until(lambda: names(reflector) == [])


async def test_undecodable_objects_are_reported_with_their_head(served: Served) -> None:
    server, transport = served
    server.put(pod("a", status={"phase": 7}))
    reported: list[tuple[Object, str]] = []
    cache: Cache[Pod] = Cache("pods")
    reflector = Reflector(
        transport, PODS, Pod, cache, rng=NoJitter(1), undecodable=lambda head, why: reported.append((head, why))
    )
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    [(head, why)] = reported
    assert (head.kind, head.metadata.name) == ("Pod", "a")
    assert "phase" in why


async def test_a_line_that_is_not_json_fails_only_the_watch(served: Served) -> None:
    server, transport = served
    server.put(pod("a"))
    async with reflecting(transport) as reflector:
        await watching(server)
        server.send_line(b"{not json\n")
        server.history.pop()
        server.put(pod("b"))
        await until(lambda: names(reflector) == ["a", "b"])


async def test_selectors_are_sent_with_list_and_watch(served: Served) -> None:
    server, transport = served
    cache: Cache[Pod] = Cache("pods")
    reflector = Reflector(
        transport, PODS, Pod, cache, rng=NoJitter(1), label_selector="a in (b,c)", field_selector="spec.nodeName=n"
    )
    task = asyncio.create_task(reflector.run())
    await watching(server)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for queries in (server.lists(), server.watches()):
        sent = {(query["labelSelector"], query["fieldSelector"]) for query in queries}
        assert sent == {("a in (b,c)", "spec.nodeName=n")}


async def test_a_very_long_line_arrives_whole(served: Served) -> None:
    server, transport = served
    async with reflecting(transport) as reflector:
        await watching(server)
        server.put(pod("a", spec={"env": "x" * 2_000_000}))
        await until(lambda: names(reflector) == ["a"])
    assert len(json.dumps(server.objects["default/a"])) > 2_000_000

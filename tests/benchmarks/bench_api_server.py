"""Throughput of the embedded API server over TLS, with its journal: one client process, 50 requests in flight.

Two anchors make figures of a loaded machine comparable: a bare aiohttp server that answers every request of the same
client over TLS with constant bytes, and `json.loads` of a pod. Compare the ratios to them.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop
from aiohttp import web
from rich.console import Console
from rich.table import Table

from queue_manager.engine.clock import SystemClock
from queue_manager.engine.process_tuning import tune_garbage_collector
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.loopback_certificate import provide
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.http_server import serve
from queue_manager.local.storage.journal import Journal
from queue_manager.local.storage.store import Store
from tests.process_figures import cpu_seconds

TOKEN = "benchmark"
PODS = 6000
IN_FLIGHT = 50
CONNECTIONS = 500
WATCHERS = 3
COLLECTION = "/api/v1/namespaces/default/pods"


def pod(name: str) -> bytes:
    """A pod as the Job controller creates them."""
    labels = {"batch.kubernetes.io/job-name": "bench", "batch.kubernetes.io/controller-uid": "u", "app": "bench"}
    owner: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "name": "bench", "uid": "u"}
    owner |= {"controller": True, "blockOwnerDeletion": True}
    meta = {
        "name": name,
        "labels": labels,
        "ownerReferences": [owner],
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    container = {
        "name": "main",
        "image": "local",
        "command": ["sh", "-c", "true"],
        "resources": {"requests": {"cpu": "1"}},
    }
    spec = {"restartPolicy": "Never", "containers": [container], "nodeSelector": {"kind": "bench"}}
    return orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


async def client(url: str, bare: str, trust: ssl.SSLContext) -> dict[str, tuple[float, str]]:
    """Run the measurements in the client process; returns name -> (figure, unit) in order."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Accept": "application/json"}
    connector = aiohttp.TCPConnector(limit=0, ssl=trust)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector) as session:
        found = {}
        rate = await _writes(session, "warm", 500)
        cpu = _server_seconds()
        rate = await _writes(session, "pod", PODS)
        found["pods created"] = (rate, "/s")
        found["  CPU of the server"] = ((_server_seconds() - cpu) / PODS * 1e6, "µs each")
        cpu, body = _server_seconds(), pod("anchor")
        rate = await _many(PODS, lambda _: _ask(session, "POST", bare, body))
        found["constant answers (anchor)"] = (rate, "/s")
        found["  CPU of the server "] = ((_server_seconds() - cpu) / PODS * 1e6, "µs each")
        found["json.loads of a pod (anchor)"] = (_loads_seconds(body) * 1e6, "µs each")
        rate = await _many(PODS, lambda index: _ask(session, "GET", f"{COLLECTION}/pod-{index:05}"))
        found["pods read one by one"] = (rate, "/s")
        rate = await _many(CONNECTIONS, lambda _: _connect(url, trust))
        found["connections, with one request each"] = (rate, "/s")
        rate = await _many(PODS // 2, lambda index: _patch_status(session, index))
        found["pod statuses patched"] = (rate, "/s")
        started = time.perf_counter()
        size = sum([len(await _ask(session, "GET", COLLECTION)) for _ in range(5)])
        found["lists of all pods"] = (size / 1e6 / (time.perf_counter() - started), "MB/s")
        rate, events = await _watched(session)
        found[f"pods created, {WATCHERS} watches"] = (rate, "/s")
        found["watch events received"] = (events, "/s")
        return found


def _server_seconds() -> float:
    """User and system time of the process that serves, so far."""
    return cpu_seconds(os.getppid())


def _loads_seconds(text: bytes) -> float:
    count = 20_000
    began = time.process_time()
    for _ in range(count):
        json.loads(text)
    return (time.process_time() - began) / count


async def _constant(request: web.BaseRequest) -> web.Response:
    """The constant answer of the bare server."""
    await request.read()
    return web.Response(body=b"x" * 1000, status=201)


async def _writes(session: aiohttp.ClientSession, prefix: str, count: int) -> float:
    bodies = [pod(f"{prefix}-{index:05}") for index in range(count)]
    return await _many(count, lambda index: _ask(session, "POST", COLLECTION, bodies[index]))


async def _patch_status(session: aiohttp.ClientSession, index: int) -> bytes:
    body = json.dumps({"status": {"phase": "Running", "hostIP": "127.0.0.1"}}).encode()
    headers = {"Content-Type": "application/merge-patch+json"}
    return await _ask(session, "PATCH", f"{COLLECTION}/pod-{index:05}/status", body, headers)


async def _ask(
    session: aiohttp.ClientSession, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> bytes:
    async with session.request(method, path, data=body or None, headers=headers) as answer:
        text = await answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return text


async def _connect(url: str, trust: ssl.SSLContext) -> None:
    """Open a connection and send one request, as each kubectl command does."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector) as session:
        await _ask(session, "GET", "/version")


async def _many(count: int, act: Callable[[int], Awaitable[Any]]) -> float:
    """Returns calls per second, with IN_FLIGHT of them at a time."""
    todo = iter(range(count))

    async def worker() -> None:
        for index in todo:
            await act(index)

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return count / (time.perf_counter() - started)


async def _watched(session: aiohttp.ClientSession) -> tuple[float, float]:
    """Returns pods created per second, and watch events received per second by all watches together."""
    count = PODS // 2
    version = json.loads(await _ask(session, "GET", f"{COLLECTION}?limit=1"))["metadata"]["resourceVersion"]

    async def watch(ready: asyncio.Event) -> None:
        async with session.get(f"{COLLECTION}?watch=1&resourceVersion={version}") as answer:
            ready.set()
            seen = 0
            while seen < count:
                seen += (await answer.content.readany()).count(b'{"type":"ADDED"')

    events = [asyncio.Event() for _ in range(WATCHERS)]
    tasks = [asyncio.create_task(watch(event)) for event in events]
    for event in events:
        await event.wait()
    started = time.perf_counter()
    rate = await _writes(session, "seen", count)
    await asyncio.gather(*tasks)
    return rate, count * WATCHERS / (time.perf_counter() - started)


def _client_process(url: str, bare: str, authority: str, pipe: Connection) -> None:
    pipe.send(uvloop.run(client(url, bare, ssl.create_default_context(cadata=authority))))


async def measure() -> dict[str, tuple[float, str]]:
    """Serve from this process and run the client in another one."""
    tune_garbage_collector()
    with tempfile.TemporaryDirectory() as directory:
        store = Store(SystemClock(), random.Random(), Journal.open(directory))
        server = ApiServer(store, KindRegistry.builtin(), SystemClock())
        identity = provide(Path(directory) / "serving.pem", SystemClock().now())
        listening = await serve(server, identity.context(), token=TOKEN)
        web_server = web.Server(_constant, access_log=None)
        bare = await asyncio.get_running_loop().create_server(web_server, "127.0.0.1", 0, ssl=identity.context())
        anchor = f"https://127.0.0.1:{bare.sockets[0].getsockname()[1]}/"
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_client_process, args=(listening.url, anchor, identity.authority, theirs))
        process.start()
        answered = asyncio.Event()
        asyncio.get_running_loop().add_reader(ours.fileno(), answered.set)
        watchdog = asyncio.create_task(_died(process, answered))
        await answered.wait()
        watchdog.cancel()
        asyncio.get_running_loop().remove_reader(ours.fileno())
        found: dict[str, tuple[float, str]] = ours.recv() if ours.poll() else {}
        process.join()
        bare.close()
        await listening.close()
        store.close()
        return found


async def _died(process: Any, answered: asyncio.Event) -> None:
    while process.is_alive():
        await asyncio.sleep(0.5)
    answered.set()


def main() -> None:
    """Print the table."""
    found = uvloop.run(measure())
    table = Table("what", "figure", "unit", title=f"embedded API server over TLS, journal on, {IN_FLIGHT} in flight")
    for name, (figure, unit) in found.items():
        table.add_row(name, f"{figure:,.0f}", unit)
    Console().print(table)


if __name__ == "__main__":
    main()

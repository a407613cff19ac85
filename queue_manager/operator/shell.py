"""The controllers inside kopf, which is the shell of the process on a real cluster.

What kopf does here: it runs the start-up and clean-up handlers around the life of the process, asks the login
handler for credentials, and ends everything in order when told to. Admission webhooks will be served from it.
The controllers begin before it: its import is a fifth of the time in which we promise to be ready, so that
happens in a thread once they are, and its start-up handler finds them working.

What it does not do, and why:

- *Watch and write.* Its watchers take a fortieth of the events that our reflector takes, and end the process
  when the API server sends an error inside a watch. There is no resource handler in the registry, so it opens
  no watch; it reads the discovery documents once.
- *Own our tasks and connections.* At its end it cancels every task that was created after it began, whosever
  it is, and closes the session it was given. The tasks of the controllers are older than it; the clean-up
  handler, for which kopf waits before it touches any task, stops the runtime in the runtime's order and then
  closes our connections; and kopf gets a session of its own. What is left then are requests of its own that it
  forgot to cancel, and for which it would wait five seconds: they are cancelled.
- *Handle signals.* Its handler of a second SIGTERM fails (the future is done already). Ours sets kopf's stop
  flag, and lets a second signal end the process at once.
- *Serve probes*: see `probes`.
- *Know the other client libraries.* It imports `kubernetes` if it is there, for two model classes: one second
  and 24 MB. They are hidden from it while it is imported.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import aiohttp

from queue_manager.engine.tuning import stop_on_signals
from queue_manager.operator.controllers import Controllers
from queue_manager.operator.renewing_transport import ClusterTransport

NOT_NEEDED = ("kubernetes", "kubernetes_asyncio", "pykube")


async def run(controllers: Controllers, transport: ClusterTransport) -> None:
    """Run the controllers until a signal. Raises what they, or kopf, died of."""
    stop = asyncio.Event()
    stop_on_signals(stop.set)
    work = asyncio.create_task(controllers.run(), name="controllers")
    work.add_done_callback(lambda _: stop.set())
    try:
        await _first(controllers.ready, stop)
        if not stop.is_set():
            kopf = await asyncio.to_thread(import_kopf)
            await _in_kopf(kopf, controllers, transport, work, stop)
    finally:
        # If kopf did not begin, was cancelled, or failed on its way up, the clean-up handler did not run.
        await _finish(controllers, transport, work)
    work.result()


async def _in_kopf(
    kopf: Any, controllers: Controllers, transport: ClusterTransport, work: asyncio.Task[None], stop: asyncio.Event
) -> None:
    """Hand over to kopf until it ends."""
    ours = asyncio.all_tasks()
    kopfs: set[asyncio.Task[object]] = set()

    async def finish() -> None:
        """First the controllers, then what they write through, and last what kopf left behind."""
        await _finish(controllers, transport, work)
        for task in asyncio.all_tasks() - ours - kopfs - {asyncio.current_task()}:
            task.cancel()

    tasks = await kopf.spawn_tasks(
        registry=_registry(kopf, controllers, transport, finish),
        settings=_settings(kopf),
        clusterwide=True,
        standalone=True,
        stop_flag=stop,
    )
    kopfs.update(tasks)
    stop_on_signals(stop.set)  # kopf has put its own in their place
    await kopf.run_tasks(tasks, ignored=ours)


def _registry(
    kopf: Any, controllers: Controllers, transport: ClusterTransport, finish: Callable[[], Awaitable[None]]
) -> Any:
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)  # type: ignore[untyped-decorator]
    async def start(**_: object) -> None:
        await controllers.ready.wait()

    @kopf.on.login(registry=registry)  # type: ignore[untyped-decorator]
    async def login(**_: object) -> Any:
        return kopf.AiohttpSession(server=transport.access.server, aiohttp_session=await _session(transport))

    @kopf.on.cleanup(registry=registry)  # type: ignore[untyped-decorator]
    async def clean_up(**_: object) -> None:
        await finish()

    return registry


async def _first(*events: asyncio.Event) -> None:
    """Wait for any of them."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _session(transport: ClusterTransport) -> aiohttp.ClientSession:
    """As the same user to the same server; kopf's to close. It logs in anew when this one is refused."""
    access = transport.access
    access.authorization.renew()
    authorization = await access.authorization()
    headers = [*access.headers, *([("Authorization", authorization)] if authorization else [])]

    async def sign(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        request.headers.extend(headers)
        return await send(request)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.ssl or True, limit=4),
        middlewares=(sign,),  # headers of a session go to its proxy as well
        proxy=access.proxy,
        trust_env=False,
    )


def _settings(kopf: Any) -> Any:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # our recorders write Events
    settings.scanning.disabled = True  # no watch of CRDs and namespaces
    return settings


async def _finish(controllers: Controllers, transport: ClusterTransport, work: asyncio.Task[None]) -> None:
    """Does nothing the second time."""
    controllers.stop()
    await asyncio.wait([work])
    await transport.close()


def import_kopf() -> ModuleType:
    """kopf, without the client libraries that it would import because they are installed."""
    hidden = [name for name in NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None: an import fails at once
    try:
        import kopf
    finally:
        for name in hidden:
            del sys.modules[name]
    logging.getLogger("kopf").setLevel(logging.WARNING)  # it tells of each step of its own
    return kopf

"""Runs the controllers inside kopf, the process framework of `sluice manager`.

kopf runs the startup and cleanup handlers, calls the login handler for credentials, runs the handlers of admission
webhooks (`webhooks.kopf_admission`), and shuts down in order when its stop flag is set. The controllers start before
kopf: importing kopf takes a fifth of the time budget for readiness, so a thread imports it once the controllers are
ready, and its startup handler finds them running. With webhooks kopf is imported first, because a process that does not
lead answers them too.

kopf is not used for the following:

- *Watches and writes.* kopf's watchers process a fortieth of the event rate of `engine`'s reflector, and end the
  process on an ERROR event in a watch. The registry has no resource handlers, so kopf opens no watch; it only reads
  the discovery documents once.
- *Tasks and connections of the controllers.* At shutdown kopf cancels every task that was created after its own
  start, and closes the session that the login handler gave it. The controllers' tasks are created earlier. The
  cleanup handler, for which kopf waits before it cancels tasks, stops the runtime and then closes the controllers'
  connections. kopf has a session of its own. kopf does not cancel some of its own requests and would wait five
  seconds for them, so they are cancelled here.
- *Signals.* kopf's handler fails on a second SIGTERM, because its future is already done. The handler installed here
  sets kopf's stop flag, and a second signal ends the process immediately.
- *Probes*: see `probes`.
- *Other client libraries.* kopf imports `kubernetes` if it is installed, for two model classes, at a cost of one
  second and 24 MB. The import is blocked while kopf is imported.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import aiohttp

from queue_manager.engine.process_tuning import stop_on_signals
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.operator.leadership_terms import Controllers
from queue_manager.operator.webhooks.kopf_admission import NoMemories
from queue_manager.operator.webhooks.webhook_startup import Webhooks

OPTIONAL_CLIENTS = ("kubernetes", "kubernetes_asyncio", "pykube")


async def run(controllers: Controllers, transport: ClusterTransport, webhooks: Webhooks | None = None) -> None:
    """Run the controllers until a signal. Raises the exception that ended the controllers or kopf.

    `webhooks` are answered from the start, also by a process that does not lead yet.
    """
    stop = asyncio.Event()
    stop_on_signals(stop.set)
    work = asyncio.create_task(controllers.run(), name="controllers")
    work.add_done_callback(lambda _: stop.set())
    try:
        if webhooks is None:
            await _wait_for_any(controllers.ready, stop)
        if not stop.is_set():
            kopf = await asyncio.to_thread(import_kopf)
            await _run_in_kopf(kopf, controllers, transport, webhooks, work, stop)
    finally:
        # If kopf did not begin, was cancelled, or failed on its way up, the clean-up handler did not run.
        await _finish(controllers, transport, webhooks, work)
    work.result()


async def _run_in_kopf(
    kopf: Any,
    controllers: Controllers,
    transport: ClusterTransport,
    webhooks: Webhooks | None,
    work: asyncio.Task[None],
    stop: asyncio.Event,
) -> None:
    """Run kopf until it ends."""
    ours = asyncio.all_tasks()
    kopfs: set[asyncio.Task[object]] = set()

    async def finish() -> None:
        """Stop the controllers, then the webhooks and connections, and last the remaining tasks of kopf."""
        await _finish(controllers, transport, webhooks, work)
        for task in asyncio.all_tasks() - ours - kopfs - {asyncio.current_task()}:
            task.cancel()

    registry = _registry(kopf, controllers, transport, finish, may_wait=webhooks is None)
    settings = _settings(kopf)
    if webhooks is not None:
        webhooks.attach(kopf, registry, settings)
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=settings,
        memories=NoMemories(),
        clusterwide=True,
        standalone=True,
        stop_flag=stop,
    )
    kopfs.update(tasks)
    stop_on_signals(stop.set)  # kopf has put its own in their place
    await kopf.run_tasks(tasks, ignored=ours)


def _registry(
    kopf: Any,
    controllers: Controllers,
    transport: ClusterTransport,
    finish: Callable[[], Awaitable[None]],
    *,
    may_wait: bool,
) -> Any:
    """Return kopf's handlers. `may_wait`: kopf starts only once the controllers run, as no webhook needs it earlier."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)  # type: ignore[untyped-decorator]
    async def start(**_: object) -> None:
        if may_wait:
            await controllers.ready.wait()

    @kopf.on.login(registry=registry)  # type: ignore[untyped-decorator]
    async def login(**_: object) -> Any:
        return kopf.AiohttpSession(server=transport.access.server, aiohttp_session=await _session(transport))

    @kopf.on.cleanup(registry=registry)  # type: ignore[untyped-decorator]
    async def clean_up(**_: object) -> None:
        await finish()

    return registry


async def _wait_for_any(*events: asyncio.Event) -> None:
    """Wait until at least one of the events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _session(transport: ClusterTransport) -> aiohttp.ClientSession:
    """Return a session with the transport's server and credentials. kopf closes it, and logs in again after a 401."""
    access = transport.access
    access.authorization.renew()
    authorization = await access.authorization()
    headers = [*access.headers, *([("Authorization", authorization)] if authorization else [])]

    async def sign(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        request.headers.extend(headers)
        return await send(request)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.ssl or True, limit=4),
        middlewares=(sign,),  # sets Authorization per request: headers of a session are also sent to its proxy
        proxy=access.proxy,
        trust_env=False,
    )


def _settings(kopf: Any) -> Any:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # the controllers' recorders write Events
    settings.scanning.disabled = True  # no watch of CRDs and namespaces
    return settings


async def _finish(
    controllers: Controllers, transport: ClusterTransport, webhooks: Webhooks | None, work: asyncio.Task[None]
) -> None:
    """Stop the controllers, then the webhooks, and close their connections. A second call has no effect.

    Reviews are answered to the last: an API server learns only seconds later that this replica is not ready any more.
    """
    controllers.stop()
    await asyncio.wait([work])
    if webhooks is not None:
        await webhooks.close()
    await transport.close()


def import_kopf() -> ModuleType:
    """Import kopf while hiding the optional client libraries that it would import if they are installed."""
    hidden = [name for name in OPTIONAL_CLIENTS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None: an import fails immediately
    try:
        import kopf
    finally:
        for name in hidden:
            del sys.modules[name]
    return kopf

"""Serves the visibility API of `sluice manager` over TLS, for the aggregation layer of a cluster and for tokens.

Each request is authenticated and authorized by the API server (`delegated_auth`), on the subresource `pendingworkloads`
of the queue that it names. While another manager leads, or the caches are not filled, the response is 503. The
certificate is issued at each start, so an APIService skips its verification, as Kueue's does.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import orjson
from aiohttp import web

from job_controller.json_tree import Json
from job_controller.ports import Clock
from queue_manager.configuration.addresses import Address
from queue_manager.engine.certificates import issue
from queue_manager.engine.client import Client
from queue_manager.engine.connections import Connections
from queue_manager.engine.transport import ApiError
from queue_manager.operator.delegated_auth import DelegatedAuth, FrontProxy, Identity, read_front_proxy
from queue_manager.operator.listening import listen
from queue_manager.visibility.pending_summary import (
    GROUP,
    SUBRESOURCE,
    VERSIONS,
    Answer,
    PendingSummaries,
    failure,
    group_document,
    parse,
    resource_list,
)

log = logging.getLogger(__name__)

SERVICE_NAMES = ("localhost", "kueue-visibility-server.kueue-system.svc")
SHUTDOWN_SECONDS = 0.2  # for responses in flight


class VisibilityServer:
    """Answers requests. `summaries`: of the leading term; None while this process does not lead."""

    def __init__(self, auth: DelegatedAuth, summaries: Callable[[], PendingSummaries | None]) -> None:
        self._auth = auth
        self._summaries = summaries

    async def answer(self, request: web.Request) -> Answer:
        """Authenticate, authorize and answer."""
        peer = request.transport.get_extra_info("peercert") if request.transport is not None else None
        try:
            identity = await self._auth.identify(request.headers, peer)
            if identity is None:
                return failure(401, "Unauthorized", "Unauthorized")
            allowed = await self._auth.allows(identity, attributes(request.path))
        except (ApiError, OSError) as error:
            log.warning("a request could not be authorized: %s", error)
            return failure(503, "ServiceUnavailable", "the API server cannot be asked whether this is allowed")
        if not allowed:
            return failure(403, "Forbidden", _forbidden(identity, request.path))
        return self._authorized(request)

    def _authorized(self, request: web.Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        document = discovery(request.path)
        if document is not None:
            return Answer(200, document)
        if parse(request.path) is None:
            return failure(404, "NotFound", "the server could not find the requested resource")
        summaries = self._summaries()
        found = summaries.answer(request.path, dict(request.query)) if summaries is not None else None
        return found or failure(503, "ServiceUnavailable", "this manager does not lead, or is starting")


def attributes(path: str) -> dict[str, Any]:
    """What a request for this path needs permission for."""
    queue = parse(path)
    if queue is None:
        return {"nonResourceAttributes": {"path": path, "verb": "get"}}
    found = {"verb": "get", "group": GROUP, "version": queue.version, "name": queue.name}
    where = {"resource": queue.resource, "subresource": SUBRESOURCE, "namespace": queue.namespace}
    return {"resourceAttributes": found | where}


def _forbidden(identity: Identity, path: str) -> str:
    queue = parse(path)
    what = f'cannot get path "{path}"'
    if queue is not None:
        what = f'cannot get resource "{queue.resource}/{SUBRESOURCE}" in API group "{GROUP}"'
        what += f' in the namespace "{queue.namespace}"' if queue.namespace else " at the cluster scope"
    return f'User "{identity.user}" {what}'


def discovery(path: str) -> Json:
    """The document of a discovery path; None for every other path."""
    match path.strip("/").split("/"):
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_document()]}
        case ["apis", group] if group == GROUP:
            return {"kind": "APIGroup", "apiVersion": "v1", **group_document()}
        case ["apis", group, version] if group == GROUP and version in VERSIONS:
            return resource_list(version)
    return None


async def serve(
    stack: AsyncExitStack,
    address: Address,
    client: Client,
    clock: Clock,
    summaries: Callable[[], PendingSummaries | None],
) -> str:
    """Serve until the stack is closed; returns the URL. Raises OSError if the port is taken."""
    listener = listen(address)
    front_proxy = await read_front_proxy(client)
    server = VisibilityServer(DelegatedAuth(client, front_proxy), summaries)

    async def handle(request: web.Request) -> web.Response:
        status, body = await server.answer(request)
        return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _trusting(lambda: connections, handle))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    assert runner.server is not None
    connections = Connections(listener, runner.server, tls_context(clock, front_proxy))
    stack.callback(connections.close)
    return f"https://{address.host or 'localhost'}:{listener.getsockname()[1]}/apis/{GROUP}"


def _trusting(connections: Callable[[], Connections], handle: Any) -> Any:
    """The handler; a connection with an authorized request may stay open."""

    async def answer(request: web.Request) -> web.Response:
        response: web.Response = await handle(request)
        if response.status in (401, 403):
            response.force_close()
        connections().trust(request.protocol)
        return response

    return answer


def tls_context(clock: Clock, front_proxy: FrontProxy | None) -> ssl.SSLContext:
    """TLS with a new certificate; a client may present one that the CA of the front proxy has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # mode 0600; the ssl module reads files only
        file.write(issue("sluice visibility", SERVICE_NAMES, clock.now()).pem.encode())
        file.flush()
        context.load_cert_chain(file.name)
    if front_proxy is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=front_proxy.authority)
    return context

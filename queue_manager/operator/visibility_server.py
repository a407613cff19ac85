"""Serves the visibility API of `sluice manager` over TLS, for the aggregation layer of a cluster and for tokens.

Each request is authenticated and authorized by the API server (`delegated_auth`), on the subresource of the queue that
it names. While the caches are not filled, the response is 503. A replica that does not lead answers
from its standby. The certificate is that of the webhook server, whose CA the manager writes into the APIService
(`webhooks.ca_injection`). Without webhooks it is issued at each start, and an APIService has to skip its verification.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from job_controller.json_tree import Json
from job_controller.ports import Clock
from queue_manager.api.component_names import NAMESPACE, VISIBILITY_SERVICE
from queue_manager.configuration.addresses import Address
from queue_manager.engine.anonymous_connections import Connections
from queue_manager.engine.certificates import issue
from queue_manager.engine.rest_client import RestClient
from queue_manager.operator.delegated_auth import DelegatedAuth, Identity, judge, read_front_proxy
from queue_manager.operator.listening import listen
from queue_manager.operator.tls import ServingCertificate
from queue_manager.visibility.pending_summary import (
    GROUP,
    VERSIONS,
    Answer,
    failure,
    group_document,
    parse,
    resource_list,
)
from queue_manager.visibility_api import VisibilityApi

SERVICE_NAMES = ("localhost", f"{VISIBILITY_SERVICE}.{NAMESPACE}.svc")
SHUTDOWN_SECONDS = 0.2  # for responses in flight


class VisibilityServer:
    """Answers requests. `visibility`: from the caches of this process; None while they are not filled."""

    def __init__(self, auth: DelegatedAuth, visibility: Callable[[], VisibilityApi | None]) -> None:
        self._auth = auth
        self._visibility = visibility

    async def answer(self, request: web.Request) -> Answer:
        """Authenticate, authorize and answer."""
        peer = request.transport.get_extra_info("peercert") if request.transport is not None else None
        status, identity, problem = await judge(self._auth, request.headers, peer, attributes(request.path))
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            return failure(503, "ServiceUnavailable", problem)
        if identity is None:
            return failure(401, "Unauthorized", "Unauthorized")
        if status == HTTPStatus.FORBIDDEN:
            return failure(403, "Forbidden", _forbidden(identity, request.path))
        return await self._authorized(request)

    async def _authorized(self, request: web.Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        document = discovery(request.path)
        if document is not None:
            return Answer(200, document)
        if parse(request.path) is None:
            return failure(404, "NotFound", "the server could not find the requested resource")
        api = self._visibility()
        found = await api.answer(request.path, dict(request.query)) if api is not None else None
        return found or failure(503, "ServiceUnavailable", "this manager is starting: its caches are not filled yet")


def attributes(path: str) -> dict[str, Any]:
    """The attributes of a request for this path, on which its permission is checked."""
    queue = parse(path)
    if queue is None:
        return {"nonResourceAttributes": {"path": path, "verb": "get"}}
    found = {"verb": "get", "group": GROUP, "version": queue.version, "name": queue.name}
    where = {"resource": queue.resource, "subresource": queue.subresource, "namespace": queue.namespace}
    return {"resourceAttributes": found | where}


def _forbidden(identity: Identity, path: str) -> str:
    queue = parse(path)
    what = f'cannot get path "{path}"'
    if queue is not None:
        what = f'cannot get resource "{queue.resource}/{queue.subresource}" in API group "{GROUP}"'
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
    client: RestClient,
    context: ssl.SSLContext,
    visibility: Callable[[], VisibilityApi | None],
) -> str:
    """Serve until the stack is closed; returns the URL. Raises OSError if the port is taken.

    `context` has the certificate. It lets a client present one that the CA of the front proxy has signed.
    """
    listener = listen(address)
    front_proxy = await read_front_proxy(client)
    if front_proxy is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=front_proxy.authority)
    server = VisibilityServer(DelegatedAuth(client, front_proxy), visibility)

    async def handle(request: web.Request) -> web.Response:
        status, body = await server.answer(request)
        return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _trusting(lambda: connections, handle))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    assert runner.server is not None
    connections = Connections(listener, runner.server, context)
    stack.callback(connections.close)
    return f"https://{address.host or 'localhost'}:{listener.getsockname()[1]}/apis/{GROUP}"


def _trusting(connections: Callable[[], Connections], handle: Any) -> Any:
    """The handler; a connection with an authorized request may stay open."""

    async def answer(request: web.Request) -> web.Response:
        response: web.Response = await handle(request)
        if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            response.force_close()
        connections().trust(request.protocol)
        return response

    return answer


def new_certificate(clock: Clock) -> ServingCertificate:
    """A certificate for this process alone, which no client can verify."""
    certificate = ServingCertificate()
    certificate.present(issue("sluice visibility", SERVICE_NAMES, clock.now()).pem)
    return certificate

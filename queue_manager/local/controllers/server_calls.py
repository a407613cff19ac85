"""Write requests of controllers that run beside the server. Each controller is a user of its own."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

import orjson

from queue_manager.engine.transport_protocol import JSON, Response
from queue_manager.local.server.http_messages import ServerRequest

if TYPE_CHECKING:
    from queue_manager.local.server.api_server import ApiServer

log = logging.getLogger(__name__)

LOST_RACES = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


async def request(server: ApiServer, user: str, method: str, path: str, body: object, content_type: str = JSON) -> int:
    """Return the status code of the response. Errors other than a lost race are logged."""
    headers = {"content-type": content_type}
    answer = await server.handle(ServerRequest(method, path, {}, headers, orjson.dumps(body), user))
    if isinstance(answer, Response) and not answer.is_success and answer.status not in LOST_RACES:
        log.warning("%s %s: %s", method, path, answer.body.decode("utf-8", "replace"))
    return answer.status

"""Write requests of controllers that run beside the server. Each controller is a user of its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson

from queue_manager.engine.transport import JSON, Response
from queue_manager.local.server.exchange import ServerRequest

if TYPE_CHECKING:
    from queue_manager.local.server.api_server import ApiServer

log = logging.getLogger(__name__)


async def request(server: ApiServer, user: str, method: str, path: str, body: object, content_type: str = JSON) -> int:
    """Return the status code of the response. Errors other than a lost race are logged."""
    headers = {"content-type": content_type}
    answer = await server.handle(ServerRequest(method, path, {}, headers, orjson.dumps(body), user))
    if isinstance(answer, Response) and answer.status >= 400 and answer.status not in (404, 409):
        log.warning("%s %s: %s", method, path, answer.body.decode("utf-8", "replace"))
    return answer.status

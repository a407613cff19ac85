"""What the pods of Jobs printed."""

from __future__ import annotations

import msgspec

from queue_manager.engine.client import Client
from queue_manager.engine.resources import PODS
from queue_manager.engine.transport import Request
from queue_manager.visibility.failures import Failure

LINE_BYTES = 4096


async def last_line(client: Client, namespace: str, pod: str, container: str = "") -> str:
    """The last line of a container's log; empty if it printed nothing, or its log is gone or may not be read."""
    query = {"tailLines": "1", "limitBytes": str(LINE_BYTES), **({"container": container} if container else {})}
    answer = await client.transport.request(Request("GET", PODS.path(namespace, pod, "log"), query=query, accept="*/*"))
    return answer.body.decode("utf-8", "replace").strip() if answer.status == 200 else ""


async def with_log(client: Client, failure: Failure) -> Failure:
    """With the last line of the log of the container that failed."""
    line = await last_line(client, failure.namespace, failure.pod, failure.container)
    return msgspec.structs.replace(failure, last_line=line)

"""Reads the line of a pod's log that says why it failed."""

from __future__ import annotations

import msgspec

from queue_manager.api.api_resources import PODS
from queue_manager.cli.connection import NoResponse
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.last_line import TAIL_BYTES, TAIL_LINES, error_line
from queue_manager.visibility.pod_failures import Failure

NODE_SECONDS = 5  # timeout: the API server proxies to the node, which may be gone


async def error_line_of(client: RestClient, namespace: str, pod: str, container: str = "") -> str:
    """Return the error line of a container's log; "" if the log is empty, gone or unreadable."""
    query = {"tailLines": str(TAIL_LINES), "limitBytes": str(TAIL_BYTES)}
    if container:
        query["container"] = container
    path = PODS.path(namespace, pod, "log")
    try:
        answer = await client.transport.request(Request("GET", path, query=query, accept="*/*", timeout=NODE_SECONDS))
    except (NoResponse, OSError):  # the node does not respond
        return ""
    return error_line(answer.body) if answer.is_ok else ""


async def with_log(client: RestClient, failure: Failure) -> Failure:
    """Return the failure with the error line of the failed container's log, unless its status has it."""
    if failure.message:
        return failure
    line = await error_line_of(client, failure.namespace, failure.pod, failure.container)
    return msgspec.structs.replace(failure, error_line=line)

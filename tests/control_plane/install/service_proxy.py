"""The way from a pod to Services, for a process of this machine: an HTTP proxy to which clients say CONNECT.

A cluster has DNS and kube-proxy for that. The proxy reads the Service from the API server, and connects to the process
that stands for its pods, at the port that this process has in place of the named one of the container.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from queue_manager.api.api_resources import Resource
from queue_manager.engine.rest_client import RestClient

SERVICES = Resource("", "v1", "services", "Service")


@asynccontextmanager
async def service_proxy(api: RestClient, ports: Mapping[str, int]) -> AsyncIterator[str]:
    """Run the proxy; yields its URL. `ports`: those of the process, by the names of the container's ports."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, target, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
            assert method == "CONNECT"
            try:
                port = ports[await target_port(api, target)]
                upstream = await asyncio.open_connection("127.0.0.1", port)
            except Exception as error:  # no such Service, or no process listens
                writer.write(f"HTTP/1.1 502 {type(error).__name__}\r\n\r\n".encode())
                return
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            async with asyncio.TaskGroup() as both:
                both.create_task(copy(reader, upstream[1]))
                both.create_task(copy(upstream[0], writer))
        finally:
            writer.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def target_port(api: RestClient, target: str) -> str:
    """The name of the container's port to which NAME.NAMESPACE.svc:PORT leads."""
    host, _, number = target.rpartition(":")
    name, namespace, kind = host.split(".")
    assert kind == "svc"
    service = await api.get(SERVICES, namespace, name)
    [port] = [each["targetPort"] for each in service["spec"]["ports"] if each["port"] == int(number)]
    return str(port)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()

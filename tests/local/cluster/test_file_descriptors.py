"""File descriptors of `sluice up`: silent connections do not exhaust them, and Jobs keep the user's limit."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from queue_manager.api.api_resources import JOBS
from queue_manager.engine import file_descriptors
from tests.local.cluster.conftest import Up, sluice
from tests.local.cluster.work import ended, job
from tests.waiting import until

MANY = 1100


@pytest.fixture
def _enough() -> Iterator[None]:
    """Raise the limit of this process too, which opens the connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    file_descriptors.raise_limit()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def connect(up: Up, how: str) -> socket.socket:
    """A connection that never sends a complete request."""
    server = urlsplit(yaml.safe_load(up.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    assert server.hostname
    connection = socket.create_connection((server.hostname, server.port or 0), timeout=20)
    if how == "silent":
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    secure = context.wrap_socket(connection)
    secure.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n")
    return secure


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


@pytest.mark.usefixtures("_enough")
@pytest.mark.parametrize("how", ["silent", "half a request"])
async def test_silent_connections_do_not_exhaust_descriptors(start: Callable[..., Up], how: str) -> None:
    """There are more of them than `sluice up` has descriptors: commands are answered, and pods start."""
    up = start(descriptors=1024)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(contextlib.closing(connect(up, how))) for _ in range(MANY)]
        done = sluice("ps", "--kubeconfig", str(up.kubeconfig))
        assert done.returncode == 0, done.stderr
        async with up.client() as client:
            await client.create(JOBS, "default", job("runs", "true"))
            await ended(client, "runs")

        async def all_closed() -> bool:
            return all(is_closed(connection) for connection in held)

        await until(all_closed, "connections without authentication are closed")
    up.stop()
    assert not [line for line in up.lines if "Traceback" in line]


async def test_a_container_starts_with_the_limit_of_the_user(start: Callable[..., Up], tmp_path: Path) -> None:
    """The limit of `sluice up` is raised; a program that calls select(2) fails with descriptors beyond 1 024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        up = start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    ours, _ = resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE)
    assert ours == (
        file_descriptors.MAX_DESCRIPTORS
        if hard == resource.RLIM_INFINITY
        else min(hard, file_descriptors.MAX_DESCRIPTORS)
    )
    async with up.client() as client:
        await client.create(JOBS, "default", job("asks", f"ulimit -S -n > {tmp_path}/soft"))
        await ended(client, "asks")
    assert (tmp_path / "soft").read_text() == "300\n"

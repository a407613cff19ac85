"""The real API server with the queue's kinds; each test has a namespace, which is emptied afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from queue_manager.api.api_resources import NAMESPACES
from queue_manager.api.crd_generation import GROUP, VERSION
from queue_manager.api.models import KINDS
from queue_manager.cli.main import main
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from tests.control_plane import provide
from tests.control_plane.cleanup import clear
from tests.control_plane.server import ControlPlane
from tests.waiting import SECONDS

ROOT = Path(__file__).resolve().parents[2]
SLUICE = [sys.executable, "-m", "queue_manager.cli.main"]


def sluice_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `sluice` in a thread: as a process a short one spends most of its time on imports."""
    output, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(said), ThreadPoolExecutor(1) as thread:
        code = thread.submit(main, arguments).result()
    return subprocess.CompletedProcess(arguments, code, output.getvalue(), said.getvalue())


@pytest.fixture(scope="session")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The real server of this run, with the queue's kinds installed and all earlier work removed."""
    install_kinds(control_plane)
    asyncio.run(emptied(control_plane))
    return control_plane


async def emptied(plane: ControlPlane) -> None:
    transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
    await clear(RestClient(transport))
    await transport.close()


def install_kinds(plane: ControlPlane) -> None:
    """`sluice crds | kubectl apply -f -`, and wait until they are served."""
    kubectl(plane, "apply", "-f", "-", stdin=sluice_here("crds").stdout.encode())
    until_served(plane)


def until_served(plane: ControlPlane) -> None:
    """Wait until the server serves the queue's kinds and names them, up to half a second after they are established."""
    root, names = f"/apis/{GROUP}/{VERSION}", [kind.plural for kind in KINDS]
    deadline = time.monotonic() + SECONDS
    for path in (*(f"{root}/{name}?limit=1" for name in names), root):
        while not (answer := _answer(plane, path)) or not all(f'"{name}"' in answer for name in names if path == root):
            assert time.monotonic() < deadline, f"not served: {path}"
            time.sleep(0.02)  # discovery has no watch


def _answer(plane: ControlPlane, path: str) -> str:
    """The body of a successful GET; "" else."""
    request = urllib.request.Request(plane.url + path, headers={"Authorization": f"Bearer {plane.token}"})
    try:
        with urllib.request.urlopen(request, context=plane.ssl_context(), timeout=SECONDS) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.HTTPError:
        return ""


def kubectl(plane: ControlPlane, *arguments: str, stdin: bytes = b"") -> str:
    binary = provide.find("kubectl")
    assert binary is not None
    done = subprocess.run(
        [binary, *arguments],
        input=stdin,
        check=False,
        capture_output=True,
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[RestClient]:
    """A client with the rights of the server's administrator."""
    plane.check()  # a client would retry in every test if the server has exited
    transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
    yield RestClient(transport)
    await transport.close()


@pytest.fixture
async def namespace(api: RestClient) -> AsyncIterator[str]:
    name = f"t-{uuid4().hex[:8]}"
    await api.create(NAMESPACES, "", {"metadata": {"name": name}})
    yield name
    await clear(api)
    await api.delete(NAMESPACES, "", name)

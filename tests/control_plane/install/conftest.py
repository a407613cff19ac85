"""A real API server of its own for each file: an installation adds an APIService, which would disturb other tests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from tests.control_plane import provide
from tests.control_plane.conftest import ROOT, kubectl, sluice_here
from tests.control_plane.server import ControlPlane

Row = dict[str, Any]
CHART = ROOT / "deploy" / "chart"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """An empty cluster, on which nothing of ours is installed."""
    with ControlPlane.start() as plane:
        yield plane


@pytest.fixture
async def api(cluster: ControlPlane) -> AsyncIterator[RestClient]:
    """A client of the cluster with all rights."""
    transport = HttpTransport.from_kubeconfig(cluster.kubeconfig)
    yield RestClient(transport)
    await transport.close()


def sluice(*arguments: str) -> str:
    done = sluice_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply(cluster: ControlPlane, *settings: str) -> None:
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=sluice("install", *settings).encode())


def command(cluster: ControlPlane, *arguments: str) -> tuple[int, list[Row], str]:
    """The exit code, the rows and standard error of a command with -o json."""
    done = sluice_here(*arguments, "--kubeconfig", str(cluster.kubeconfig), "-o", "json")
    return done.returncode, json.loads(done.stdout) if done.stdout else [], done.stderr


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    binary = provide.find("helm")
    assert binary is not None
    return run([str(binary), *arguments], kubeconfig)


def run(command: list[str], kubeconfig: Path | None = None) -> str:
    env = {**os.environ, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig is not None else {})}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=env, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout

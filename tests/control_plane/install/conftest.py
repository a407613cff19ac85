"""A real API server of its own for each file: an installation adds an APIService, which would disturb other tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane import provide
from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.server import ControlPlane

CHART = ROOT / "deploy" / "chart"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """An empty cluster, on which nothing of ours is installed."""
    with ControlPlane.start() as plane:
        yield plane


def sluice(*arguments: str) -> str:
    return run([*SLUICE, *arguments])


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    binary = provide.find("helm")
    assert binary is not None
    return run([str(binary), *arguments], kubeconfig)


def run(command: list[str], kubeconfig: Path | None = None) -> str:
    env = {**os.environ, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig is not None else {})}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=env, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout

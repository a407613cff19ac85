"""Fixtures for `sluice up` as a process with a data directory of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from tests.control_plane.conftest import install_kinds
from tests.control_plane.server import ControlPlane
from tests.local.cluster.fleet import MEMORY, Fleet

SLUICE = [sys.executable, "-m", "queue_manager.cli.main"]
ROOT = Path(__file__).resolve().parents[3]


class Up:
    """A running `sluice up`."""

    def __init__(self, data_dir: Path, *flags: str, descriptors: int | None = None) -> None:
        """`descriptors`: the hard limit of open files at the start."""
        limited = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "-"] if descriptors else []
        self.data_dir = data_dir
        self.kubeconfig = data_dir / "kubeconfig"
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*limited, *SLUICE, "up", "--data-dir", str(data_dir), *flags],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("Ctrl-C"):
                return
        raise AssertionError("sluice up did not come up:\n" + "\n".join(self.lines))

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[RestClient]:
        transport = HttpTransport.from_kubeconfig(self.kubeconfig)
        try:
            yield RestClient(transport)
        finally:
            await transport.close()

    def kill(self) -> None:
        """kill -9, without any clean-up."""
        self.process.kill()
        self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait; returns the exit code."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=30)
        self.lines += rest.splitlines()
        return self.process.returncode


def sluice(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a client command and wait for it."""
    return subprocess.run(
        [*SLUICE, *arguments], cwd=ROOT, check=False, capture_output=True, text=True, input=stdin, timeout=60
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Start `sluice up` on the test's data directory; a process that still runs at the end is stopped."""
    running: list[Up] = []

    def begin(*flags: str, descriptors: int | None = None) -> Up:
        running.append(Up(tmp_path / "data", *flags, descriptors=descriptors))
        return running[-1]

    yield begin
    for up in running:
        if up.process.poll() is None:
            up.stop()


# For tests of what a command makes of the objects that it reads: those of a real server are alike, as tests/contract
# shows. What a server does with requests (checks, refusals, deletions, watches, logs) is tested with both.
EMBEDDED = pytest.mark.parametrize("cluster", ["embedded"], indirect=True)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.control_plane)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Up | Fleet]]:
    """Start a cluster of one node: `sluice up`, or manager and node agent as clients of a real server.

    Tests of the process `sluice up` itself (flags, data, crashes) use `start` instead.
    """
    running: list[Up | Fleet] = []

    def begin(config: str = "", cpu: str = "2") -> Up | Fleet:
        if request.param == "real":
            running.append(Fleet(request.getfixturevalue("real_server"), tmp_path, config, cpu))
            return running[-1]
        flags = ["--cpu", cpu, "--memory", MEMORY]
        if config:
            (tmp_path / "up.yaml").write_text(config)
            flags += ["--config", str(tmp_path / "up.yaml")]
        running.append(Up(tmp_path / "data", *flags))
        return running[-1]

    yield begin
    for one in running:
        one.stop()


@pytest.fixture(scope="session")
def kinds(control_plane: ControlPlane) -> ControlPlane:
    """The real server with the queue's kinds."""
    install_kinds(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def real_server(kinds: ControlPlane, controllers: None) -> ControlPlane:
    """The real server with the queue's kinds and the garbage collector."""
    return kinds


def processes_of(marker: str) -> list[int]:
    """Pids of the processes whose command line contains the text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found

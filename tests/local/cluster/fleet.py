"""The parts of `sluice up` as on a real cluster: `sluice manager`, nodes, and an API server that is not ours."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from queue_manager.api.api_resources import NODES
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.first_queue import create_first_queue
from tests.control_plane.cleanup import clear, remove_all
from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.server import ControlPlane

# By default the built-in Job controller runs the Jobs of a cluster; here there is none.
OUR_JOBS = "jobController: {manage: All}\n"
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
MEMORY = "4Gi"


def apart(work: Coroutine[None, None, None]) -> None:
    """Run a coroutine to its end in a thread, whether or not an event loop runs here."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


class Fleet:
    """Manager and node on a real server with the queue's kinds; the first queue has the quota of the node."""

    def __init__(self, plane: ControlPlane, folder: Path, config: str, cpu: str) -> None:
        self.kubeconfig = plane.kubeconfig
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        try:
            apart(self._prepare(cpu))
            text = config or HEAD
            (folder / "manager.yaml").write_text(text if "jobController" in text else text + OUR_JOBS)
            node = [sys.executable, "-m", "tests.control_plane.node", str(self.kubeconfig), str(folder / "pods")]
            self._start("node", *node, cpu, MEMORY)
            manager = ["manager", "--kubeconfig", str(self.kubeconfig), "--config", str(folder / "manager.yaml")]
            self._start("manager", *SLUICE, *manager, "--metrics-port", "0")
        except BaseException:
            self.stop()
            raise

    async def _prepare(self, cpu: str) -> None:
        async with self.client() as client:
            await clear(client)
            await create_first_queue(client, cpu, MEMORY)

    def _start(self, name: str, *command: str) -> None:
        """Start a process; returns when it is ready."""
        log = self._folder / f"{name}.log"
        with log.open("ab") as stderr:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr}
            process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
        self._processes.append(process)
        for line in process.stdout:
            if line.startswith("ready"):
                return
        raise AssertionError(f"the {name} did not start:\n{log.read_text()}")

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[RestClient]:
        transport = HttpTransport.from_kubeconfig(self.kubeconfig)
        try:
            yield RestClient(transport)
        finally:
            await transport.close()

    def stop(self) -> None:
        """Stop the manager first, so that nothing is started again; then the node, which ends its processes."""
        for process in reversed(self._processes):
            process.terminate() if process is not self._processes[0] else process.stdin.close()  # type: ignore[union-attr]
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        apart(self._leave())

    async def _leave(self) -> None:
        async with self.client() as client:
            await clear(client)
            await remove_all(client, NODES)

"""`sluice manager` as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.server import LEASH
from tests.process_figures import peak_resident_bytes, waited_for_core_seconds
from tests.waiting import SECONDS

ALL_JOBS = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
jobController:
  manage: All
"""
_NO_CLASS = "no PriorityClass with name"  # an API server forbids pods that name one
GRACE_SECONDS = 10  # terminationGracePeriodSeconds of an installation: then a kubelet kills the manager


async def refusal(*flags: str, kubeconfig: Path | None = None, code: int = 3, lines: int = 1) -> str:
    """Run a manager that cannot start; returns its message, of so many lines, without the program's name."""
    chosen = () if kubeconfig is None else ("--kubeconfig", str(kubeconfig))
    command = [*SLUICE, "manager", "--metrics-port", "0", *chosen, *flags]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == lines, done.stderr
    assert done.stderr.startswith("sluice manager: ")
    return done.stderr.removeprefix("sluice manager: ").strip()


class Manager:
    """A running `sluice manager`; its output is in `lines` (stdout) and in the file `log` (stderr)."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log
        self.lines: list[str] = []
        self.ready_seconds = 0.0
        self.may_be_forbidden = False  # an API server that has just started does not know the roles yet
        self.url = ""

    @classmethod
    async def start(
        cls,
        kubeconfig: Path,
        *flags: str,
        config: str = ALL_JOBS,
        until: str | tuple[str, ...] = "ready",
        ports: Sequence[str] = ("--metrics-port", "0"),
    ) -> Manager:
        """Start it and wait until it prints a line that begins with `until`.

        `ports`: flags that say where it serves; (): as configured.
        """
        folder = kubeconfig.parent
        (folder / "config.yaml").write_text(config)
        command = [*SLUICE, "manager", "--kubeconfig", str(kubeconfig), "--config", str(folder / "config.yaml")]
        return await cls.run([*command, *ports, *flags], folder / "manager.log", until)

    @classmethod
    async def run(cls, command: Sequence[str | Path], log: Path, until: str | tuple[str, ...] = "ready") -> Manager:
        """Run a command that becomes a manager, and wait until it prints a line that begins with `until`."""
        began = time.monotonic()
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *[*LEASH, *command], cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=stderr
            )
        manager = cls(process, log)
        await manager.read_until(until, SECONDS)
        manager.ready_seconds = time.monotonic() - began
        return manager

    async def read_until(self, word: str | tuple[str, ...], seconds: float) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for line in self.process.stdout:
                    self.lines.append(line.decode().rstrip())
                    served = re.search(r"serving (http://\S+)/healthz", self.lines[-1])
                    self.url = served[1] if served else self.url
                    if self.lines[-1].startswith(word):
                        return
        raise AssertionError(f"no line with {word}:\n" + "\n".join([*self.lines, self.log.read_text()]))

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text of a probe."""
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
            return answer.status, await answer.text()

    async def metric(self, series: str) -> float:
        """The value of a series, 0 if it is absent."""
        _, text = await self.get("/metrics")
        for line in text.splitlines():
            if line.startswith(series + " "):
                return float(line.rpartition(" ")[2])
        return 0.0

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Ask it to stop; returns the seconds that it took, without those in which others had the cores. Its exit code
        must be 0 and its log without unexpected errors.
        """
        began = time.monotonic()
        if self.process.returncode is None:
            self.process.send_signal(number)
        try:
            async with asyncio.timeout(SECONDS):
                waited = await self._until_ended()
        except TimeoutError:
            self.process.kill()
            raise
        took = time.monotonic() - began - waited
        text = self.log.read_text()
        assert "Traceback" not in text, text
        forbidden = [line for line in text.splitlines() if "orbidden" in line and _NO_CLASS not in line]
        assert self.may_be_forbidden or not forbidden, text
        assert self.process.returncode == 0, text
        assert took < GRACE_SECONDS, text
        return took

    async def _until_ended(self) -> float:
        """Wait until the process has ended; returns how many seconds it and this one have waited for a core."""

        def waited() -> float:
            return waited_for_core_seconds(self.process.pid) + waited_for_core_seconds(os.getpid())

        found: list[float] = []
        ended = asyncio.create_task(self.process.communicate())
        try:
            while not ended.done():
                with contextlib.suppress(OSError):  # it has just ended
                    found = [*found[:1], waited()]
                await asyncio.wait([ended], timeout=0.02)
        finally:
            ended.cancel()
        return found[-1] - found[0] if found else 0.0

    def memory(self) -> int:
        """Peak, in bytes."""
        return peak_resident_bytes(self.process.pid)

    async def end(self) -> int | None:
        """The exit code, once the process has ended by itself."""
        async with asyncio.timeout(SECONDS):
            await self.process.communicate()
        return self.process.returncode

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

"""Exec readiness probes: whether a running container is ready (kubelet prober).

A container is unready until its probe has succeeded `successThreshold` times in a row, and again after
`failureThreshold` failures in a row. An exec startup probe has to succeed first, once. Other kinds of probes (httpGet,
tcpSocket, grpc) and liveness probes are not run: such a container is ready as soon as it runs. A container whose
startup probe never succeeds stays unready, and is not restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from job_controller.fields import Json
from queue_manager.local.agent.environment import probe_command

log = logging.getLogger(__name__)


class Surroundings(NamedTuple):
    """What a probe runs in: that of its container."""

    environment: Mapping[str, str]
    directory: str


class Readiness:
    """Probes one running container until stopped; calls `changed` whenever `ready` turns."""

    def __init__(self, container: Json, prepare: Callable[[], Awaitable[Surroundings]], changed: Callable[[], None]):
        self.ready = False
        self._container = container
        self._prepare = prepare
        self._changed = changed
        self._began = asyncio.get_running_loop().time()  # of the container, or of this agent
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Probe no more; a probe under way is killed."""
        self._task.cancel()

    async def _run(self) -> None:
        try:
            surroundings = await self._prepare()
            if startup := self._probe("startupProbe"):
                await self._until_started(startup, surroundings)
            probe = self._probe("readinessProbe")
            if probe is None:
                self._turn(True)
            else:
                await self._watch(probe, surroundings)
        except Exception:
            log.exception("a probe failed for good", extra={"container": self._container["name"]})

    def _probe(self, name: str) -> Json | None:
        """One that is run here, its command with references expanded."""
        probe = _exec(self._container.get(name))
        return probe and {**probe, "exec": {"command": probe_command(self._container, probe["exec"]["command"])}}

    async def _initial_delay(self, probe: Json) -> None:
        """Counts from the start of the container, also where another probe has to succeed first."""
        passed = asyncio.get_running_loop().time() - self._began
        await asyncio.sleep((probe.get("initialDelaySeconds") or 0) - passed)

    async def _until_started(self, probe: Json, surroundings: Surroundings) -> None:
        await self._initial_delay(probe)
        while True:
            if await succeeds(probe, surroundings):
                return
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    async def _watch(self, probe: Json, surroundings: Surroundings) -> None:
        await self._initial_delay(probe)
        last, in_a_row = False, 0
        while True:
            success = await succeeds(probe, surroundings)
            in_a_row = in_a_row + 1 if success is last else 1
            last = success
            needed = (probe.get("successThreshold") or 1) if success else (probe.get("failureThreshold") or 3)
            if in_a_row >= needed:
                self._turn(success)
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    def _turn(self, ready: bool) -> None:
        if self.ready is not ready:
            self.ready = ready
            self._changed()


def is_probed(container: Json) -> bool:
    """Whether the container has a probe that is run here."""
    return any(_exec(container.get(name)) is not None for name in ("readinessProbe", "startupProbe"))


async def succeeds(probe: Json, surroundings: Surroundings) -> bool:
    """Run the probe's command; exit code 0 within its timeout is success."""
    try:
        process = await asyncio.create_subprocess_exec(
            *probe["exec"]["command"],
            env=dict(surroundings.environment),
            cwd=surroundings.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        return await asyncio.wait_for(process.wait(), probe.get("timeoutSeconds") or 1) == 0
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _exec(probe: Json) -> Json | None:
    return probe if probe and (probe.get("exec") or {}).get("command") else None

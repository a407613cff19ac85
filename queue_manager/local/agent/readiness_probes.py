"""Exec readiness probes: whether a running container is ready (kubelet prober).

A container is unready until its probe has succeeded `successThreshold` times in a row, and again after
`failureThreshold` failures in a row. An exec startup probe has to succeed once before. Other kinds of probes (httpGet,
tcpSocket, grpc) and liveness probes are not run: such a container is ready as soon as it runs. A container whose
startup probe never succeeds stays unready, and is not restarted.

Each failure is recorded as an Event with the kubelet's message. The recorder counts repetitions on one Event and writes
at most 25 per pod at once, then one per five minutes, so a probe that keeps failing causes few writes. The last failure
is in the status of the pod too (`Readiness.failure`), which outlives no pod, but is read where Events are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import IO, NamedTuple

from job_controller.json_tree import Json
from queue_manager.last_line import last_line
from queue_manager.local.agent.container_program import executable, probe_command
from queue_manager.local.agent.environment import StartError
from queue_manager.local.agent.pod_status import go_duration

log = logging.getLogger(__name__)

FAILURE_SECONDS = 10.0  # between two changes of `failure`: a probe may print the time
MAX_SUMMARY = 256  # characters of the output in `failure`
MAX_OUTPUT = 10 * 1024  # bytes of a probe's output that are reported (pkg/probe/exec: maxReadLength)


class ProbeContext(NamedTuple):
    """The environment and working directory of the container, in which its probes run."""

    environment: Mapping[str, str]
    directory: str


class ProbeFailure(NamedTuple):
    """Why a probe failed: the output of its command, or why the command could not be completed."""

    output: str
    errored: bool = False  # the command could not be started

    def message(self, probe: str) -> str:
        """The message of the Event about a Readiness or Startup probe."""
        words = "probe errored and resulted in unknown state" if self.errored else "probe failed"
        return f"{probe} {words}: {self.output}" if self.output.strip() else f"{probe} {words}"

    def summary(self, probe: str) -> str:
        """The message in one line, with the last line of the output."""
        line = last_line(self.output)
        return ProbeFailure(line[:MAX_SUMMARY], self.errored).message(probe)


class Readiness:
    """Probes one running container until stopped.

    Calls `changed` whenever `ready` or `failure` changes, and `failed` with the message of each failure. `failure`: why
    the container is not ready, in one line; "" until a probe has failed.
    """

    def __init__(
        self,
        container: Json,
        prepare: Callable[[], Awaitable[ProbeContext]],
        changed: Callable[[], None],
        failed: Callable[[str], None],
    ):
        self.ready = False
        self.failure = ""
        self._failure_at = -FAILURE_SECONDS
        self._container = container
        self._prepare = prepare
        self._changed = changed
        self._failed = failed
        self._began = asyncio.get_running_loop().time()  # when the container or, if later, this agent started
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop probing; a running probe is killed."""
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
            log.exception("a probe task failed", extra={"container": self._container["name"]})

    def _probe(self, name: str) -> Json | None:
        """The container's probe of this name with its command expanded; None if it is not an exec probe."""
        probe = _exec(self._container.get(name))
        return probe and {**probe, "exec": {"command": probe_command(self._container, probe["exec"]["command"])}}

    async def _initial_delay(self, probe: Json) -> None:
        """Wait for initialDelaySeconds, counted from the start of the container even after a startup probe."""
        passed = asyncio.get_running_loop().time() - self._began
        await asyncio.sleep((probe.get("initialDelaySeconds") or 0) - passed)

    async def _until_started(self, probe: Json, surroundings: ProbeContext) -> None:
        await self._initial_delay(probe)
        while True:
            if not await self._fails("Startup", probe, surroundings):
                return
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    async def _watch(self, probe: Json, surroundings: ProbeContext) -> None:
        await self._initial_delay(probe)
        last, in_a_row = False, 0
        while True:
            success = not await self._fails("Readiness", probe, surroundings)
            in_a_row = in_a_row + 1 if success is last else 1
            last = success
            needed = (probe.get("successThreshold") or 1) if success else (probe.get("failureThreshold") or 3)
            if in_a_row >= needed:
                self._turn(success)
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    async def _fails(self, name: str, probe: Json, surroundings: ProbeContext) -> bool:
        failure = await run_probe(probe, surroundings)
        if failure is not None:
            self._failed(failure.message(name))
            self._note(failure.summary(name))
        return failure is not None

    def _note(self, failure: str) -> None:
        now = asyncio.get_running_loop().time()
        if failure == self.failure or now - self._failure_at < FAILURE_SECONDS:
            return
        self.failure, self._failure_at = failure, now
        if not self.ready:
            self._changed()

    def _turn(self, ready: bool) -> None:
        if ready:
            self.failure, self._failure_at = "", -FAILURE_SECONDS
        if self.ready is not ready:
            self.ready = ready
            self._changed()


def is_probed(container: Json) -> bool:
    """Whether the container has an exec readiness or startup probe."""
    return any(_exec(container.get(name)) is not None for name in ("readinessProbe", "startupProbe"))


async def run_probe(probe: Json, surroundings: ProbeContext) -> ProbeFailure | None:
    """Run the probe's command; None if it exits with 0 within its timeout."""
    with tempfile.TemporaryFile() as output:  # a pipe would stay open as long as any child of the command runs
        try:
            code = await _run(probe, surroundings, output)
        except TimeoutError as error:  # before OSError, its base class
            return ProbeFailure(str(error))
        except (StartError, OSError) as error:
            return ProbeFailure(str(error), errored=True)
        output.seek(0)
        text = output.read(MAX_OUTPUT).decode("utf-8", "replace")
        return ProbeFailure(text if text.strip() else f"exit {code}") if code else None


async def _run(probe: Json, surroundings: ProbeContext, output: IO[bytes]) -> int:
    """The exit code of the probe's command. Raises TimeoutError after killing it, StartError or OSError if it cannot
    start.
    """
    command, seconds = probe["exec"]["command"], probe.get("timeoutSeconds") or 1
    program = executable(command[0], surroundings.directory, surroundings.environment.get("PATH", ""))
    process = await asyncio.create_subprocess_exec(
        *command,
        executable=program,
        env=dict(surroundings.environment),
        cwd=surroundings.directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        after = go_duration(timedelta(seconds=seconds))
        raise TimeoutError(f"command timed out: {json.dumps(' '.join(command))} timed out after {after}") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _exec(probe: Json) -> Json | None:
    return probe if probe and (probe.get("exec") or {}).get("command") else None

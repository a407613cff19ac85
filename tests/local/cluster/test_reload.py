"""SIGHUP to a running `sluice up`: the configuration file is read again."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from queue_manager.api import condition_types
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from tests.local.cluster.conftest import ROOT, SLUICE, Up
from tests.local.cluster.work import job
from tests.waiting import until

Start = Callable[..., Up]
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


async def hang_up(up: Up, file: Path, body: str) -> str:
    """Write the file, send the signal; returns the log line that reports the result."""
    file.write_text(HEAD + body)
    up.process.send_signal(signal.SIGHUP)
    assert up.process.stdout is not None
    while True:
        async with asyncio.timeout(30):
            line = await asyncio.to_thread(up.process.stdout.readline)
        assert line, "sluice up has ended"
        if " config " in line:
            return line.rstrip().removeprefix("✔ config       ").removeprefix("! config       ")


async def test_a_shorter_timeout_is_applied_to_running_workloads(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD)
    up = start("--config", str(file))
    async with up.client() as client:
        body = job("hangs", "true")
        body["spec"]["template"]["spec"]["containers"][0]["command"] = ["no-such-command"]  # type: ignore[index]
        await client.create(JOBS, "default", body)

        async def has(kind: str, reason: str) -> bool:
            workloads = await client.list(WORKLOADS, "default", type=Workload)  # none before it has been queued
            found = [condition for workload in workloads if (condition := workload.condition(kind))]
            return [(c.is_true, c.reason) for c in found] == [(True, reason)]

        await until(lambda: has(condition_types.ADMITTED, "Admitted"), "it is admitted")
        line = await hang_up(up, file, "waitForPodsReady: {timeout: 1s}\n")
        assert line == f"{file} reloaded, applied: waitForPodsReady.timeout, waitForPodsReady.recoveryTimeout"
        await until(lambda: has(condition_types.EVICTED, "PodsReadyTimeout"), "it is evicted")


async def test_invalid_changes_and_those_that_need_a_restart_are_refused(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD)
    up = start("--config", str(file))
    wrong = "waitForPodsReady: {timeout: soon}\nfoo: 1\n"
    answer = await hang_up(up, file, wrong)
    assert answer.startswith(
        f'{file} not applied, the old configuration stays in use: {file}:3: waitForPodsReady.timeout: "'
    )
    assert f"; {file}:4: foo: unknown field" in answer
    mixed = "waitForPodsReady: {timeout: 1s, recoveryTimeout: 30m}\njobController: {concurrentSyncs: 3}\n"
    assert await hang_up(up, file, mixed) == (
        f"{file} reloaded, nothing applied: jobController.concurrentSyncs (line 4) needs a restart, "
        "the Job controller has already started"
    )
    assert await hang_up(up, file, "waitForPodsReady: {timeout: 1s, recoveryTimeout: 30m}\n") == (
        f"{file} reloaded, applied: waitForPodsReady.timeout"
    )
    assert await hang_up(up, file, "waitForPodsReady: {timeout: 1s, recoveryTimeout: 30m}\n") == (
        f"{file} reloaded, no changes"
    )
    file.unlink()
    up.process.send_signal(signal.SIGHUP)
    assert up.process.stdout is not None
    assert "cannot be read: No such file" in await asyncio.to_thread(up.process.stdout.readline)
    assert up.stop() == 0


async def test_the_command_that_up_prints_reloads_its_configuration(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD)
    up = start("--config", str(file))
    [command] = [line for line in up.lines if "-HUP" in line]
    subprocess.run(command.removeprefix(f"To apply a changed {file}: ").split(), check=True)
    assert up.process.stdout is not None
    assert f"{file} reloaded, no changes" in await asyncio.to_thread(up.process.stdout.readline)
    assert up.stop() == 0


async def test_a_reload_without_configuration_file_is_reported(start: Start) -> None:
    up = start()
    up.process.send_signal(signal.SIGHUP)
    assert up.process.stdout is not None
    line = await asyncio.to_thread(up.process.stdout.readline)
    assert "no configuration file was given at the start" in line
    assert up.stop() == 0


async def test_closing_the_terminal_stops_it(tmp_path: Path) -> None:
    """A closed terminal sends SIGHUP as well."""
    master, slave = pty.openpty()
    command = [*SLUICE, "up", "--data-dir", str(tmp_path / "data")]
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            ["setsid", "--ctty", *command], cwd=ROOT, stdin=slave, stdout=out, stderr=subprocess.STDOUT
        )
    os.close(slave)
    try:

        async def ready() -> bool:
            return b"Ctrl-C" in (tmp_path / "out").read_bytes()

        await until(ready, "it is up")
        os.close(master)
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        process.kill()
        process.wait()
    assert "stopped" in (tmp_path / "out").read_text()

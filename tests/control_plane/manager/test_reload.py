"""SIGHUP to a running `sluice manager`: it applies what can change at run time and refuses the rest with the reason."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS, Manager
from tests.control_plane.manager.scenario import Scenario, is_true
from tests.waiting import until

pytestmark = pytest.mark.control_plane


async def hang_up(manager: Manager, file: Path, body: str) -> str:
    """Write the file, send the signal; returns the log line that reports the result."""
    file.write_text(ALL_JOBS + body)
    manager.process.send_signal(signal.SIGHUP)
    await manager.read_until("config: ", 30)
    return manager.lines[-1].removeprefix(f"config: {file} ")


async def test_a_shorter_timeout_is_applied_and_a_changed_address_is_refused(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    manager = await start(kubeconfig)
    file = kubeconfig.parent / "config.yaml"
    await scenario.queues()
    await scenario.submit("hangs")
    await scenario.until_admitted("hangs")
    refused = "metrics: {bindAddress: ':1'}\nwaitForPodsReady: {timeout: 1s}\n"
    assert await hang_up(manager, file, refused) == (
        "reloaded, nothing applied: metrics.bindAddress (line 5) needs a restart, the address is served already"
    )
    wrong = await hang_up(manager, file, "waitForPodsReady: {timeout: never}\nnoSuchThing: {}\n")
    assert wrong.startswith(f"not applied, the old configuration stays in use: {file}:")
    assert 'waitForPodsReady.timeout: "never" is not a duration' in wrong
    assert "noSuchThing: unknown field" in wrong
    assert not is_true(await scenario.workload("hangs"), "Evicted")
    assert await hang_up(manager, file, "waitForPodsReady: {timeout: 1s, recoveryTimeout: 30m}\n") == (
        "reloaded, applied: waitForPodsReady.timeout"
    )

    async def evicted() -> bool:
        return is_true(await scenario.workload("hangs"), "Evicted")

    await until(evicted, "it is evicted")

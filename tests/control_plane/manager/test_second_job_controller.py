"""The Job controller of kube-controller-manager beside ours, on the same Jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS, Manager
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.server import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.usefixtures("running_pods")]

MANAGED_BY = ALL_JOBS.replace("manage: All", "manage: ManagedBy")
MINE = "sluice/job-controller"


def reports(manager: Manager) -> list[str]:
    return [line for line in manager.log.read_text().splitlines() if "two Job controllers" in line]


async def until_the_other_works(scenario: Scenario) -> None:
    """Wait until the other controller has written the status of the Job `before`."""
    await scenario.submit("before", queue="", suspend=True)

    async def suspended() -> bool:
        return bool((await scenario.job("before"))["status"].get("conditions"))

    await scenario.wait(suspended, "kube-controller-manager has written a status")


async def test_another_controller_of_all_jobs_is_reported_once(
    scenario: Scenario, kubeconfig: Path, start: Start, plane: ControlPlane
) -> None:
    await scenario.queues()
    with plane.controllers("job-controller"):
        await until_the_other_works(scenario)
        manager = await start(kubeconfig)
        reading = asyncio.create_task(manager.read_until("! kube-controller-manager controls Job ", 30))
        for number in range(
            30
        ):  # managedFields have whole seconds: writes of the manager's first second are no evidence
            await scenario.submit(f"job-{number}", parallelism=2, completions=2)
            await asyncio.wait([reading], timeout=1)
            if reading.done():
                break
        await reading
        await scenario.submit("one-more", parallelism=2, completions=2)
        await scenario.until_finished("one-more")
    assert f"controls Job {scenario.namespace}/" in manager.lines[-1]
    assert manager.lines[-1].endswith(
        "(kube-controller-manager --controllers=*,-job-controller), or set jobController.manage: ManagedBy"
    )
    assert len(reports(manager)) == 1


async def test_jobs_that_the_other_controller_worked_on_before_are_not_reported(
    scenario: Scenario, kubeconfig: Path, start: Start, plane: ControlPlane
) -> None:
    """The other controller has been switched off since; its writes stay in managedFields."""
    with plane.controllers("job-controller"):
        await until_the_other_works(scenario)
    manager = await start(kubeconfig)
    await scenario.api.patch(JOBS, scenario.namespace, "before", {"spec": {"suspend": False}})
    await scenario.until_finished("before")
    assert reports(manager) == []


async def test_another_controller_of_other_jobs_is_not_reported(
    scenario: Scenario, kubeconfig: Path, start: Start, plane: ControlPlane
) -> None:
    manager = await start(kubeconfig, config=MANAGED_BY)
    await scenario.queues()
    with plane.controllers("job-controller"):
        await scenario.submit("theirs", completions=2)
        await scenario.submit("mine", completions=2, managedBy=MINE)
        await scenario.until_finished("theirs", "mine")
    assert reports(manager) == []
    for name in ("theirs", "mine"):
        assert len(await scenario.pods(name)) == 2

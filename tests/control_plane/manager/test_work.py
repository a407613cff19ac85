"""The manager on a real API server, with exactly the rights of its permissions table."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS, NAMESPACES
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.scenario import QUICK, Scenario, is_true, one_job
from tests.waiting import until

pytestmark = pytest.mark.control_plane


def on_the_embedded_server() -> object:
    async def scenario() -> object:
        async with World(0, lambda pod: QUICK) as world:
            await world.client.create(NAMESPACES, "", {"metadata": {"name": "embedded"}})

            async def wait(condition: object, what: str) -> None:
                for _ in range(1200):
                    try:
                        if await condition():  # type: ignore[operator]
                            return
                    except LookupError:
                        pass
                    await asyncio.sleep(0.05)
                raise AssertionError(what)

            return await one_job(Scenario(world.client, "embedded", wait))

    return run_virtual(scenario())


@pytest.mark.usefixtures("running_pods")
async def test_a_job_ends_on_a_real_server_as_on_the_embedded_one(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    """It is admitted, unsuspended, run by our Job controller and finished, with the same conditions, status, Events and
    finalizers.
    """
    manager = await start(kubeconfig)
    real = await one_job(scenario)
    with ThreadPoolExecutor(1) as thread:
        embedded = await asyncio.get_running_loop().run_in_executor(thread, on_the_embedded_server)
    assert real == embedded
    assert await manager.metric('reflector_failures_total{resource="pods"}') == 0


@pytest.mark.usefixtures("running_pods")
async def test_a_job_created_unsuspended_is_stopped_and_queued(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    """Without a webhook that suspends it, the controller suspends the Job once it sees it."""
    await start(kubeconfig)
    await scenario.submit("late", suspend=False)  # its queue does not exist yet, so it cannot be admitted

    async def stopped() -> bool:
        job = await scenario.job("late")
        return bool(job["spec"]["suspend"]) and is_true(job, "Suspended")

    await until(stopped, "the Job is suspended")
    await scenario.queues()
    await scenario.until_finished("late")


@pytest.mark.usefixtures("running_pods")
async def test_by_default_only_jobs_that_name_our_controller_are_run(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    """The queue admits both; pods of the other belong to the built-in controller, which does not run here."""
    await start(kubeconfig, config="apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    await scenario.queues()
    await scenario.submit("theirs")
    await scenario.until_admitted("theirs")
    await scenario.submit("ours", managedBy="sluice/job-controller")
    await scenario.until_finished("ours")
    assert await scenario.pods("theirs") == []
    assert "startTime" not in (await scenario.job("theirs")).get("status", {})


@pytest.mark.usefixtures("running_pods")
async def test_a_second_start_writes_nothing(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    first = await start(kubeconfig)
    await scenario.queues()
    await scenario.submit("a")
    await scenario.until_finished("a")

    async def at_rest() -> bool:
        return is_true(await scenario.workload("a"), "Finished") and not (await scenario.workload("a"))["metadata"].get(
            "finalizers"
        )

    await until(at_rest, "the Workload is released")
    await first.stop()
    before = await state_of(scenario)
    second = await start(kubeconfig)
    await scenario.submit("b")
    await scenario.until_finished("b")
    await second.stop()
    assert await state_of(scenario) == before


async def state_of(scenario: Scenario) -> tuple[object, ...]:
    """The versions of the objects of the first Job."""
    objects = [await scenario.job("a"), await scenario.workload("a"), *(await scenario.pods("a"))]
    return (*(obj["metadata"]["resourceVersion"] for obj in objects), await scenario.events("Job", "a"))


async def test_the_readiness_probe_succeeds_once_the_caches_are_filled(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    manager = await start(kubeconfig)
    assert await manager.get("/healthz") == (200, "ok\n")
    assert await manager.get("/readyz") == (200, "ok\n")
    status, text = await manager.get("/metrics")
    assert status == 200
    assert 'reflector_lists_total{resource="jobs.batch"} 1' in text
    assert manager.memory() < 200 << 20


async def test_the_job_controller_runs_alone(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    manager = await start(kubeconfig, "--controllers", "job-controller")
    await scenario.submit("free", queue="", suspend=False)

    async def has_pod() -> bool:
        return len(await scenario.pods("free")) == 1

    await until(has_pod, "its pod is created")
    _, text = await manager.get("/metrics")
    assert "workloads.kueue" not in text
    await scenario.api.delete(JOBS, scenario.namespace, "free", propagation="Background")

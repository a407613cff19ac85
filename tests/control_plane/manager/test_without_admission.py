"""Neither webhooks nor policies: what they would refuse is undone by the controllers, or does no harm.

Jobs here are written by an administrator, whom RBAC stops from nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from job_controller.times import timestamp
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from queue_manager.simulation.kubelet import PodScript
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.scenario import QUICK, Scenario, is_true, kubelet
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = [pytest.mark.control_plane, pytest.mark.usefixtures("controllers")]

QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"
INDEX = "batch.kubernetes.io/job-completion-index"
BESIDE_THE_BUILT_IN = ALL_JOBS.replace("manage: All", "manage: ManagedBy")


@pytest.fixture
async def endless_pods(scenario: Scenario) -> Any:
    """Pods become ready and run until they are deleted."""
    async with kubelet(scenario.api.transport, lambda pod: PodScript(ready_after=0.1, ends_after=None)):
        yield


async def full_queue(scenario: Scenario) -> None:
    """`run` uses the quota of 4 cpu."""
    await scenario.queues()
    await scenario.submit("run", parallelism=4, completions=4)
    await scenario.until_admitted("run")


async def stays_out(scenario: Scenario, job: str) -> None:
    """The Job is suspended and has no pods, and its Workload has no quota."""

    async def out() -> bool:
        now = await scenario.job(job)
        quota = is_true(await scenario.workload(job), "QuotaReserved")
        return now["spec"]["suspend"] and is_true(now, "Suspended") and not quota and not await scenario.pods(job)

    await until(out, f"{job} is suspended and has no pods")


async def reasons(scenario: Scenario, job: str) -> set[str]:
    return {reason for reason, _ in await scenario.events("Job", job)}


# --- unsuspended -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("endless_pods")
async def test_a_job_created_unsuspended_gets_no_pods(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    await start(kubeconfig)
    await full_queue(scenario)
    await scenario.submit("a", suspend=False)
    await stays_out(scenario, "a")
    assert "SuccessfulCreate" not in await reasons(scenario, "a")


@pytest.mark.usefixtures("endless_pods")
async def test_no_pod_of_the_built_in_controller_outlives_the_suspension(
    scenario: Scenario, kubeconfig: Path, start: Start, plane: ControlPlane
) -> None:
    """It creates pods before the queue sees the Job; they are deleted."""
    with plane.controllers("job-controller"):
        await scenario.queues()
        await scenario.submit("a", suspend=False, parallelism=8, completions=8)  # more than the quota

        async def has_pods() -> bool:
            return len(await scenario.pods("a")) == 8

        await until(has_pods, "the pods exist")
        await start(kubeconfig, config=BESIDE_THE_BUILT_IN)
        await stays_out(scenario, "a")


@pytest.mark.usefixtures("endless_pods")
async def test_what_a_user_unsuspends_is_suspended_again_with_a_warning(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    await start(kubeconfig)
    await full_queue(scenario)
    await scenario.submit("a")
    await stays_out(scenario, "a")
    await scenario.api.patch(JOBS, scenario.namespace, "a", {"spec": {"suspend": False}})

    async def reported() -> bool:
        return "PolicyViolation" in await reasons(scenario, "a")

    await until(reported, "the violation is an Event")
    await stays_out(scenario, "a")
    assert "SuccessfulCreate" not in await reasons(scenario, "a")


# --- labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", ["other", None])
@pytest.mark.usefixtures("running_pods")
async def test_a_running_job_keeps_its_quota_whatever_queue_it_names(
    scenario: Scenario, kubeconfig: Path, start: Start, queue: str | None
) -> None:
    await start(kubeconfig)
    await full_queue(scenario)
    await scenario.api.patch(JOBS, scenario.namespace, "run", {"metadata": {"labels": {QUEUE: queue}}})
    await scenario.submit("a")
    await scenario.until_finished("run", "a")
    workload = await scenario.workload("run")
    assert workload["spec"]["queueName"] == "lq"
    assert "Stopped" not in await reasons(scenario, "run")


@pytest.mark.usefixtures("endless_pods")
async def test_a_workload_keeps_its_priority_without_its_class(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    """The label goes first, then the class itself."""
    await start(kubeconfig)
    await full_queue(scenario)
    api, name = scenario.api, f"{scenario.namespace}-high"
    await api.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": 77})
    await scenario.submit("a", suspend=True)
    await stays_out(scenario, "a")
    await api.patch(JOBS, scenario.namespace, "a", {"metadata": {"labels": {CLASS: name}}})

    async def has_priority() -> bool:
        return (await scenario.workload("a"))["spec"].get("priority") == 77

    await until(has_priority, "the Workload has the priority")
    await api.patch(JOBS, scenario.namespace, "a", {"metadata": {"labels": {CLASS: None}}})
    await api.delete(WORKLOAD_PRIORITY_CLASSES, "", name)
    await api.delete(JOBS, scenario.namespace, "run", propagation="Background")
    await scenario.until_admitted("a")
    assert await has_priority()


# --- forged and removed ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("endless_pods")
async def test_a_job_whose_admission_is_removed_is_stopped(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    """Its Workload is in the queue again, and is admitted once more when the queue, which is held, admits Workloads."""
    await start(kubeconfig)
    await full_queue(scenario)
    await scenario.api.patch(LOCAL_QUEUES, scenario.namespace, "lq", {"spec": {"stopPolicy": "Hold"}})
    name = (await scenario.workload("run"))["metadata"]["name"]
    status = {"admission": None, "conditions": None}
    await scenario.api.patch(WORKLOADS, scenario.namespace, name, {"status": status}, subresource="status")

    async def stopped() -> bool:
        return "Stopped" in await reasons(scenario, "run")

    await until(stopped, "the Job is stopped")
    await scenario.api.patch(LOCAL_QUEUES, scenario.namespace, "lq", {"spec": {"stopPolicy": "None"}})
    await scenario.until_admitted("run")


@pytest.mark.usefixtures("endless_pods")
async def test_a_forged_admission_counts_against_the_quota(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    await start(kubeconfig)
    await full_queue(scenario)
    await scenario.submit("a")
    await stays_out(scenario, "a")
    workload = await scenario.workload("a")
    admission = (await scenario.workload("run"))["status"]["admission"]
    assignment = {**admission["podSetAssignments"][0], "count": 1, "resourceUsage": {"cpu": "1"}}
    now = timestamp(datetime.now(UTC))
    conditions = [
        {"type": t, "status": "True", "reason": "Forged", "message": "", "lastTransitionTime": now}
        for t in ("QuotaReserved", "Admitted")
    ]
    status = {"admission": {**admission, "podSetAssignments": [assignment]}, "conditions": conditions}
    name = workload["metadata"]["name"]
    await scenario.api.patch(WORKLOADS, scenario.namespace, name, {"status": status}, subresource="status")
    await scenario.until_admitted("a")

    async def used() -> str:
        queue = await scenario.api.get(CLUSTER_QUEUES, "", scenario.namespace)
        return str(queue["status"]["flavorsUsage"][0]["resources"][0]["total"])

    async def counted() -> bool:
        return await used() == "5"

    await until(counted, "5 of 4 cpu are used")
    await scenario.api.delete(JOBS, scenario.namespace, "run", propagation="Background")
    await scenario.submit("b", parallelism=4, completions=4)
    await stays_out(scenario, "b")


@pytest.mark.usefixtures("endless_pods")
async def test_a_job_whose_workload_vanishes_is_stopped_and_queued_again(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    """Somebody deletes the Workload and removes the finalizer that holds it until the Job has stopped."""
    await start(kubeconfig)
    await full_queue(scenario)
    old = (await scenario.workload("run"))["metadata"]
    await scenario.api.patch(WORKLOADS, scenario.namespace, old["name"], {"metadata": {"finalizers": None}})
    await scenario.api.delete(WORKLOADS, scenario.namespace, old["name"])

    async def stopped() -> bool:
        return "Stopped" in await reasons(scenario, "run")

    await until(stopped, "the Job is stopped")
    await scenario.until_admitted("run")
    assert (await scenario.workload("run"))["metadata"]["uid"] != old["uid"]


async def test_a_job_whose_pods_lose_their_finalizer_ends(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    """A pod that nobody holds until it is counted runs once more, in place of the one that cannot be counted."""
    await start(kubeconfig)
    await scenario.queues()
    await scenario.submit("a", parallelism=2, completions=2)
    await scenario.until_admitted("a")

    async def have_pods() -> bool:
        return len(await scenario.pods("a")) == 2

    await until(have_pods, "both pods exist")
    for pod in await scenario.pods("a"):
        change = {"metadata": {"finalizers": None}}
        await scenario.api.patch(PODS, scenario.namespace, pod["metadata"]["name"], change)
    async with kubelet(scenario.api.transport, lambda pod: QUICK):  # no pod has ended before
        await scenario.until_finished("a")
    assert (await scenario.job("a"))["status"]["succeeded"] == 2
    assert len(await scenario.pods("a")) == 4


async def test_an_indexed_job_whose_pods_get_other_indexes_ends(
    scenario: Scenario, kubeconfig: Path, start: Start
) -> None:
    """The index that no pod has any longer runs once more."""
    await start(kubeconfig)
    await scenario.queues()
    await scenario.submit("a", parallelism=2, completions=2, completionMode="Indexed")
    await scenario.until_admitted("a")

    async def have_pods() -> bool:
        return len(await scenario.pods("a")) == 2

    await until(have_pods, "both pods exist")
    for pod in await scenario.pods("a"):
        change = {"metadata": {"annotations": {INDEX: "1"}, "labels": {INDEX: "1"}}}
        await scenario.api.patch(PODS, scenario.namespace, pod["metadata"]["name"], change)
    async with kubelet(scenario.api.transport, lambda pod: QUICK):  # no pod has ended before
        await scenario.until_finished("a")
    assert (await scenario.job("a"))["status"]["completedIndexes"] == "0,1"

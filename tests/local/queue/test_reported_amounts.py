"""Numbers in the status of a Workload: its requests while it is refused, amounts, times in seconds."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import WORKLOADS
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import API, NS, Cluster, cluster
from tests.local.queue.environments import current, run

pytestmark = pytest.mark.usefixtures("environment")


def pod(**requests: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": requests}}
    return {"restartPolicy": "Never", "containers": [container]}


def group(flavor: str, **quotas: str) -> dict[str, Any]:
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
    return {"coveredResources": list(quotas), "flavors": [{"name": flavor, "resources": resources}]}


async def refused(c: Cluster, job: str) -> tuple[str, Any]:
    """Reason and resourceRequests of a refused Workload."""
    found = await c.condition(job, "QuotaReserved")
    return found[1] if found else "", (await c.workload(job))["status"].get("resourceRequests")


def main(**amounts: str) -> list[dict[str, Any]]:
    return [{"name": "main", "resources": amounts}]


def test_a_refused_workload_reports_its_requests_without_the_resource_pods() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(resourceGroups=[group("default", cpu="9", memory="9Gi", pods="2")])
            await c.submit("many", pod=pod(cpu="1", memory="1Gi"), parallelism=3, completions=3)
            await c.until(lambda: refused(c, "many"), ("ExceedsMaxQuota", main(cpu="3", memory="3Gi")))

    run(scenario())


def test_reported_requests_include_resources_that_are_not_counted() -> None:
    async def scenario() -> None:
        async with cluster("resources: {quotaCheckStrategy: IgnoreUndeclared}") as c:
            await c.queues("2")
            await c.submit("big", pod=pod(cpu="3", memory="1Gi"))
            await c.until(lambda: refused(c, "big"), ("ExceedsMaxQuota", main(cpu="3", memory="1Gi")))

    run(scenario())


def test_a_misconfigured_workload_reports_its_requests() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(namespaceSelector={"matchLabels": {"team": "none"}})
            await c.submit("a", pod=pod(cpu="1", memory="1Gi"))
            await c.until(lambda: refused(c, "a"), ("Misconfigured", main(cpu="1", memory="1Gi")))

    run(scenario())


def test_all_pod_sets_are_reported_when_the_first_is_refused() -> None:
    async def requests(c: Cluster) -> Any:
        return (await c.client.get(WORKLOADS, NS, "two"))["status"].get("resourceRequests")

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("2")
            sets = [
                {"name": name, "count": 2, "template": {"spec": pod(cpu=cpu)}} for name, cpu in (("a", "9"), ("b", "1"))
            ]
            spec = {"queueName": "lq", "podSets": sets}
            await c.create(
                WORKLOADS, {**API, "kind": "Workload", "metadata": {"name": "two", "namespace": NS}, "spec": spec}
            )
            both = [{"name": "a", "resources": {"cpu": "18"}}, {"name": "b", "resources": {"cpu": "2"}}]
            await c.until(lambda: requests(c), both)

    run(scenario())


@pytest.mark.parametrize(("one", "three"), [("100M", "300M"), ("100Mi", "300Mi"), ("1000", "3k"), ("1500", "4500")])
def test_amounts_divisible_by_1024_have_a_binary_suffix(one: str, three: str) -> None:
    async def usage(c: Cluster) -> Any:
        (given,) = (await c.workload("a"))["status"]["admission"]["podSetAssignments"]
        return given["resourceUsage"]

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(resourceGroups=[group("default", memory="1Gi")])
            await c.submit("a", pod=pod(memory=one), parallelism=3, completions=3)
            await c.until(lambda: usage(c), {"memory": three})

    run(scenario())


def test_zero_seconds_of_past_execution_are_written() -> None:
    """In virtual time the Workload is evicted and its Job stopped in the second of its admission."""

    async def past(c: Cluster) -> Any:
        return (await c.workload("a"))["status"].get("accumulatedPastExecutionTimeSeconds", "absent")

    async def scenario() -> None:
        async with cluster("", a=PodScript(ready_after=None, ends_after=None, stops_within=0.0)) as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            assert await past(c) == "absent"
            name = (await c.workload("a"))["metadata"]["name"]
            await c.client.patch(WORKLOADS, NS, name, {"spec": {"active": False}})
            await c.until(
                lambda: c.condition("a", "QuotaReserved"), ("False", "Deactivated", "The workload is deactivated")
            )
            assert await past(c) in ([0] if current().name == "embedded" else range(60))

    run(scenario())

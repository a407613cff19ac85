"""Losing quota and getting it back: timeouts, deactivation, stopped queues."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from queue_manager.api.keys import MAX_EXEC_TIME
from queue_manager.api.types import Workload
from queue_manager.simulation.kubelet import PodScript
from queue_manager.visibility.deactivated_jobs import may_run_longer
from tests.local.queue.cluster import NS, Cluster, cluster, versions
from tests.local.queue.environments import VIRTUAL_TIME, rest, run

pytestmark = pytest.mark.usefixtures("environment")

NEVER_READY = PodScript(ready_after=None, ends_after=None)
LIMIT = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"


def waiting(timeout: str = "2s", base: int = 1, limit: int | None = None, **more: Any) -> str:
    strategy = f"{{backoffBaseSeconds: {base}" + (f", backoffLimitCount: {limit}}}" if limit is not None else "}")
    extra = "".join(f"\n  {key}: {value}" for key, value in more.items())
    return f"waitForPodsReady:\n  timeout: {timeout}\n  requeuingStrategy: {strategy}{extra}\n"


def values(c: Cluster, job: str, type: str) -> list[tuple[str, str]]:
    """All (status, reason) of a condition in the API's history, without repetitions."""
    seen: list[tuple[str, str]] = []
    for tree in versions(c, WORKLOADS):
        if tree["metadata"]["ownerReferences"][0]["name"] != job:
            continue
        for condition in tree.get("status", {}).get("conditions", ()):
            value = (condition["status"], condition["reason"])
            if condition["type"] == type and (not seen or seen[-1] != value):
                seen.append(value)
    return seen


async def patch_workload(c: Cluster, job: str, patch: dict[str, Any]) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    await c.client.patch(WORKLOADS, NS, name, patch)


async def has_event(c: Cluster, name: str, event: tuple[str, str, str]) -> bool:
    return event in await c.events(name)


async def evictions(c: Cluster, job: str) -> list[tuple[str, str, int]]:
    stats = (await c.workload(job))["status"].get("schedulingStats", {}).get("evictions", [])
    return [(e["reason"], e["underlyingCause"], e["count"]) for e in stats]


def test_two_timeouts_are_retried_after_growing_waits_and_the_third_deactivates() -> None:
    """As in recording c01: limit 2, base 1 s."""

    async def scenario() -> None:
        async with cluster(waiting(limit=2), a=NEVER_READY) as c:
            await c.queues()
            await c.submit("a")
            await c.until(
                lambda: c.condition("a", "Evicted"), ("True", "DeactivatedDueToRequeuingLimitExceeded", LIMIT)
            )
            await c.until(c.running, [])
            await c.until(
                lambda: c.condition("a", "QuotaReserved"), ("False", "Deactivated", "The workload is deactivated")
            )
            workload = await c.workload("a")
            assert workload["spec"]["active"] is False
            assert "requeueState" not in workload["status"]
            assert "admission" not in workload["status"]
            assert await evictions(c, "a") == [
                ("PodsReadyTimeout", "WaitForStart", 2),
                ("Deactivated", "RequeuingLimitExceeded", 1),
            ]
            assert values(c, "a", "Requeued") == [
                ("False", "PodsReadyTimeout"),
                ("True", "BackoffFinished"),
                ("False", "PodsReadyTimeout"),
                ("True", "BackoffFinished"),
                ("False", "DeactivatedDueToRequeuingLimitExceeded"),
            ]
            assert [v for v in values(c, "a", "Evicted") if v[0] == "True"] == [
                ("True", "PodsReadyTimeout"),
                ("True", "PodsReadyTimeout"),
                ("True", "DeactivatedDueToRequeuingLimitExceeded"),
            ]
            name = workload["metadata"]["name"]
            timeout = ("Normal", "EvictedDueToPodsReadyTimeout", f"Exceeded the PodsReady timeout ns/{name}")
            limit = ("Normal", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded", LIMIT)
            for event in (timeout, limit):
                await c.until(lambda event=event: has_event(c, name, event), True)
            await asyncio.sleep(2)
            before = len(c.world.history)
            await rest(3600)
            assert len(c.world.history) == before

    run(scenario())


def test_a_workload_deactivated_by_us_comes_back_with_a_full_new_budget() -> None:
    """Kueue leaves it pending for good (recording d01)."""

    async def scenario() -> None:
        async with cluster(waiting(limit=1), a=NEVER_READY) as c:
            await c.queues()
            await c.submit("a")
            await c.until(
                lambda: c.condition("a", "Evicted"), ("True", "DeactivatedDueToRequeuingLimitExceeded", LIMIT)
            )
            await c.until(c.running, [])
            await asyncio.sleep(5)
            await patch_workload(c, "a", {"spec": {"active": True}})
            await c.until(c.running, ["a"], 1)
            assert "requeueState" not in (await c.workload("a"))["status"]
            assert ("True", "Reactivated") in values(c, "a", "Requeued")
            await c.until(lambda: _count(c, "a"), 1)
            await c.until(
                lambda: c.condition("a", "Evicted"), ("True", "DeactivatedDueToRequeuingLimitExceeded", LIMIT)
            )
            assert await evictions(c, "a") == [
                ("PodsReadyTimeout", "WaitForStart", 2),
                ("Deactivated", "RequeuingLimitExceeded", 2),
            ]

    run(scenario())


async def _count(c: Cluster, job: str) -> int | None:
    return (await c.workload(job))["status"].get("requeueState", {}).get("count")  # type: ignore[no-any-return]


def test_a_user_deactivates_a_running_job_and_brings_it_back() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            await patch_workload(c, "a", {"spec": {"active": False}})
            await c.until(c.running, [])
            await c.until(lambda: c.condition("a", "Requeued"), ("False", "Deactivated", "The workload is deactivated"))
            assert await evictions(c, "a") == [("Deactivated", "", 1)]
            await asyncio.sleep(3)
            await patch_workload(c, "a", {"spec": {"active": True}})
            await c.until(c.running, ["a"])
            assert await c.condition("a", "Requeued") == ("True", "Reactivated", "The workload was reactivated")
            assert await c.condition("a", "Evicted") == (
                "False",
                "QuotaReserved",
                "Previously: The workload is deactivated",
            )

    run(scenario())


def test_a_stop_takes_two_job_patches_and_none_is_refused() -> None:
    """Kueue sends 8 to 10 that are refused."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            await asyncio.sleep(2)
            generation = (await c.job("a"))["metadata"]["generation"]
            await patch_workload(c, "a", {"spec": {"active": False}})
            await c.until(
                lambda: c.condition("a", "QuotaReserved"), ("False", "Deactivated", "The workload is deactivated")
            )
            job = await c.job("a")
            assert job["metadata"]["generation"] == generation + 2
            assert "kueue.x-k8s.io/stopping" not in job["metadata"].get("annotations", {})
            stopped = ("Normal", "Stopped", "The workload is deactivated")
            await c.until(lambda: has_event(c, "a", stopped), True)

    run(scenario())


def test_quota_is_kept_until_the_last_pod_has_terminated() -> None:
    """Pods that take 6 s to stop keep their quota for these 6 s."""

    async def scenario() -> None:
        slow = PodScript(ready_after=0.2, ends_after=None, stops_within=6.0)
        async with cluster(slow=slow) as c:
            await c.queues(cpu="1")
            await c.submit("slow")
            await c.until(c.running, ["slow"])
            await c.submit("next")
            await asyncio.sleep(1)
            await patch_workload(c, "slow", {"spec": {"active": False}})
            await c.until(c.running, [])
            await asyncio.sleep(4)
            assert await c.running() == []
            assert (await c.condition("slow", "QuotaReserved"))[0] == "True"  # type: ignore[index]
            await c.until(c.running, ["next"])

    run(scenario())


def test_a_deactivated_pending_workload_leaves_the_queue_and_can_return() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("run")
            await c.submit("wait")
            await asyncio.sleep(1)
            await patch_workload(c, "wait", {"spec": {"active": False}})
            await c.until(
                lambda: c.condition("wait", "Evicted"), ("True", "Deactivated", "The workload is deactivated")
            )
            await c.client.delete(JOBS, NS, "run", propagation="Background")
            await asyncio.sleep(2)
            assert await c.running() == []
            await patch_workload(c, "wait", {"spec": {"active": True}})
            await c.until(c.running, ["wait"])
            assert values(c, "wait", "Requeued") == []

    run(scenario())


@VIRTUAL_TIME
def test_lost_readiness_evicts_after_the_recovery_timeout() -> None:
    """The next run has its full timeout. In Kueue the old WaitForRecovery evicts it at once (recording e01)."""

    async def scenario() -> None:
        async with cluster(waiting(timeout="60s", recoveryTimeout="3s")) as c:
            await c.queues()
            await c.submit("a")
            ready = ("True", "Started", "All pods reached readiness and the workload is running")
            await c.until(lambda: c.condition("a", "PodsReady"), ready)
            await _unready(c)
            await c.until(
                lambda: c.condition("a", "PodsReady"),
                ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"),
            )
            await c.until(lambda: _evicted(c, "a"), "PodsReadyTimeout")
            assert await evictions(c, "a") == [("PodsReadyTimeout", "WaitForRecovery", 1)]
            await c.until(c.running, [])
            await c.until(lambda: _staying(c), [])  # the pod must not become ready again before it is deleted
            c.outcomes.pop("a")
            await c.until(c.running, ["a"])
            await asyncio.sleep(5)
            assert await evictions(c, "a") == [("PodsReadyTimeout", "WaitForRecovery", 1)]
            states = values(c, "a", "PodsReady")
            assert states[states.index(("False", "WaitForRecovery")) + 1] == ("False", "WaitForStart")

    run(scenario())


def test_pods_ready_is_reset_in_the_write_that_ends_the_admission() -> None:
    async def scenario() -> None:
        fails = PodScript(ready_after=0.1, ends_after=0.5, exit_code=1)
        async with cluster(waiting(base=5, recoveryTimeout="2s"), a=fails) as c:
            await c.queues()
            await c.submit("a", backoffLimit=5)
            await c.until(lambda: _eviction_count(c, "a"), 1)
            await c.until(c.running, [])
            await c.until(lambda: _has_admission(c, "a"), False)
        ends = [
            (before, after)
            for before, after in pairwise(versions(c, WORKLOADS))
            if "admission" in before.get("status", {}) and "admission" not in after["status"]
        ]
        assert ends
        for _, after in ends:
            ready = next(x for x in after["status"]["conditions"] if x["type"] == "PodsReady")
            assert (ready["status"], ready["reason"]) == ("False", "WaitForStart")

    run(scenario())


async def _eviction_count(c: Cluster, job: str) -> int:
    stats = (await c.workload(job)).get("status", {}).get("schedulingStats") or {}
    return sum(row["count"] for row in stats.get("evictions", ()))


async def _has_admission(c: Cluster, job: str) -> bool:
    return "admission" in (await c.workload(job))["status"]


async def _evicted(c: Cluster, job: str) -> str | None:
    found = await c.condition(job, "Evicted")
    return found[1] if found and found[0] == "True" else None


async def _unready(c: Cluster) -> None:
    """The Job controller reports no ready pod any more, as when a probe fails."""
    (pod,) = await c.client.list(PODS, NS)
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    c.outcomes["a"] = PodScript(ready_after=None, ends_after=None)
    await c.client.patch(PODS, NS, pod["metadata"]["name"], {"status": status}, subresource="status")


async def _staying(c: Cluster) -> list[str]:
    """The pods that are not being deleted."""
    found = await c.client.list(PODS, NS)
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


@VIRTUAL_TIME
@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_backoff_survives_a_hold_of_the_local_queue(policy: str) -> None:
    """Kueue admits at once when the LocalQueue is released (recording x22)."""

    async def scenario() -> None:
        async with cluster(waiting(base=6), a=NEVER_READY) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: _evicted(c, "a"), "PodsReadyTimeout")
            await c.until(c.running, [])
            requeue_at = (await c.workload("a"))["status"]["requeueState"]["requeueAt"]
            await c.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": policy}})
            await asyncio.sleep(2)
            await c.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": "None"}})
            await c.until(c.running, ["a"], 60)
            admitted = next(x for x in (await c.workload("a"))["status"]["conditions"] if x["type"] == "Admitted")
            assert _time(admitted["lastTransitionTime"]) >= _time(requeue_at)

    run(scenario())


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_drained_cluster_queue_takes_its_workloads_back_in_their_old_order() -> None:
    """In Kueue the younger pending one overtakes the drained older one (recording g02)."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1")
            await c.submit("old")
            await c.until(c.running, ["old"])
            await asyncio.sleep(2)
            await c.submit("young")
            await asyncio.sleep(1)
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
            await c.until(lambda: c.condition("old", "Evicted"), ("True", "ClusterQueueStopped", STOPPED))
            await c.until(c.running, [])
            suspended = ("False", "Suspended", "ClusterQueue cq is inactive")
            await c.until(lambda: c.condition("young", "QuotaReserved"), suspended)
            await c.until(lambda: c.condition("old", "Requeued"), ("False", "ClusterQueueStopped", STOPPED))
            status = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]
            assert status["conditions"][0]["message"] == "Can't admit new workloads: is stopped."
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "None"}})
            await c.until(c.running, ["old"])
            assert (await c.condition("old", "Requeued"))[:2] == ("True", "ClusterQueueRestarted")  # type: ignore[index]

    run(scenario())


STOPPED = "The ClusterQueue is stopped"


@pytest.mark.parametrize("again", [None, "elsewhere"])
def test_a_drain_evicts_workloads_whose_local_queue_is_gone_or_was_changed(
    again: str | None,
) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            await c.client.delete(LOCAL_QUEUES, NS, "lq")
            if again is not None:
                await c.local_queue("lq", again)
            await asyncio.sleep(2)
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
            await c.until(c.running, [])

    run(scenario())


def test_a_held_local_queue_starts_nothing_and_is_the_pending_reason() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": "Hold"}})
            await c.submit("a")
            await c.until(
                lambda: c.condition("a", "QuotaReserved"), ("False", "Suspended", "LocalQueue lq is inactive")
            )
            await c.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": "None"}})
            await c.until(c.running, ["a"])

    run(scenario())


@VIRTUAL_TIME
def test_the_maximum_execution_time_deactivates_once() -> None:
    """A reactivation starts a new budget. Kueue sets DeactivationTarget twice and undoes the reactivation (recording
    d07).
    """

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a", labels={"kueue.x-k8s.io/max-exec-time-seconds": "5"})
            reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
            message = "The workload is deactivated due to exceeding the maximum execution time"
            await c.until(lambda: c.condition("a", "Evicted"), ("True", reason, message))
            await c.until(c.running, [])
            await asyncio.sleep(2)
            assert await c.condition("a", "DeactivationTarget") is None
            await patch_workload(c, "a", {"spec": {"active": True}})
            await c.until(c.running, ["a"])
            await asyncio.sleep(3.5)
            assert await c.running() == ["a"]
            name = (await c.workload("a"))["metadata"]["name"]
            recorded = ("Warning", "MaximumExecutionTimeExceeded", "The maximum execution time (5s) exceeded")
            assert (await c.events(name)).count(recorded) == 1

    run(scenario())


@VIRTUAL_TIME
def test_a_raised_label_is_seen_to_exceed_what_the_deactivated_job_ran() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a", labels={MAX_EXEC_TIME: "5"})
            due = ("False", "Deactivated", "The workload is deactivated")
            await c.until(lambda: c.condition("a", "QuotaReserved"), due)
            assert not may_run_longer(msgspec.convert(await c.workload("a"), Workload))
            await c.client.patch(JOBS, NS, "a", {"metadata": {"labels": {MAX_EXEC_TIME: "8"}}})

            async def limit() -> int:
                return int((await c.workload("a"))["spec"]["maximumExecutionTimeSeconds"])

            await c.until(limit, 8)
            assert may_run_longer(msgspec.convert(await c.workload("a"), Workload))

    run(scenario())


@VIRTUAL_TIME
def test_nothing_else_is_admitted_while_pods_are_awaited() -> None:
    async def scenario() -> None:
        async with cluster(
            waiting("60s", blockAdmission="true"), first=PodScript(ready_after=5.0, ends_after=None)
        ) as c:
            await c.queues()
            await c.submit("first")
            await c.submit("second")
            await c.until(
                lambda: c.condition("second", "QuotaReserved"),
                ("False", "WaitingForPodsReady", "waiting for all admitted workloads to be in PodsReady condition"),
            )
            await c.until(c.running, ["first", "second"])

    run(scenario())

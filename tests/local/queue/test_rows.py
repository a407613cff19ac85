"""Where ours must be better than Kueue: one test per row of kueue-measured.md section 3 that is about one queue.

Rows 1, 4, 5, 8 to 11, 14, 17 and 18 are also shown on recordings, in `test_better_than_kueue`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from queue_manager.api.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from queue_manager.engine.transport import ApiError
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import API, NS, Cluster, cluster
from tests.local.queue.places import rest, run
from tests.local.queue.replay import load, played
from tests.local.queue.test_better_than_kueue import order_of_starts, reasons

pytestmark = pytest.mark.usefixtures("place")

NEVER = PodScript(ready_after=None, ends_after=None)
WPR = "waitForPodsReady: {timeout: 2s, recoveryTimeout: 2s, requeuingStrategy: {backoffBaseSeconds: 5%s}}\n"


def writes(c: Cluster, resource: str, name: str = "") -> list[dict[str, Any]]:
    """All versions of objects of a resource whose name begins so, in order."""
    lines = (line.split(b" ", 2) for line in c.world.history)
    trees = [msgspec.json.decode(data) for _, kind, data in lines if kind == resource.encode()]
    return [tree for tree in trees if tree["metadata"]["name"].startswith(name)]


async def set_active(c: Cluster, job: str, active: bool) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    await c.client.patch(WORKLOADS, NS, name, {"spec": {"active": active}})


async def is_active(c: Cluster, job: str) -> bool:
    return bool((await c.workload(job))["spec"]["active"])


def test_row_01_reactivation_requeues_at_once_with_a_full_budget_whoever_deactivated() -> None:
    async def story() -> None:
        async with cluster(WPR % ", backoffLimitCount: 0", a=NEVER) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: is_active(c, "a"), False)
            await c.until(c.running, [])
            await set_active(c, "a", True)
            await c.until(c.running, ["a"], 1)
            assert "requeueState" not in (await c.workload("a"))["status"]

    run(story())


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_row_02_backoff_holds_over_a_stopped_local_queue(policy: str) -> None:
    async def story() -> None:
        async with cluster(WPR % "", a=NEVER) as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            await c.until(c.running, [])
            for value in (policy, "None"):
                await c.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": value}})
                await asyncio.sleep(0.5)
            assert await c.running() == []
            await c.until(c.running, ["a"], 6)

    run(story())


@pytest.mark.virtual_time
def test_row_02_backoff_holds_over_a_restart() -> None:
    assert _requeue_states("m02") == [{"count": 1, "wait": 5.0}, {"count": 1, "wait": None}]


def _requeue_states(name: str) -> list[dict[str, Any]]:
    return played(load(name)).values["Workload/ns/job-a-HASH", "status.requeueState"]


def test_row_03_pods_ready_is_reset_in_the_write_that_ends_the_admission() -> None:
    async def story() -> None:
        async with cluster(WPR % "", a=PodScript(ready_after=0.1, ends_after=0.5, exit_code=1)) as c:
            await c.queues()
            await c.submit("a", backoffLimit=5)
            await c.until(lambda: _evictions(c, "a"), 1)
            await c.until(c.running, [])
            await c.until(lambda: _has_admission(c, "a"), False)
        ends = [
            (before, after)
            for before, after in zip(
                writes(c, "workloads.kueue.x-k8s.io"), writes(c, "workloads.kueue.x-k8s.io")[1:], strict=False
            )
            if "admission" in before.get("status", {}) and "admission" not in after["status"]
        ]
        assert ends
        for _, after in ends:
            ready = next(x for x in after["status"]["conditions"] if x["type"] == "PodsReady")
            assert (ready["status"], ready["reason"]) == ("False", "WaitForStart")

    run(story())


async def _evictions(c: Cluster, job: str) -> int:
    stats = (await c.workload(job)).get("status", {}).get("schedulingStats") or {}
    return sum(row["count"] for row in stats.get("evictions", ()))


async def _has_admission(c: Cluster, job: str) -> bool:
    return "admission" in (await c.workload(job))["status"]


def test_row_04_one_deactivation_per_cause_and_a_new_execution_budget() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a", labels={"kueue.x-k8s.io/max-exec-time-seconds": "5"})
            await c.until(lambda: is_active(c, "a"), False)
            await c.until(c.running, [])
            await set_active(c, "a", True)
            await c.until(c.running, ["a"])
            await asyncio.sleep(3.5)
            assert await c.running() == ["a"]
            told = [e for e in await c.events("job-a") if e[1] == "MaximumExecutionTimeExceeded"]
            assert len(told) == 1

    run(story())


def test_row_05_a_job_without_its_queue_label_leaves_nothing_in_line() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.submit("a")
            await c.submit("b")
            await c.until(c.running, ["a"])
            await c.client.patch(JOBS, NS, "b", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}})
            await c.until(lambda: _workloads(c), 1)
            assert len(c.world.queue.quota_cache.queues.cluster_queues["cq"]) == 0

    run(story())


async def _workloads(c: Cluster) -> int:
    return len(await c.client.list(WORKLOADS, NS))


def test_row_06_a_blocked_head_costs_no_cycle_and_one_event() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1", strategy="StrictFIFO")
            await c.submit("a")
            await c.submit("b")
            await c.until(lambda: _waits(c, "b"), True)
            cycles = c.world.queue.scheduler.cycles
            await rest(3600)
            assert c.world.queue.scheduler.cycles == cycles
            assert len([e for e in await c.events("job-b") if e[0] == "Warning"]) == 1

    run(story())


async def _waits(c: Cluster, job: str) -> bool:
    return (await c.condition(job, "QuotaReserved") or ("",))[0] == "False"


def test_row_07_a_head_that_can_never_fit_is_reported_and_can_be_passed_by() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1", strategy="StrictFIFO")
            await c.submit("never", "2")
            await c.submit("b")
            await c.until(lambda: _blocked(c), "HeadNeverFits")
            assert await c.running() == []
            assert "NeverFits" in [e[1] for e in await c.events("job-never")]
            gauge = 'sluice_cluster_queue_blocked_by_never_fitting_head{cluster_queue="cq"} '
            assert gauge + "1.0" in c.world.metrics.exposition()
            note = {"sluice/pass-by-never-fitting-head": "true"}
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"metadata": {"annotations": note}})
            await c.until(c.running, ["b"])
            await c.until(lambda: _blocked(c), "")
            assert gauge + "0.0" in c.world.metrics.exposition()

    run(story())


async def _blocked(c: Cluster) -> str:
    conditions = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["status"]["conditions"]
    return next((x["reason"] for x in conditions if x["type"] == "Blocked"), "")


def test_row_08_a_stop_takes_at_most_two_job_patches() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            before = await _generation(c)
            await set_active(c, "a", False)
            await c.until(lambda: _has_admission(c, "a"), False)
            assert await _generation(c) - before <= 2

    run(story())


async def _generation(c: Cluster) -> int:
    return int((await c.job("a"))["metadata"]["generation"])


def test_row_09_quota_is_released_when_no_pod_is_active_or_terminating() -> None:
    async def story() -> None:
        async with cluster(a=PodScript(ready_after=0.1, ends_after=None, stops_within=5.0)) as c:
            await c.queues("1")
            await c.submit("a")
            await c.submit("b")
            await c.until(c.running, ["a"])
            await asyncio.sleep(1)
            await set_active(c, "a", False)
            await asyncio.sleep(3)
            assert await _has_admission(c, "a")
            assert await c.running() == []
            await c.until(c.running, ["b"])

    run(story())


@pytest.mark.virtual_time
def test_row_10_a_release_keeps_the_old_order() -> None:
    assert order_of_starts("x27") == ["one", "two", "one", "two"]


@pytest.mark.virtual_time
def test_row_11_with_block_admission_the_head_is_chosen_when_admission_opens() -> None:
    assert order_of_starts("f05")[:2] == ["first", "third"]


def test_row_12_jobs_of_one_second_go_in_the_order_of_their_arrival_also_after_a_restart() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1")
            for name in ("a", "e", "c", "d", "b"):
                await c.submit(name)
            await c.until(lambda: _workloads(c), 5)
            line = [
                info.key.name.split("-")[1] for info in c.world.queue.quota_cache.queues.cluster_queues["cq"].in_order()
            ]
            assert line == ["e", "c", "d", "b"]

    run(story())


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", ["g09", "g12"])
def test_row_13_no_message_names_a_queue_without_a_name(name: str) -> None:
    course = played(load(name))
    texts = [value[2] for values in course.values.values() for value in values if isinstance(value, tuple)]
    assert not any("ClusterQueue  " in text for text in texts)


@pytest.mark.virtual_time
def test_row_14_a_failed_index_counts_as_done_for_readiness() -> None:
    assert reasons(played(load("x08")), "a", "PodsReady") == [("False", "WaitForStart"), ("True", "Started")]


def test_row_15_no_write_changes_nothing() -> None:
    async def story() -> None:
        async with cluster(WPR % ", backoffLimitCount: 1", a=NEVER) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: is_active(c, "a"), False)
            await asyncio.sleep(2)
        for resource in ("workloads", "clusterqueues", "localqueues"):
            versions: dict[str, bytes] = {}
            for tree in writes(c, f"{resource}.kueue.x-k8s.io"):
                name = tree["metadata"]["name"]
                for changing in ("resourceVersion", "managedFields", "generation"):
                    tree["metadata"].pop(changing, None)
                now = msgspec.json.encode(tree, order="sorted")
                assert versions.get(name) != now, f"{resource} {name} was written and did not change"
                versions[name] = now

    run(story())


def test_row_16_a_queue_that_can_never_work_is_refused_with_its_field() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues()
            meta = {"name": "nowhere", "namespace": NS}
            with pytest.raises(ApiError, match=r"spec\.clusterQueue"):
                await c.create(LOCAL_QUEUES, {**API, "kind": "LocalQueue", "metadata": meta, "spec": {}})

    run(story())


def test_row_17_a_change_of_queue_is_followed_while_it_holds_no_quota() -> None:
    async def story() -> None:
        async with cluster(WPR % "", a=NEVER) as c:
            await c.queues()
            await c.local_queue("other")
            await c.submit("a")
            await c.until(c.running, ["a"])
            await c.until(c.running, [])
            await c.client.patch(JOBS, NS, "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
            await c.until(lambda: _queue(c, "a"), "other", 1)

    run(story())


async def _queue(c: Cluster, job: str) -> str:
    return str((await c.workload(job))["spec"]["queueName"])


def test_row_18_the_queue_of_a_workload_follows_its_job_only() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.local_queue("other")
            await c.submit("a")
            await c.submit("b")
            await c.until(lambda: _waits(c, "b"), True)
            name = (await c.workload("b"))["metadata"]["name"]
            await c.client.patch(WORKLOADS, NS, name, {"spec": {"queueName": "other"}})
            await c.until(lambda: _queue(c, "b"), "lq")

    run(story())


def test_the_queue_name_of_a_reserved_workload_changes_neither_in_one_step_nor_in_two() -> None:
    """Kueue takes null, and then any other name."""

    async def story() -> None:
        async with cluster() as c:
            await c.queues()
            await c.local_queue("other")
            await c.submit("a")
            await c.until(c.running, ["a"])
            name = (await c.workload("a"))["metadata"]["name"]
            for queue in ("other", None):
                with pytest.raises(ApiError, match="queueName is immutable while workload quota reserved"):
                    await c.client.patch(WORKLOADS, NS, name, {"spec": {"queueName": queue}})
            assert await _queue(c, "a") == "lq"

    run(story())

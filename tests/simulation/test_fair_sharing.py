"""Fair sharing of both kinds on the whole system, in virtual time."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, JOBS, LOCAL_QUEUES, WORKLOADS
from queue_manager.configuration import loads
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import API, NS, RUNS_WITHOUT_END, Cluster, cluster

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
SHARING = "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}\n"
RESOURCES = "metrics: {enableClusterQueueResources: true}\n"
USAGE = "admissionFairSharing: {usageHalfLifeTime: 10m, usageSamplingInterval: 1m}\n"
BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def quota(cpu: str) -> list[dict[str, Any]]:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}]


async def add_queue(c: Cluster, name: str, cpu: str, **spec: Any) -> None:
    """A further ClusterQueue, with a LocalQueue of its name."""
    body = {"namespaceSelector": {}, "resourceGroups": quota(cpu), **spec}
    await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": body})
    await c.local_queue(name, name)


async def add_cohort(c: Cluster, name: str, cpu: str, **spec: Any) -> None:
    body = {"resourceGroups": quota(cpu), **spec}
    await c.create(COHORTS, {**API, "kind": "Cohort", "metadata": {"name": name}, "spec": body})


async def fair_sharing(c: Cluster, kind: Any, name: str) -> Any:
    found = await c.client.get(kind, NS if kind is LOCAL_QUEUES else "", name)
    return found.get("status", {}).get("fairSharing")


async def share(c: Cluster, kind: Any, name: str) -> Any:
    return (await fair_sharing(c, kind, name) or {}).get("weightedShare")


async def consumed(c: Cluster, queue: str) -> Any:
    status = await fair_sharing(c, LOCAL_QUEUES, queue) or {}
    return (status.get("admissionFairSharingStatus") or {}).get("consumedResources")


# --- shares ---


def test_shares_are_in_the_status_and_the_metrics_of_queues_and_cohorts() -> None:
    async def scenario() -> None:
        async with cluster(SHARING + RESOURCES) as c:
            await add_cohort(c, "root", "6")
            await add_cohort(c, "team", "0", parentName="root", fairSharing={"weight": "2"})
            await c.queues("2", cohortName="team")
            await add_queue(c, "none", "0", cohortName="team", fairSharing={"weight": "0"})
            await c.submit("a", cpu="4")
            await c.submit("b", cpu="1", queue="none")
            await c.until(c.running, ["a", "b"])
            await c.until(lambda: share(c, CLUSTER_QUEUES, "cq"), 250)  # 2 of 8
            await c.until(lambda: share(c, COHORTS, "team"), 188)  # 3 of 8, by 2: 187.5
            await c.until(lambda: share(c, COHORTS, "root"), 0)
            await c.until(lambda: share(c, CLUSTER_QUEUES, "none"), 2**63 - 1)
            metrics = c.world.metrics
            metrics.exposition()
            own = {"cluster_queue": "cq", "cohort": "team"}
            assert metrics.value("kueue_cluster_queue_weighted_share", own) == 250
            assert metrics.value("kueue_cohort_weighted_share", {"cohort": "team"}) == 187.5
            own = {"cluster_queue": "none", "cohort": "team"}
            assert math.isnan(metrics.value("kueue_cluster_queue_weighted_share", own))

    run_virtual(scenario())


def test_shares_follow_quotas_and_usage_and_the_setting() -> None:
    async def scenario() -> None:
        async with cluster(SHARING) as c:
            await c.queues("2", cohortName="all")
            await add_cohort(c, "all", "6")
            await c.submit("a", cpu="4")
            await c.until(lambda: share(c, CLUSTER_QUEUES, "cq"), 250)
            await c.client.patch(COHORTS, "", "all", {"spec": {"resourceGroups": quota("14")}})
            await c.until(lambda: share(c, CLUSTER_QUEUES, "cq"), 125)
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"fairSharing": {"weight": "500m"}}})
            await c.until(lambda: share(c, CLUSTER_QUEUES, "cq"), 250)
            c.world.queue.reconfigure(loads(HEAD))
            await c.until(lambda: fair_sharing(c, CLUSTER_QUEUES, "cq"), None)
            await c.until(lambda: fair_sharing(c, COHORTS, "all"), None)
            c.world.queue.reconfigure(loads(HEAD + SHARING))
            await c.until(lambda: share(c, CLUSTER_QUEUES, "cq"), 250)
            await c.client.delete(JOBS, NS, "a")
            await c.until(lambda: share(c, CLUSTER_QUEUES, "cq"), 0)

    run_virtual(scenario())


def test_the_queue_that_borrows_less_gets_the_quota_that_is_freed() -> None:
    """Without fair sharing the priority of `greedy` would decide."""

    async def scenario() -> None:
        async with cluster(SHARING, first=PodScript(ready_after=0.2, ends_after=20)) as c:
            await c.apply_class("high", 100)
            await add_cohort(c, "all", "6")
            await c.queues("0", cohortName="all")
            await add_queue(c, "other", "0", cohortName="all")
            await c.submit("first", cpu="3")
            await c.submit("second", cpu="3")
            await c.until(c.running, ["first", "second"])
            await c.submit("greedy", cpu="3", labels={"kueue.x-k8s.io/priority-class": "high"})
            await c.submit("modest", cpu="3", queue="other")
            await c.until(c.running, ["modest", "second"], 60)

    run_virtual(scenario())


INITIAL = "fairSharing: {preemptionStrategies: [LessThanInitialShare]}\n"


def test_a_circle_of_preemptions_ends_with_its_own_quota_in_the_hands_of_its_owner() -> None:
    """`small` reclaims from `lent`; `large`, of a higher priority in its queue, would take more than that, and `lent`
    would preempt `large` by its share. The second time nothing passes `small`.
    """

    async def scenario() -> None:
        long = PodScript(ready_after=0.2, ends_after=3600)
        async with cluster(INITIAL, **dict.fromkeys(("own", "other", "lent", "large", "small"), long)) as c:
            high = {"kueue.x-k8s.io/priority-class": "high"}
            await c.apply_class("high", 3)
            preemption = {"reclaimWithinCohort": "Any"}
            await c.queues("2", cohortName="all", preemption=preemption)
            await add_queue(c, "lender", "3", cohortName="all", preemption=preemption)
            await add_queue(c, "third", "3", cohortName="all", preemption=preemption)
            await c.submit("own", cpu="1")
            await c.submit("other", cpu="3", queue="third")
            await c.submit("lent", cpu="4", queue="lender", labels=high)
            await c.until(c.running, ["lent", "other", "own"])
            await c.submit("large", cpu="4", labels=high)
            await c.submit("small", cpu="1")
            await c.until(c.running, ["other", "own", "small"])
            await asyncio.sleep(60)
            assert await c.running() == ["other", "own", "small"]
            assert list(await evictions(c)) == ["lent"]

    run_virtual(scenario())


def test_preemptions_that_were_never_written_count_after_a_restart_too() -> None:
    """`whole` reclaims from `wide`, which preempts it by its share, twice within one instant: none of it is written."""

    async def scenario() -> None:
        async with cluster(INITIAL, **dict.fromkeys(("narrow", "wide", "whole"), RUNS_WITHOUT_END)) as c:
            await stop_each_other(c)
            for starts in (0, 1):
                if starts:
                    await c.world.kill()
                    await c.world.start()
                await asyncio.sleep(60)
                assert await c.running() == ["whole"]
                assert await evictions(c) == {"narrow": "InClusterQueue"}
                assert (await c.workload("wide"))["status"]["requeueHistory"] == {"spared": [await uid(c, "whole")]}

    run_virtual(scenario())


async def stop_each_other(c: Cluster) -> None:
    await c.apply_class("high", 3)
    policy = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    spec = {"cohortName": "all", "preemption": policy}
    await c.queues("1", **spec)
    for name, cpu in (("lender", "1"), ("other", "2")):
        await add_queue(c, name, cpu, **spec, fairSharing={"weight": "500m"})
    await c.submit("narrow", cpu="2", queue="other")
    await c.until(c.running, ["narrow"])
    await c.submit("wide", cpu="4")
    await c.submit("whole", cpu="4", queue="other", labels={"kueue.x-k8s.io/priority-class": "high"})


LOST = "which others it may not preempt could not be written"


class Records(Relay):
    """Loses the first five records of which others a Workload may not preempt once more; or has the Workload deleted
    before the first one.
    """

    deletes = False
    seen = 0

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and b'"spared"' in (request.body or b""):
            self.seen += 1
            if self.deletes and self.seen == 1:
                await super().request(Request("DELETE", request.path.removesuffix("/status")))
            elif not self.deletes and self.seen <= 5:
                raise ConnectionResetError("lost")
        return await super().request(request)


@pytest.mark.parametrize(("deletes", "losses"), [(False, 5), (True, 0)])
def test_a_record_of_preemptions_that_is_lost_is_written_again(
    deletes: bool, losses: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At rest, too. That of a deleted Workload is not missed: its Job gets another one."""
    monkeypatch.setattr(Records, "deletes", deletes)

    async def scenario() -> None:
        config = loads(HEAD + INITIAL)
        async with World(1, lambda pod: RUNS_WITHOUT_END, config, separate_queue=True, wrap_transport=Records) as world:
            c = Cluster(world, {})
            await stop_each_other(c)
            await c.until(c.running, ["whole"])
            await asyncio.sleep(60)
            assert (await c.workload("wide"))["status"]["requeueHistory"] == {"spared": [await uid(c, "whole")]}

    run_virtual(scenario())
    assert [record.message for record in caplog.records].count(LOST) == losses


async def uid(c: Cluster, job: str) -> str:
    return (await c.workload(job))["metadata"]["uid"]


async def evictions(c: Cluster) -> dict[str, str]:
    """By Job, the reason of Preempted of each that was preempted; no one twice."""
    found = {}
    for w in await c.client.list(WORKLOADS, NS):
        stats = w.get("status", {}).get("schedulingStats", {}).get("evictions", [])
        assert sum(each["count"] for each in stats) <= 1
        if stats:
            [preempted] = [each for each in w["status"]["conditions"] if each["type"] == "Preempted"]
            found[w["metadata"]["ownerReferences"][0]["name"]] = preempted["reason"]
    return found


def test_the_queue_with_the_lower_share_preempts_until_shares_are_equal() -> None:
    """It preempts nothing more after that."""

    async def scenario() -> None:
        async with cluster(SHARING) as c:
            policy = {"preemption": {"reclaimWithinCohort": "Any"}, "cohortName": "all"}
            await add_cohort(c, "all", "6")
            await c.queues("0", **policy)
            await add_queue(c, "other", "0", **policy)
            for i in range(6):
                await c.submit(f"a{i}")
                await c.until(c.running, [f"a{n}" for n in range(i + 1)])
                await asyncio.sleep(1)  # reservations are compared by whole seconds
            for i in range(6):
                await c.submit(f"b{i}", queue="other")
            await c.until(c.running, ["a0", "a1", "a2", "b0", "b1", "b2"], 60)
            assert await evictions(c) == dict.fromkeys(("a3", "a4", "a5"), "InCohortFairSharing")
            await c.until(lambda: share(c, CLUSTER_QUEUES, "other"), 500)
            await asyncio.sleep(600)
            assert await c.running() == ["a0", "a1", "a2", "b0", "b1", "b2"]
            assert len(await evictions(c)) == 3

    run_virtual(scenario())


# ClusterQueue, nominal quota, cohort and weight of the circle in `unit/scheduling/test_fair_preemption.py`.
CIRCLE = (("a", "0", "left", "0"), ("b", "1", "left", "0"), ("c", "0", "right", "0"), ("d", "0", "right", "500m"))


def test_three_queues_in_two_cohorts_stop_preempting_each_other() -> None:
    """c takes from a, d from c, and a from d; then nothing changes for ten hours."""

    async def scenario() -> None:
        async with cluster(SHARING) as c:
            await c.queues("0")
            await add_cohort(c, "all", "4")
            await add_cohort(c, "left", "1", parentName="all")
            await add_cohort(c, "right", "0", parentName="all", fairSharing={"weight": "2"})
            for name, cpu, parent, weight in CIRCLE:
                policy = {"reclaimWithinCohort": "Any"}
                await add_queue(c, name, cpu, cohortName=parent, preemption=policy, fairSharing={"weight": weight})
            for name, cpu in (("a1", "1"), ("a2", "3"), ("c3", "3"), ("d4", "5")):
                await c.submit(name, cpu=cpu, queue=name[0])
                await asyncio.sleep(5)
            await asyncio.sleep(3600)
            before = await preemptions(c)
            assert before >= 3
            await asyncio.sleep(36_000)
            assert await preemptions(c) == before

    run_virtual(scenario())


async def preemptions(c: Cluster) -> int:
    """How often a Workload was preempted."""
    statistics = [w.get("status", {}).get("schedulingStats", {}) for w in await c.client.list(WORKLOADS, NS)]
    return sum(each["count"] for found in statistics for each in found.get("evictions", ()))


def test_nominal_quota_is_reclaimed_whatever_the_shares_are() -> None:
    async def scenario() -> None:
        async with cluster(SHARING) as c:
            await c.queues("3", cohortName="all", preemption={"reclaimWithinCohort": "Any"})
            await add_queue(c, "other", "0", cohortName="all", fairSharing={"weight": "100"})
            await c.submit("lent", cpu="3", queue="other")
            await c.until(c.running, ["lent"])
            await c.submit("mine", cpu="1")
            await c.until(c.running, ["mine"], 60)
            assert await evictions(c) == {"lent": "InCohortReclamation"}

    run_virtual(scenario())


# --- past usage ---


def test_the_local_queue_that_has_used_less_goes_first() -> None:
    """Quota for one at a time; lq is served first, then the two take turns, whatever their priorities."""

    async def scenario() -> None:
        ends = {f"{queue}{i}": PodScript(ready_after=0.2, ends_after=50) for queue in "ab" for i in range(3)}
        async with cluster(USAGE, **ends) as c:
            await c.apply_class("high", 100)
            await c.queues("1", **BY_USAGE)
            await c.local_queue("lq2")
            for i in range(3):
                await c.submit(f"a{i}", labels={"kueue.x-k8s.io/priority-class": "high"})
            for i in range(3):
                await c.submit(f"b{i}", queue="lq2")
            order: list[str] = []
            for _ in range(6 * 60):
                order += [name for name in await c.running() if name not in order]
                await asyncio.sleep(1)
            assert order == ["a0", "b0", "a1", "b1", "a2", "b2"]

    run_virtual(scenario())


def test_past_usage_is_written_at_the_interval_and_survives_a_restart() -> None:
    async def scenario() -> None:
        async with cluster(USAGE, a=PodScript(ready_after=0.2, ends_after=601)) as c:
            await c.queues("2", **BY_USAGE)
            await c.submit("a", cpu="2")
            await c.until(lambda: consumed(c, "lq"), {"cpu": "133m"})  # the entry penalty: 2 * (1 - 0.5^(1/10))
            await asyncio.sleep(600)
            after_run = milli((await consumed(c, "lq"))["cpu"])
            assert 950 < after_run < 1150  # half of what runs, after one half-life
            await asyncio.sleep(1)
            await c.world.kill()
            await asyncio.sleep(595)
            await c.world.start()
            await asyncio.sleep(65)
            later = milli((await consumed(c, "lq"))["cpu"])
            assert 0.4 * after_run < later < 0.6 * after_run  # another half-life, without a manager for most of it
            c.world.metrics.exposition()
            own = {"name": "lq", "namespace": NS, "cluster_queue": "cq"}
            assert c.world.metrics.value("kueue_local_queue_admission_fair_sharing_usage", own) == pytest.approx(
                later / 1000, abs=0.001
            )

    run_virtual(scenario())


def milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def test_nothing_is_written_once_usage_has_decayed() -> None:
    async def scenario() -> None:
        short = "admissionFairSharing: {usageHalfLifeTime: 10s, usageSamplingInterval: 1m}\n"
        async with cluster(short, a=PodScript(ready_after=0.2, ends_after=1)) as c:
            await c.queues("2", **BY_USAGE)
            await c.submit("a")
            await asyncio.sleep(600)
            assert await consumed(c, "lq") == {}
            before = await c.client.get(LOCAL_QUEUES, NS, "lq")
            await asyncio.sleep(1800)
            assert await c.client.get(LOCAL_QUEUES, NS, "lq") == before

    run_virtual(scenario())


def test_usage_is_forgotten_when_it_is_switched_off() -> None:
    async def scenario() -> None:
        async with cluster(USAGE) as c:
            await c.queues("2", **BY_USAGE)
            await c.submit("a")
            await c.until(lambda: consumed(c, "lq"), {"cpu": "66m"})
            c.world.queue.reconfigure(loads(HEAD))
            await c.until(lambda: fair_sharing(c, LOCAL_QUEUES, "lq"), None)

    run_virtual(scenario())

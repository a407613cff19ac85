"""Status writes are what an admission costs: few per Workload, none in the way of an admission, all true in the end.

A crowd of Workloads without Jobs, as Kueue's own benchmark has them (test/performance/scheduler): a played runner ends
each some time after its admission.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.messages import KEPT_FOR_HEAD_MESSAGE
from queue_manager.configuration import loads
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.scheduler.write_queue import SLOTS
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import API, NS, Cluster, condition
from tests.local.queue.invariants import at_rest

LATENCY = 0.004  # s, of a write
PERIOD = 30.0  # s, pendingReasonPeriod
FULL = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"


class Slow(Relay):
    """A server that takes its time for a write, and remembers what was written about Workloads."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.written: list[tuple[str, str]] = []  # (name, reason of QuotaReserved), in order

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            await asyncio.sleep(LATENCY)
        if request.method == "PATCH" and "/workloads/" in request.path:
            status = msgspec.json.decode(request.body or b"{}").get("status", {})
            said = next((c["reason"] for c in status.get("conditions", ()) if c["type"] == "QuotaReserved"), "")
            self.written.append((request.path.split("/")[-2], said))
        return await super().request(request)


class Crowd:
    """A cluster with Workloads that are ended by a runner."""

    def __init__(self, world: World, lines: list[Slow]) -> None:
        self.world = world
        self.cluster = Cluster(world, {})
        self._lines = lines
        self._ends: dict[str, asyncio.Task[None]] = {}

    @property
    def written(self) -> list[tuple[str, str]]:
        return self._lines[-1].written

    async def create(self, name: str, cpu: int, *, priority: int = 0, runs: float = 3600.0, queue: str = "lq") -> None:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {
            "queueName": queue,
            "priority": priority,
            "active": True,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        }
        meta = {"name": name, "namespace": NS, "annotations": {"runs": str(runs)}}
        await self.world.client.create(WORKLOADS, NS, {**API, "kind": "Workload", "metadata": meta, "spec": spec})

    async def run(self) -> None:
        """End each Workload when it has been admitted for as long as it runs."""
        read = 0
        while True:
            lines, read = self.world.history[read:], len(self.world.history)
            for line in lines:
                if line.startswith(b"MODIFIED workloads"):
                    self._admitted(msgspec.json.decode(line.split(b" ", 2)[2]))
            await asyncio.sleep(0.01)

    def _admitted(self, workload: dict[str, Any]) -> None:
        name, meta = workload["metadata"]["name"], workload["metadata"]
        admitted = (condition(workload["status"], "Admitted") or ("",))[0] == "True"
        if not admitted and name in self._ends:
            self._ends.pop(name).cancel()
        elif admitted and name not in self._ends:
            self._ends[name] = asyncio.create_task(self._end(name, float(meta["annotations"]["runs"])))

    async def _end(self, name: str, after: float) -> None:
        await asyncio.sleep(after)
        now = self.world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": now}
        found = await self.world.client.get(WORKLOADS, NS, name)
        status = {"conditions": [*found["status"]["conditions"], done]}
        await self.world.client.patch(WORKLOADS, NS, name, {"status": status}, subresource="status")

    async def finished(self) -> int:
        found = await self.world.client.list(WORKLOADS, NS)
        return sum(condition(w.get("status", {}), "Finished") is not None for w in found)

    async def message(self, name: str) -> str:
        found = condition((await self.world.client.get(WORKLOADS, NS, name)).get("status", {}), "QuotaReserved")
        return found[2] if found is not None else ""

    def writes(self) -> Counter[str]:
        """Status writes of Workloads by cause, as they are counted in the metrics."""
        name = "sluice_workload_status_writes_total"
        found = Counter({c.value: int(self.world.metrics.value(name, {"cause": c.value})) for c in Cause})
        return +found


@asynccontextmanager
async def crowd(config: str = "") -> AsyncIterator[Crowd]:
    lines: list[Slow] = []

    def wrap(transport: Transport) -> Transport:
        lines.append(Slow(transport))
        return lines[-1]

    kinds = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    async with World(1, None, loads(kinds + config), separate_queue=True, wrap_transport=wrap) as world:
        found = Crowd(world, lines)
        runner = asyncio.create_task(found.run())
        yield found
        runner.cancel()


async def three_queues(c: Cluster) -> None:
    """Three ClusterQueues of 20 cpus each in one cohort."""
    await c.queues("20", cohortName="co")
    found = await c.client.get(CLUSTER_QUEUES, "", "cq")
    for number in (2, 3):
        tree = {**API, "kind": "ClusterQueue", "metadata": {"name": f"cq{number}"}, "spec": found["spec"]}
        await c.create(CLUSTER_QUEUES, tree)
        await c.local_queue(f"lq{number}", f"cq{number}")


def test_a_crowd_costs_at_most_two_status_writes_per_workload() -> None:
    kinds = (("small", 35, 1, 50, 0.2), ("medium", 10, 5, 100, 0.5), ("large", 5, 20, 200, 1.0))

    async def arrive(c: Crowd, queue: str, name: str, count: int, cpu: int, priority: int, runs: float) -> None:
        for number in range(count):
            await c.create(f"{name}-{queue}-{number}", cpu, priority=priority, runs=runs, queue=queue)
            await asyncio.sleep(0.05)

    async def scenario() -> None:
        async with crowd() as c:
            await three_queues(c.cluster)
            arrivals = [
                arrive(c, queue, name, count, cpu, priority, runs)
                for queue in ("lq", "lq2", "lq3")
                for name, count, cpu, priority, runs in kinds
            ]
            await asyncio.gather(*arrivals)
            await c.cluster.until(c.finished, 150, seconds=120)
            await asyncio.sleep(2 * PERIOD)
            writes = c.writes()
            assert writes["admission"] == 150
            assert writes.total() == len(c.written) <= 2 * 150
            assert set(writes) <= {"admission", "reason", "reason_refresh"}
            at_rest(c.world)

    run_virtual(scenario())


def test_fitting_workloads_are_admitted_before_the_others_are_explained() -> None:
    """150 Workloads that fit arrive after 150 that do not, each of another size."""

    async def scenario() -> None:
        async with crowd() as c:
            await c.cluster.queues("150", stopPolicy="Hold")
            for number in range(150):
                await c.create(f"big{number}", 151 + number, priority=1)
            for number in range(150):
                await c.create(f"fits{number}", 1)
            await asyncio.sleep(PERIOD)
            c.written.clear()
            await c.cluster.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "None"}})
            await c.cluster.until(lambda: admitted(c), 150)
            last = max(place for place, (_, said) in enumerate(c.written) if said == "QuotaReserved")
            explained = sum(said != "QuotaReserved" for _, said in c.written[:last])
            assert explained <= 25, "a first burst of explanations, and no more"
            await asyncio.sleep(2 * PERIOD)
            assert await messages_of(c, "big") == {"ExceedsMaxQuota": 150}
            at_rest(c.world)

    run_virtual(scenario())


async def admitted(c: Crowd) -> int:
    found = await c.world.client.list(WORKLOADS, NS)
    return sum((condition(w.get("status", {}), "Admitted") or ("",))[0] == "True" for w in found)


async def messages_of(c: Crowd, prefix: str) -> Counter[str]:
    found = [w for w in await c.world.client.list(WORKLOADS, NS) if w["metadata"]["name"].startswith(prefix)]
    return Counter((condition(w.get("status", {}), "QuotaReserved") or ("", ""))[1] for w in found)


def test_changed_numbers_are_written_once_in_a_period_and_are_right_after_it() -> None:
    async def scenario() -> None:
        async with crowd() as c:
            await c.cluster.queues("10")
            for number in range(10):
                await c.create(f"one{number}", 1, runs=2.0 + number)
            await c.cluster.until(lambda: admitted(c), 10)
            await c.create("all", 10)
            await c.cluster.until(lambda: c.message("all"), FULL.format(10))
            for number in range(10, 16):  # they go on: `all` never fits
                await c.create(f"one{number}", 1, priority=1, runs=3600.0)
            await asyncio.sleep(20)
            assert sum(name == "all" for name, _ in c.written) <= 2
            await asyncio.sleep(PERIOD)
            assert await c.message("all") == FULL.format(6)
            assert 2 <= sum(name == "all" for name, _ in c.written) <= 3
            assert 1 <= c.writes()["reason_refresh"] <= 2
            revision = c.world.store.revision
            await asyncio.sleep(3 * PERIOD)
            assert c.world.store.revision == revision, "nothing is written at rest"

    run_virtual(scenario())


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_numbers_are_right_a_period_after_others_have_taken_quota(strategy: str) -> None:
    async def scenario() -> None:
        async with crowd() as c:
            await c.cluster.queues("3", queueingStrategy=strategy)
            await c.create("runs", 1)
            await c.create("all", 3)
            await c.cluster.until(lambda: c.message("all"), FULL.format(1))
            for number in range(2):
                await c.create(f"one{number}", 1, priority=1)
            await c.cluster.until(lambda: admitted(c), 3)
            await asyncio.sleep(1.05 * PERIOD)
            assert await c.message("all") == FULL.format(3)
            assert c.writes()["reason_refresh"] == 1
            revision = c.world.store.revision
            await asyncio.sleep(3 * PERIOD)
            assert c.world.store.revision == revision, "nothing is written at rest"

    run_virtual(scenario())


def test_a_workload_that_is_held_back_by_backfilling_says_so_at_once() -> None:
    """The reason WaitingForQuota stays; that quota is kept for another one is no change of numbers."""

    async def scenario() -> None:
        async with crowd("backfill: {headAge: 5s}\n") as c:
            await c.cluster.queues("4")
            await c.create("short", 2, runs=20.0)
            await c.create("long", 1)
            await c.cluster.until(lambda: admitted(c), 2)
            await c.create("all", 4)
            await c.create("behind", 2)
            await c.cluster.until(lambda: c.message("behind"), FULL.format(1))
            await c.cluster.until(c.finished, 1)
            ended = c.world.clock.now()
            await c.cluster.until(lambda: c.message("behind"), KEPT_FOR_HEAD_MESSAGE)
            assert (c.world.clock.now() - ended).total_seconds() < 1
            assert c.writes()["reason_refresh"] == 0

    run_virtual(scenario())


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_queue_that_is_stopped_for_an_instant_leaves_the_reason_as_it_was(strategy: str) -> None:
    """The scheduler refuses `all` again before the life cycle has written that its queue was stopped."""

    async def scenario() -> None:
        async with crowd() as c:
            await c.cluster.queues("2", strategy=strategy)
            await c.create("runs", 1)
            await c.create("all", 2)
            await c.cluster.until(lambda: c.message("all"), FULL.format(1))
            for policy in ("Hold", "None") * 2:
                await c.cluster.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": policy}})
            await asyncio.sleep(5)
            assert await c.message("all") == FULL.format(1)
            at_rest(c.world)

    run_virtual(scenario())


def test_without_a_period_each_change_of_the_numbers_is_written() -> None:
    async def scenario() -> None:
        async with crowd("pendingReasonPeriod: 0s\n") as c:
            await c.cluster.queues("3")
            for number in range(2):
                await c.create(f"one{number}", 1, runs=2.0 + number)
            await c.cluster.until(lambda: admitted(c), 2)
            await c.create("all", 3)
            for missing in (2, 1):
                await c.cluster.until(lambda missing=missing: c.message("all"), FULL.format(missing))
            await c.cluster.until(lambda: admitted(c), 3)
            assert c.writes()["reason"] == 2

    run_virtual(scenario())


def test_a_victim_whose_admission_is_not_written_yet_costs_no_write() -> None:
    """Ten admissions more than are written at once; then one Workload preempts them all."""

    async def scenario() -> None:
        async with crowd() as c:
            quota = str(SLOTS + 10)
            await c.cluster.queues(quota, preemption={"withinClusterQueue": "LowerPriority"})
            lows = [f"low-{number}" for number in range(SLOTS + 10)]
            for name in lows:
                await c.create(name, 1)
            await c.create("high", SLOTS + 10, priority=10)
            await asyncio.sleep(5)
            before = c.written[: c.written.index(("high", "QuotaReserved"))]
            assert {said for _, said in before} == {"QuotaReserved", "PendingEvaluation"}, "none is explained yet"
            evicted = [name for name in lows if await is_evicted(c, name)]
            assert len(evicted) == SLOTS
            assert Counter(c.writes())[Cause.ADMISSION.value] == SLOTS + 1, "and no other was admitted"
            at_rest(c.world)

    run_virtual(scenario())


def test_what_is_released_shortly_after_another_is_tried_together() -> None:
    """Twenty Workloads end within 200 ms. One waits for 15 of their 20 cpus, another for the first release."""

    async def scenario() -> None:
        async with crowd() as c:
            await c.cluster.queues("20", queueingStrategy="BestEffortFIFO")
            for number in range(20):
                await c.create(f"runs-{number}", 1, runs=5 + number / 100)
            await c.cluster.until(lambda: admitted(c), 20)
            await c.create("waits", 15)
            await c.create("next", 1)
            tried = "kueue_admission_attempts_total", {"result": "inadmissible"}
            await asyncio.sleep(4)
            before = c.world.metrics.value(*tried)
            while not await c.finished():
                await asyncio.sleep(0.001)
            await asyncio.sleep(4 * LATENCY)
            assert await admitted(c) == 21, "the first release is acted on immediately"
            await asyncio.sleep(2)
            assert await admitted(c) == 22
            assert c.world.metrics.value(*tried) - before <= 1, "no try before there is enough"
            at_rest(c.world)

    run_virtual(scenario())


def test_released_quota_tries_none_of_a_thousand_workloads_that_need_more() -> None:
    """A thousand Workloads of different sizes wait. A release that cannot help them has only their messages updated."""

    async def scenario() -> None:
        async with crowd() as c:
            await c.cluster.queues("2000")
            await c.create("runs", 1900)
            for number in range(100):
                await c.create(f"one{number}", 1, runs=30 + 3 * number)
            await c.cluster.until(lambda: admitted(c), 101)
            for number in range(1000):
                await c.create(f"waits{number}", 1000 + number)
            tried = "kueue_admission_attempts_total", {"result": "inadmissible"}
            await c.cluster.until(lambda: attempts(c), 1000)
            await asyncio.sleep(PERIOD)
            before = c.world.metrics.value(*tried)
            await asyncio.sleep(2 * PERIOD)
            assert await c.finished() >= 20, "quota is released again and again"
            assert 1500 <= c.world.metrics.value(*tried) - before <= 2500, "each Workload once in a period"
            await c.create("fits", 1)
            await asyncio.sleep(0.5)
            assert await admitted(c) >= 102, "the others do not delay one that fits"

    async def attempts(c: Crowd) -> int:
        return int(c.world.metrics.value("kueue_admission_attempts_total", {"result": "inadmissible"}))

    run_virtual(scenario())


async def is_evicted(c: Crowd, name: str) -> bool:
    status = (await c.world.client.get(WORKLOADS, NS, name)).get("status", {})
    found = condition(status, "Evicted")
    return found is not None and found[0] == "True"


@pytest.mark.parametrize(
    ("backlog", "writes"),
    [(False, range(9, 16)), (True, range(2, 6))],  # of each queue, within 12 seconds of changes and 2 at rest
)
def test_the_status_of_a_queue_is_written_rarely_and_exact_at_rest(
    backlog: bool, writes: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most once per second and queue; during a backlog of urgent writes once in ten."""
    monkeypatch.setattr(Runtime, "is_backlogged", lambda runtime: backlog)

    async def scenario() -> None:
        async with crowd() as c:
            await c.cluster.queues("5")
            begun = len(c.world.history)
            for number in range(40):
                await c.create(f"one{number}", 1, runs=1.5)
                await asyncio.sleep(0.2)
            await c.cluster.until(c.finished, 40)
            monkeypatch.setattr(Runtime, "is_backlogged", lambda runtime: False)
            await asyncio.sleep(2)
            times = Counter(
                line.split(b" ")[1] for line in c.world.history[begun:] if b"queues.kueue.x-k8s.io " in line[:60]
            )
            assert times[b"clusterqueues.kueue.x-k8s.io"] in writes
            assert times[b"localqueues.kueue.x-k8s.io"] in writes
            status = (await c.world.client.get(CLUSTER_QUEUES, "", "cq"))["status"]
            assert (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]) == (0, 0, 0)

    run_virtual(scenario())

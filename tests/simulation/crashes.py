"""Plays a scenario in which the queue's controllers die at one of their writes and are restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from queue_manager.configuration import loads
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import RUNS_WITHOUT_END, Cluster
from tests.local.queue.compare import without_uids
from tests.local.queue.facts import facts, name_of
from tests.local.queue.invariants import History, at_rest

NEVER = PodScript(ready_after=None, ends_after=None)
SHORT = PodScript(ready_after=0.2, ends_after=2.0)
CONFIG = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: 3s, requeuingStrategy: {backoffBaseSeconds: 1, backoffLimitCount: 1}}
"""
TIMES = ("deletionTimestamp", "status.startTime", "status.completionTime", "status.accumulatedPastExecutionTimeSeconds")
DOWN_SECONDS = 0.5  # s
SAMPLED_EVERY = 6
QUIET_SECONDS = 40.0  # s after the scenario, longer than anything that is under way


class Death(NamedTuple):
    """At which write of the queue's controllers they die; None: they live."""

    at: int | None = None
    applied: bool = False  # whether this last write reaches the store


class DyingTransport(Relay):
    """A transport whose program dies at one of its writes."""

    def __init__(self, inner: Transport, counter: WriteCounter) -> None:
        super().__init__(inner)
        self._counter = counter
        self._dead = False

    async def request(self, request: Request) -> Response:
        if self._dead:
            raise ConnectionAbortedError("dead")
        counts = request.method != "GET" and "events" not in request.path.split("/")
        dies = counts and self._counter.is_due()
        if dies and not self._counter.death.applied:
            self._die()
        answer = await self._inner.request(request)
        if dies:
            self._die()
        return answer

    def _die(self) -> None:
        self._dead = True
        self._counter.struck.set()
        raise ConnectionAbortedError("dead")


class WriteCounter:
    """Counts writes over all lives; is_due once."""

    def __init__(self, death: Death) -> None:
        self.death = death
        self.writes = 0
        self.struck = asyncio.Event()

    def is_due(self) -> bool:
        self.writes += 1
        return self.death.at == self.writes - 1 and not self.struck.is_set()


Scenario = Callable[[Cluster], Awaitable[None]]


def is_true(workload: dict[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in workload["status"].get("conditions") or ())


async def until_workload(c: Cluster, job: str, question: Callable[[dict[str, Any]], bool]) -> None:
    async def answer() -> bool:
        workload = await c.workload(job)
        return question({"status": {}, **workload})

    await c.until(answer, True)


class End(NamedTuple):
    objects: dict[str, Any]
    writes: int
    struck: bool


async def play(scenario: Scenario, death: Death, quota: int = 2) -> End:
    """The scenario in a world of its own; its end, checked. `quota`: cpus of all ClusterQueues together."""
    outcomes: dict[str, PodScript] = {}

    def script(pod: Any) -> PodScript:
        return outcomes.get(pod.metadata.name.rsplit("-", 1)[0], RUNS_WITHOUT_END)

    counter = WriteCounter(death)
    async with World(
        1, script, loads(CONFIG), separate_queue=True, wrap_transport=lambda t: DyingTransport(t, counter)
    ) as world:
        restart = asyncio.create_task(_restart(world, counter))
        c = Cluster(world, outcomes)
        await scenario(c)
        await asyncio.sleep(QUIET_SECONDS)
        revision = world.store.revision
        await asyncio.sleep(QUIET_SECONDS)
        assert world.store.revision == revision, "L8: writes at rest"
        at_rest(world)
        restart.cancel()
        History(quota=quota).check(world.history)
        return End(_objects(world), counter.writes, counter.struck.is_set())


async def _restart(world: World, counter: WriteCounter) -> None:
    await counter.struck.wait()
    await world.kill()
    await asyncio.sleep(DOWN_SECONDS)
    await world.start()


def _objects(world: World) -> dict[str, Any]:
    """What is there, without times."""
    result = {}
    for resource in (
        "workloads.kueue.x-k8s.io",
        "jobs.batch",
        "clusterqueues.kueue.x-k8s.io",
        "localqueues.kueue.x-k8s.io",
    ):
        for stored in world.store.scan(str(resource)):
            tree = msgspec.json.decode(stored.data)
            table = {k: without_uids(v) for k, v in facts(tree).items() if k not in TIMES}
            table.get("template.labels", {}).pop("controller-uid", None)
            table.get("template.labels", {}).pop("batch.kubernetes.io/controller-uid", None)
            table.get("labels", {}).pop("kueue.x-k8s.io/job-uid", None)
            result[name_of(tree)] = table
    return result


def sampled(first: int) -> Callable[[int, bool], bool]:
    """Choose every sixth write, by turns before and after it, from the write `first` on."""
    return lambda at, applied: at % SAMPLED_EVERY == first % SAMPLED_EVERY and applied == bool(at % 2)


def crash_at_writes(scenario: Scenario, is_chosen: Callable[[int, bool], bool] = lambda at, applied: True) -> None:
    """Play the scenario with a crash at each write that is chosen, and compare its end with the undisturbed one.

    `is_chosen`: whether to crash at this write, and before or after it is applied.
    """
    undisturbed = run_virtual(play(scenario, Death()))
    for at in range(undisturbed.writes):
        for applied in (False, True):
            if is_chosen(at, applied):
                end = run_virtual(play(scenario, Death(at, applied)))
                assert end.struck
                assert end.objects == undisturbed.objects, f"killed {'after' if applied else 'before'} write {at}"

"""The queue's controllers are killed before and after every single write and restarted, and nothing is lost.

Each scenario first runs undisturbed, and its writes are counted. Then it runs again for each write; all controllers of
the queue die right before or right after that write reaches the store, and start anew half a second later. The end must
be the same, and the invariants must hold all the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from queue_manager.api.resources import JOBS, WORKLOADS
from queue_manager.configuration import loads
from queue_manager.engine.transport import Relay, Request, Response, Transport
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, RUNS_WITHOUT_END, Cluster
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
DOWN_SECONDS = 0.5
QUIET_SECONDS = 40.0  # after the scenario; longer than any timer


class Death(NamedTuple):
    """The write of the queue's controllers at which they die; None: they live."""

    at: int | None = None
    applied: bool = False  # whether the write reaches the store


class DyingTransport(Relay):
    """A transport whose program dies at one of its writes."""

    def __init__(self, inner: Transport, fate: WriteCounter) -> None:
        super().__init__(inner)
        self._fate = fate
        self._dead = False

    async def request(self, request: Request) -> Response:
        if self._dead:
            raise ConnectionAbortedError("dead")
        counts = request.method != "GET" and "events" not in request.path.split("/")
        dies = counts and self._fate.is_due()
        if dies and not self._fate.death.applied:
            self._die()
        answer = await self._inner.request(request)
        if dies:
            self._die()
        return answer

    def _die(self) -> None:
        self._dead = True
        self._fate.struck.set()
        raise ConnectionAbortedError("dead")


class WriteCounter:
    """Counts the writes of all restarts; triggers the death once."""

    def __init__(self, death: Death) -> None:
        self.death = death
        self.writes = 0
        self.struck = asyncio.Event()

    def is_due(self) -> bool:
        self.writes += 1
        return self.death.at == self.writes - 1 and not self.struck.is_set()


Story = Callable[[Cluster], Awaitable[None]]


async def admitted_and_finished(c: Cluster) -> None:
    c.outcomes["a"] = SHORT
    await c.submit("a")


async def evicted_and_requeued(c: Cluster) -> None:
    c.outcomes |= {"a": NEVER, "b": NEVER}
    await c.submit("a", "2")
    await c.submit("b", "1")
    await _until_workload(c, "a", lambda w: (w["status"].get("requeueState") or {}).get("count") == 1)
    c.outcomes |= {"a": SHORT, "b": SHORT}


async def deactivated_and_reactivated(c: Cluster) -> None:
    c.outcomes["a"] = NEVER
    await c.submit("a")
    await _until_workload(c, "a", lambda w: w["spec"]["active"] is False and "admission" not in w["status"])
    c.outcomes["a"] = SHORT
    await _set_active(c, "a", True)


async def deactivated_and_reactivated_by_its_user(c: Cluster) -> None:
    await c.submit("a")
    await _until_workload(c, "a", lambda w: _is(w, "PodsReady"))
    await _set_active(c, "a", False)
    await _until_workload(c, "a", lambda w: "admission" not in w["status"])
    await _set_active(c, "a", True)


async def deleted_while_another_waits(c: Cluster) -> None:
    await c.submit("a", "2")
    await c.submit("b", "2")
    await _until_workload(c, "a", lambda w: _is(w, "PodsReady"))
    await c.client.delete(JOBS, NS, "a", propagation="Background")


STORIES: tuple[Story, ...] = (
    admitted_and_finished,
    evicted_and_requeued,
    deactivated_and_reactivated,
    deactivated_and_reactivated_by_its_user,
    deleted_while_another_waits,
)


def _is(workload: dict[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in workload["status"].get("conditions") or ())


async def _until_workload(c: Cluster, job: str, question: Callable[[dict[str, Any]], bool]) -> None:
    async def answer() -> bool:
        workload = await c.workload(job)
        return question({"status": {}, **workload})

    await c.until(answer, True)


async def _set_active(c: Cluster, job: str, active: bool) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    await c.client.patch(WORKLOADS, NS, name, {"spec": {"active": active}})


class End(NamedTuple):
    objects: dict[str, Any]
    writes: int
    struck: bool


async def play(scenario: Story, death: Death) -> End:
    """Run the scenario in a world of its own; returns its end, checked."""
    outcomes: dict[str, PodScript] = {}

    def script(pod: Any) -> PodScript:
        return outcomes.get(pod.metadata.name.rsplit("-", 1)[0], RUNS_WITHOUT_END)

    fate = WriteCounter(death)
    async with World(
        1, script, loads(CONFIG), separate_queue=True, wrap_transport=lambda t: DyingTransport(t, fate)
    ) as world:
        resurrection = asyncio.create_task(_restart(world, fate))
        c = Cluster(world, outcomes)
        await c.queues("2")
        await scenario(c)
        await asyncio.sleep(QUIET_SECONDS)
        revision = world.store.revision
        await asyncio.sleep(QUIET_SECONDS)
        assert world.store.revision == revision, "L8: writes at rest"
        at_rest(world)
        resurrection.cancel()
        History(quota=2).check(world.history)
        return End(_objects(world), fate.writes, fate.struck.is_set())


async def _restart(world: World, fate: WriteCounter) -> None:
    await fate.struck.wait()
    await world.kill()
    await asyncio.sleep(DOWN_SECONDS)
    await world.start()


def _objects(world: World) -> dict[str, Any]:
    """All objects at the end, without times."""
    result = {}
    for resource in (
        "workloads.kueue.x-k8s.io",
        "jobs.batch",
        "clusterqueues.kueue.x-k8s.io",
        "localqueues.kueue.x-k8s.io",
    ):
        for stored in world.store.scan(str(resource)):
            tree = msgspec.json.decode(stored.data)
            table = {k: v for k, v in facts(tree).items() if k not in TIMES}
            table.get("template.labels", {}).pop("controller-uid", None)
            table.get("template.labels", {}).pop("batch.kubernetes.io/controller-uid", None)
            table.get("labels", {}).pop("kueue.x-k8s.io/job-uid", None)
            result[name_of(tree)] = table
    return result


@pytest.mark.parametrize("scenario", STORIES, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_any_write_does_not_change_the_end(scenario: Story) -> None:
    undisturbed = run_virtual(play(scenario, Death()))
    for at in range(undisturbed.writes):
        for applied in (False, True):
            end = run_virtual(play(scenario, Death(at, applied)))
            assert end.struck
            assert end.objects == undisturbed.objects, f"killed {'after' if applied else 'before'} write {at}"

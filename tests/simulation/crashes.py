"""Plays a scenario in which the queue's controllers die at one of their writes and are restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from queue_manager.api import keys
from queue_manager.api.api_resources import LOCAL_QUEUES
from queue_manager.configuration import loads
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.local.storage.store import StoredChange
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, RUNS_WITHOUT_END, Cluster
from tests.local.queue.compare import without_uids
from tests.local.queue.facts import facts, name_of
from tests.local.queue.invariants import History, Tree, at_rest, condition, is_true
from tests.simulation.cohort_invariants import KILLED, CohortHistory, Write

NEVER = PodScript(ready_after=None, ends_after=None)
SHORT = PodScript(ready_after=0.2, ends_after=2.0)
LONG = PodScript(ready_after=0.2, ends_after=6.0)
SLOW_TO_STOP = PodScript(ready_after=0.2, ends_after=4.0, stops_within=1.5)
CONFIG = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: 3s, requeuingStrategy: {backoffBaseSeconds: 1, backoffLimitCount: 1}}
"""
TIMES = ("deletionTimestamp", "status.startTime", "status.completionTime", "status.accumulatedPastExecutionTimeSeconds")
DOWN_SECONDS = 0.5  # s
SAMPLED_EVERY = 9
QUIET_SECONDS = 40.0  # s after the scenario, longer than anything that is under way


class Death(NamedTuple):
    """At which write of the queue's controllers they die; None: they live."""

    at: int | None = None
    applied: bool = False  # whether this last write reaches the store


class Rules(NamedTuple):
    """How a scenario is played, and by what it is judged."""

    settings: str = ""  # of the configuration, beside CONFIG
    quota: int = 2  # cpus of all ClusterQueues together
    in_cohorts: bool = False  # whether it is judged by `CohortHistory` as well, and by what follows
    admissions: tuple[str, ...] = ()  # the Jobs in the order in which they get quota
    preemptions: tuple[str, ...] = ()  # the victims and the rules, sorted


ONE_QUEUE = Rules()


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


# --- what scenarios consist of ---


async def classes(c: Cluster) -> None:
    for name, value in (("low", 10), ("mid", 50), ("high", 100)):
        await c.apply_class(name, value)


async def submit(c: Cluster, name: str, cpu: str, priority: str, queue: str = "lq", longest: int | None = None) -> None:
    """`longest`: the declared maximum execution time in seconds."""
    declared = {} if longest is None else {keys.MAX_EXEC_TIME: str(longest)}
    await c.submit(name, cpu, queue=queue, labels={"kueue.x-k8s.io/priority-class": priority, **declared})


async def hold(c: Cluster, queue: str) -> None:
    await c.client.patch(LOCAL_QUEUES, NS, queue, {"spec": {"stopPolicy": "Hold"}})


async def release(c: Cluster, queue: str) -> None:
    await c.client.patch(LOCAL_QUEUES, NS, queue, {"spec": {"stopPolicy": "None"}})


async def runs(c: Cluster, *jobs: str) -> None:
    for job in jobs:
        await until_workload(c, job, lambda w: is_true(w, "PodsReady"))


async def is_evicted(c: Cluster, job: str) -> None:
    await until_workload(c, job, lambda w: is_true(w, "Evicted"))


async def is_finished(c: Cluster, job: str) -> None:
    await until_workload(c, job, lambda w: is_true(w, "Finished"))


async def waits_for(c: Cluster, job: str, reason: str) -> None:
    """Until the Workload is pending for this reason."""
    await until_workload(c, job, lambda w: condition(w, "QuotaReserved").get("reason") == reason)


async def until_workload(c: Cluster, job: str, question: Callable[[dict[str, Any]], bool]) -> None:
    async def answer() -> bool:
        workload = await c.workload(job)
        return question({"status": {}, **workload})

    await c.until(answer, True)


# --- playing them ---


class End(NamedTuple):
    objects: dict[str, Any]
    writes: int
    struck: bool


async def play(scenario: Scenario, death: Death, rules: Rules) -> End:
    """The scenario in a world of its own; its end, checked."""
    outcomes: dict[str, PodScript] = {}

    def script(pod: Any) -> PodScript:
        return outcomes.get(pod.metadata.name.rsplit("-", 1)[0], RUNS_WITHOUT_END)

    counter, config = WriteCounter(death), loads(CONFIG + rules.settings)
    async with World(
        1, script, config, separate_queue=True, wrap_transport=lambda t: DyingTransport(t, counter)
    ) as world:
        writes = _timed(world)
        restart = asyncio.create_task(_restart(world, counter, writes))
        c = Cluster(world, outcomes)
        await scenario(c)
        await asyncio.sleep(QUIET_SECONDS)
        revision = world.store.revision
        await asyncio.sleep(QUIET_SECONDS)
        assert world.store.revision == revision, "L8: writes at rest"
        at_rest(world)
        restart.cancel()
        History(quota=rules.quota).check(world.history)
        if rules.in_cohorts:
            Judge(0, sharing="fairSharing" in rules.settings).judge(rules, writes)
        return End(_objects(world), counter.writes, counter.struck.is_set())


class Judge(CohortHistory):
    """Checks the writes of a scenario, and collects which Jobs got quota and which were preempted, in their order."""

    def judge(self, rules: Rules, writes: list[Write]) -> None:
        self.admitted: list[str] = []
        self.preempted: list[str] = []
        self.play(writes)
        assert tuple(self.admitted) == rules.admissions
        assert tuple(sorted(self.preempted)) == rules.preemptions

    def _reserved(self, name: str, w: Tree) -> None:
        super()._reserved(name, w)
        self.admitted.append(_job_of(w))

    def _preempted(self, name: str, victim: Tree) -> None:
        super()._preempted(name, victim)
        self.preempted.append(f"{_job_of(victim)} {condition(victim, 'Preempted')['reason']}")


def _job_of(workload: Tree) -> str:
    return str(workload["metadata"]["ownerReferences"][0]["name"])


def _timed(world: World) -> list[Write]:
    """Collect the writes from now on with their times."""
    writes: list[Write] = []

    def record(change: StoredChange) -> None:
        line = change.type.encode() + b" " + change.resource.encode() + b" " + change.new.data
        writes.append(Write(world.clock.now(), line))

    world.store.subscribe(record)
    return writes


async def _restart(world: World, counter: WriteCounter, writes: list[Write]) -> None:
    await counter.struck.wait()
    writes.append(Write(world.clock.now(), KILLED))
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


def sampled(first: int, every: int = SAMPLED_EVERY) -> Callable[[int, bool], bool]:
    """Choose one of so many writes, by turns before and after it, from the write `first` on."""
    return lambda at, applied: at % every == first % every and applied == bool(at // every % 2)


def always(at: int, applied: bool) -> bool:
    return True


def crash_at_writes(
    scenario: Scenario, is_chosen: Callable[[int, bool], bool] = always, rules: Rules = ONE_QUEUE
) -> None:
    """Play the scenario with a crash at each write that is chosen, and compare its end with the undisturbed one.

    `is_chosen`: whether to crash at this write, and before or after it is applied.
    """
    undisturbed = run_virtual(play(scenario, Death(), rules))
    for at in range(undisturbed.writes):
        for applied in (False, True):
            if is_chosen(at, applied):
                try:
                    end = run_virtual(play(scenario, Death(at, applied), rules))
                    assert end.struck
                    assert end.objects == undisturbed.objects
                except AssertionError as error:
                    error.add_note(f"killed {'after' if applied else 'before'} write {at}")
                    raise

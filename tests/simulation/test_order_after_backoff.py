"""Which Workload gets freed quota: the first by requeuingStrategy.timestamp whose backoff is over (KEP-1282).

The whole system runs in virtual time with quota for one Job. The pods of several Jobs never become ready, so each is
admitted, evicted, backs off and is queued again. Every reservation in the store is checked against all Workloads that
were pending at that moment, by an independent implementation of the order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_manager.api.api_resources import WORKLOADS
from queue_manager.configuration import loads
from queue_manager.local.storage.store import StoredChange
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import Cluster, cluster
from tests.local.queue.invariants import condition, is_true, requeue_state
from tests.unit.queueing.builders import at, wire, workload
from tests.unit.queueing.builders import condition as condition_of

Tree = dict[str, Any]
SECONDS = 25  # enough for five attempts and their backoffs
OFFSET_SECONDS = 0.0377  # Jobs arrive between the times at which timers of the system are due


@dataclass
class Reservations:
    """Observes the store. `made` has each reservation: whose it is, and whose it should be."""

    world: World
    timestamp: str
    pending: dict[str, Tree] = field(default_factory=dict)  # by uid, as before the newest write
    made: list[tuple[str, str]] = field(default_factory=list)

    def on_change(self, change: StoredChange) -> None:
        if change.resource != str(WORKLOADS):
            return
        new = msgspec.json.decode(change.new.data)
        old = self.pending.pop(new["metadata"]["uid"], None)
        if old is not None and is_true(new, "QuotaReserved"):
            now = self.world.clock.now()
            able = [w for w in (old, *self.pending.values()) if not backs_off(w, now)]
            first = min(able, key=lambda w: rank(w, self.timestamp), default=None)
            self.made.append((job_of(new), job_of(first) if first is not None else "none"))
        if not is_true(new, "QuotaReserved"):
            self.pending[new["metadata"]["uid"]] = new


def backs_off(w: Tree, now: datetime) -> bool:
    at = requeue_state(w).get("requeueAt")
    return at is not None and datetime.fromisoformat(at) > now


def rank(w: Tree, timestamp: str) -> tuple[str, int]:
    evicted = condition(w, "Evicted")
    by_eviction = timestamp == "Eviction" and evicted.get("status") == "True"
    since = evicted["lastTransitionTime"] if by_eviction else w["metadata"]["annotations"]["sluice/job-created"]
    return since, int(w["metadata"]["annotations"]["sluice/sequence"])


def job_of(w: Tree) -> str:
    return str(w["metadata"]["ownerReferences"][0]["name"])


def config(timestamp: str, base: int, timeout: int) -> str:
    strategy = f"{{timestamp: {timestamp}, backoffBaseSeconds: {base}}}"
    return f"waitForPodsReady: {{timeout: {timeout}s, requeuingStrategy: {strategy}}}\n"


async def arrive(c: Cluster, arrivals: Iterable[tuple[str, float]]) -> None:
    loop = asyncio.get_running_loop()
    for name, second in arrivals:
        await asyncio.sleep(max(0.0, second - loop.time()))
        await c.submit(name)


def reservations(
    timestamp: str, base: int, stop: float, arrivals: list[float], *, timeout: int = 2, strategy: str = "BestEffortFIFO"
) -> list[tuple[str, str]]:
    """Run Jobs a, b, c ... that arrive at these seconds; their pods take `stop` seconds to end."""
    names = [chr(ord("a") + i) for i in range(len(arrivals))]
    outcome = PodScript(ready_after=None, ends_after=None, stops_within=stop)

    async def scenario() -> list[tuple[str, str]]:
        async with cluster(config(timestamp, base, timeout), **dict.fromkeys(names, outcome)) as c:
            assert isinstance(c.world, World)
            seen = Reservations(c.world, timestamp)
            c.world.store.subscribe(seen.on_change)
            await c.queues("1", strategy=strategy)
            await arrive(c, zip(names, sorted(arrivals), strict=True))
            await asyncio.sleep(SECONDS)
            return seen.made

    return run_virtual(scenario())


TENTHS = st.integers(0, 45).map(lambda tenths: tenths / 10)


@settings(max_examples=8, deadline=None)
@given(
    timestamp=st.sampled_from(["Creation", "Eviction"]),
    strategy=st.sampled_from(["BestEffortFIFO", "StrictFIFO"]),
    base=st.integers(0, 4),
    stop=TENTHS,
    timeout=st.integers(1, 3),
    arrivals=st.lists(TENTHS.map(lambda at: at + OFFSET_SECONDS), min_size=2, max_size=4),
)
@example("Creation", "BestEffortFIFO", 0, 0.0, 2, [OFFSET_SECONDS, 1 + OFFSET_SECONDS])
@example("Creation", "BestEffortFIFO", 1, 2.0, 2, [OFFSET_SECONDS, 1 + OFFSET_SECONDS])
@example("Creation", "StrictFIFO", 1, 1.0, 2, [OFFSET_SECONDS, 1 + OFFSET_SECONDS])
def test_quota_goes_to_the_first_whose_backoff_is_over(
    timestamp: str, strategy: str, base: int, stop: float, timeout: int, arrivals: list[float]
) -> None:
    made = reservations(timestamp, base, stop, arrivals, timeout=timeout, strategy=strategy)
    assert len(made) >= 2
    assert [got for got, _ in made] == [due for _, due in made]


def test_by_creation_the_evicted_older_workload_starves_the_younger() -> None:
    """Recorded of Kueue (c05); config/kueue_config.yaml warns of it."""
    for base, stop in ((0, 0.0), (1, 2.0)):
        tries = [got for got, _ in reservations("Creation", base, stop, [OFFSET_SECONDS, 1.3])]
        assert tries[:2] == ["a", "a"]
    assert {got for got, _ in reservations("Creation", 0, 0.0, [OFFSET_SECONDS, 1.3])} == {"a"}


def test_by_eviction_workloads_take_turns() -> None:
    tries = [got for got, _ in reservations("Eviction", 0, 0.0, [OFFSET_SECONDS, 1.3])]
    assert tries[:4] == ["a", "b", "a", "b"]


@pytest.mark.parametrize(("give_up", "eligible"), [("3s", False), ("4s", True)])
def test_a_workload_whose_give_up_after_ends_with_its_backoff_is_deactivated(give_up: str, eligible: bool) -> None:
    """Whether the scheduler or the life cycle acts first after requeueAt."""

    async def scenario() -> bool:
        kind = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        strategy = f"requeuingStrategy: {{giveUpAfter: {give_up}}}"
        async with World(1, None, loads(f"{kind}waitForPodsReady: {{{strategy}}}\n")) as world:
            evicted = workload(
                conditions=[condition_of("Evicted", "True", "PodsReadyTimeout", seconds=2)],
                status={
                    "requeueState": {"count": 1, "requeueAt": wire(3)},
                    "requeueHistory": {"since": wire(0)},
                },
            )
            return not world.queue.quota_cache.read(evicted).in_backoff(at(3))

    assert run_virtual(scenario()) is eligible


@pytest.mark.parametrize("timestamp", ["Creation", "Eviction"])
def test_preempted_workloads_do_not_alternate(timestamp: str) -> None:
    """Two older Workloads of low priority give way to one of high priority, once each, and then run one after another.

    KEP-1282 asks for this test: with `Creation` a preempted Workload is first in the queue again.
    """

    async def scenario() -> None:
        run = PodScript(ready_after=0.2, ends_after=5.0)
        async with cluster(config(timestamp, base=1, timeout=60), first=run, second=run, high=run) as c:
            await c.queues("2", preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"})
            await c.apply_class("high", 100)
            for name in ("first", "second"):
                await c.submit(name, "1")
            await c.until(c.running, ["first", "second"])
            await c.submit("high", "2", labels={"kueue.x-k8s.io/priority-class": "high"})
            await c.until(c.running, ["high"])
            await c.until(c.running, [], seconds=60)
            for name in ("first", "second", "high"):
                workload = await c.workload(name)
                assert is_true(workload, "Finished")
                rows = workload["status"].get("schedulingStats", {}).get("evictions", [])
                assert [(row["reason"], row["count"]) for row in rows] == ([] if name == "high" else [("Preempted", 1)])

    run_virtual(scenario())

"""Each rule by which a victim is chosen, as users and monitoring see it: conditions, Events and metrics."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from queue_manager.api import messages, reasons
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import RUNS_WITHOUT_END, Cluster, cluster, versions
from tests.local.queue.cluster import condition as condition_of
from tests.simulation.test_fair_sharing import SHARING, add_cohort, add_queue

PREEMPTIONS, EVICTIONS = "kueue_preempted_workloads_total", "kueue_evicted_workloads_total"
HIGH = {"kueue.x-k8s.io/priority-class": "high"}


class Case(NamedTuple):
    """A preemption: `victim` runs in queue `of` when `urgent` arrives in queue `lq` of ClusterQueue cq."""

    reason: str
    of: str  # the LocalQueue, which has the name of its ClusterQueue unless it is lq
    cq: tuple[str, dict[str, Any]]  # nominal cpu, and more of the spec
    other: tuple[str, dict[str, Any]]
    cohort: str = "0"  # cpu of its own
    victim: str = "2"  # cpu
    urgent: str = "1"
    config: str = ""


WITHIN = {"preemption": {"withinClusterQueue": "LowerPriority"}}
RECLAIM = {"preemption": {"reclaimWithinCohort": "Any"}}
BORROW = {"preemption": {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}}
CASES = (
    Case(reasons.IN_CLUSTER_QUEUE, "lq", ("2", WITHIN), ("0", {})),
    Case(reasons.IN_COHORT_RECLAMATION, "other", ("2", RECLAIM), ("0", {})),
    Case(reasons.IN_COHORT_RECLAIM_WHILE_BORROWING, "other", ("1", BORROW), ("0", {}), "1", urgent="2"),
    Case(reasons.IN_COHORT_FAIR_SHARING, "other", ("0", RECLAIM), ("0", {}), "3", "3", "1", config=SHARING),
)


async def preempt(c: Cluster, case: Case) -> None:
    """Let `urgent` preempt `victim`."""
    await c.apply_class("high", 100)
    await c.queues(case.cq[0], cohortName="all", **case.cq[1])
    await add_queue(c, "other", case.other[0], cohortName="all", **case.other[1])
    await add_cohort(c, "all", case.cohort)
    await c.submit("victim", cpu=case.victim, queue=case.of)
    await c.until(c.running, ["victim"])
    await c.submit("urgent", cpu=case.urgent, labels=HIGH)
    await c.until(c.running, ["urgent"], 60)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
def test_a_preemption_names_its_rule_in_conditions_events_and_metrics(case: Case) -> None:
    async def scenario() -> None:
        async with cluster(case.config) as c:
            await preempt(c, case)
            victim, urgent = await c.workload("victim"), await c.workload("urgent")
            meta = urgent["metadata"]
            paths = [f"/all/{name}" for name in ("cq", "cq" if case.of == "lq" else case.of)]
            text = messages.preempted(meta["uid"], meta["labels"]["kueue.x-k8s.io/job-uid"], case.reason, *paths)
            assert RULES[case.reason] in text
            stopped = [w for w in versions(c, WORKLOADS) if condition_of(w.get("status", {}), "Preempted")]
            preempted = [w for w in stopped if condition_of(w["status"], "Preempted")[0] == "True"]
            assert preempted[0]["metadata"]["name"] == victim["metadata"]["name"]
            assert condition_of(preempted[0]["status"], "Preempted") == ("True", case.reason, text)
            assert condition_of(preempted[0]["status"], "Evicted") == ("True", "Preempted", text)
            of_victim, of_urgent = [await c.events(w["metadata"]["name"]) for w in (victim, urgent)]
            priorities = messages.preemption_priorities(100, 0)
            assert ("Normal", "Preempted", f"{text}; {priorities}") in of_victim
            assert [kind for _, kind, _ in of_victim].count("EvictedDueToPreempted") == 1
            assert [kind for _, kind, _ in of_urgent].count("PreemptedWorkload") == 1
            counted = {r: c.world.metrics.value(PREEMPTIONS, labels(r)) for r in RULES}
            assert counted == {r: float(r == case.reason) for r in RULES}
            evicted = {"reason": "Preempted", "underlying_cause": "", "priority_class": ""}
            queue = "cq" if case.of == "lq" else case.of
            assert c.world.metrics.value(EVICTIONS, {"cluster_queue": queue, **evicted}) == 1

    run_virtual(scenario())


RULES = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
    "InCohortFairSharing": "Fair Sharing within the cohort",
}


def labels(reason: str) -> dict[str, str]:
    return {"preempting_cluster_queue": "cq", "reason": reason}


class SlowStatuses(Relay):
    """Answers writes of the status of Workloads `seconds` after they are done."""

    seconds = 0.0

    async def request(self, request: Request) -> Response:
        response = await super().request(request)
        if request.method == "PATCH" and "/workloads/" in request.path and request.path.endswith("/status"):
            await asyncio.sleep(self.seconds)
        return response


def test_a_preemptor_that_is_overtaken_while_its_victims_are_evicted_lacks_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report of the preemption comes when all evictions are written, and the refusal before that."""

    async def scenario() -> None:
        async with World(0, lambda pod: RUNS_WITHOUT_END, wrap_transport=SlowStatuses) as world:
            c = Cluster(world, {})
            await c.apply_class("high", 100)
            await c.apply_class("higher", 200)
            await c.queues("6", preemption={"withinClusterQueue": "LowerPriority"})
            for number in range(6):
                await c.submit(f"victim{number}")
            await c.until(lambda: _count(c), 6)
            monkeypatch.setattr(SlowStatuses, "seconds", 0.5)
            await c.submit("overtaken", cpu="6", labels=HIGH)
            await asyncio.sleep(0.2)
            await c.submit("first", cpu="6", labels={"kueue.x-k8s.io/priority-class": "higher"})
            await asyncio.sleep(5)
            reserved = await c.condition("overtaken", "QuotaReserved")
            assert reserved is not None
            assert reserved[:2] == ("False", reasons.WAITING_FOR_QUOTA)

    run_virtual(scenario())


async def _count(c: Cluster) -> int:
    return len(await c.running())

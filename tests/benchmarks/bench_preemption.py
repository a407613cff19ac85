"""How long a search for victims takes among 10 000 candidates, and the cycle around it.

Three shapes: victims are few (the usual case), half of all must go, and all but one. In one ClusterQueue, and in a
cohort of 100 whose queues have borrowed. In CPU time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from time import process_time

import msgspec

from queue_manager.api.types import ClusterQueue, ResourceFlavor, Workload
from queue_manager.scheduling.cycle import Preempt, run_cycle
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.preemption_candidates import Preemptor
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.victim_search import find_victims
from queue_manager.scheduling.workload_info import Info, info

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CPU, MEMORY = FlavorResource("default", "cpu"), FlavorResource("default", "memory")
CANDIDATES = 10_000
GI = 1 << 30


def main() -> None:
    print(f"{'queues':>7} {'cpus wanted':>12} {'victims':>8} {'search':>10} {'cycle':>10}")
    for queues in (1, 100):
        state = _full(queues)
        for wanted in (3, CANDIDATES // 2, CANDIDATES - 1):
            victims, search, cycle = measure(state, _pending(wanted))
            print(f"{queues:>7} {wanted:>12,} {victims:>8,} {search * 1e3:>7.1f} ms {cycle * 1e3:>7.1f} ms")


def measure(state: SchedulerState, head: Info) -> tuple[int, float, float]:
    """The number of victims, and the seconds of a search and of a whole cycle."""
    preemptor = _preemptor(state, head)
    (outcome,) = run_cycle(state, [("preemptor", head)], NOW)
    assert isinstance(outcome, Preempt)
    search = _best(lambda: find_victims(state, preemptor, NOW))
    cycle = _best(lambda: run_cycle(state, [("preemptor", head)], NOW))
    return len(outcome.victims), search, cycle


def _best(run: Callable[[], object]) -> float:
    def once() -> float:
        started = process_time()
        run()
        return process_time() - started

    return min(once() for _ in range(5))


def _full(queues: int) -> SchedulerState:
    """All quota belongs to the preemptor's ClusterQueue and is in use: by itself, or lent to the others."""
    state, rng = SchedulerState(), Random(1)
    state.namespaces["ns"] = {}
    state.flavors["default"] = msgspec.convert({"metadata": {"name": "default"}}, ResourceFlavor)
    state.set_queue(_queue("preemptor", CANDIDATES))
    names = ["preemptor"] if queues == 1 else [f"borrower-{i}" for i in range(queues)]
    for name in names[queues == 1 :]:
        state.set_queue(_queue(name, 0))
    some = _pending(1)
    for i in range(CANDIDATES):
        when = NOW + timedelta(seconds=rng.randrange(100_000))
        state.hold(
            Holding(
                uid=f"uid-{i}",
                key=some.key,
                cluster_queue=names[i % len(names)],
                queue=some.queue,
                usage={CPU: 1000, MEMORY: GI},
                admitted=True,
                priority=1000 if i == 0 else rng.randrange(100),
                queued_at=when,
                reserved_at=when,
            )
        )
    return state


def _queue(name: str, cpus: int) -> ClusterQueue:
    resources = [{"name": "cpu", "nominalQuota": str(cpus)}, {"name": "memory", "nominalQuota": f"{cpus}Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": resources}]}
    spec = {
        "resourceGroups": [group],
        "namespaceSelector": {},
        "cohortName": "team",
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"},
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterQueue)


def _pending(cpus: int) -> Info:
    containers = [{"name": "c", "resources": {"requests": {"cpu": str(cpus), "memory": f"{cpus}Gi"}}}]
    tree = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "uid-p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": "lq",
            "priority": 500,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": containers}}}],
        },
    }
    return info(msgspec.convert(tree, Workload))


def _preemptor(state: SchedulerState, head: Info) -> Preemptor:
    usage = {FlavorResource("default", name): amount for name, amount in head.pod_sets[0].total.items()}
    return Preemptor(head, state.queues["preemptor"], usage, frozenset(usage))

"""How long a search for victims takes among 10 000 candidates, and the cycle around it. In milliseconds of CPU.

Victims are few (the usual case), a tenth of the candidates, half, or all but one; or none suffice: too few of them may
be preempted.
They are in the preemptor's own ClusterQueue, or in a cohort of 100 others, which borrow: from the preemptor, which
reclaims its quota, or from the cohort, from which the preemptor borrows as well; the same with fair sharing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median
from time import process_time
from typing import NamedTuple

import msgspec

from queue_manager.api.types import ClusterQueue, Cohort, ResourceFlavor, Workload
from queue_manager.engine.process_tuning import tune_garbage_collector
from queue_manager.scheduling import fair_preemption, victim_search
from queue_manager.scheduling.cycle import run_cycle
from queue_manager.scheduling.fair_preemption import FINAL_SHARE, INITIAL_SHARE
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.preemption_candidates import Preemptor
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import Info, info

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CPU, MEMORY = FlavorResource("default", "cpu"), FlavorResource("default", "memory")
CANDIDATES = 10_000
QUEUES = 100
HALF = CANDIDATES // 2
GI = 1 << 30
RUNS = 9


class Case(NamedTuple):
    """Where the candidates are, and how many of them may be preempted at most."""

    name: str
    own: bool = False  # in the preemptor's ClusterQueue
    lends: bool = True  # the quota is that of the preemptor's ClusterQueue; else of the cohort
    strategies: tuple[str, ...] = ()  # of fair sharing
    weight: int = 1  # of the preemptor, for fair sharing
    protected: int = 1  # Workloads of a higher priority


CASES = (
    Case("own queue", own=True),
    Case("reclaim"),
    Case("borrow", lends=False),
    Case("fair, reclaim", strategies=(FINAL_SHARE, INITIAL_SHARE)),
    Case("fair, final share", lends=False, strategies=(FINAL_SHARE,), weight=1000),
    Case("fair, initial share", lends=False, strategies=(INITIAL_SHARE,), weight=1000),
)
TOO_FEW = (
    Case("own queue, half of them", own=True, protected=HALF),
    Case("reclaim, all but one"),
    Case("reclaim, half of them", protected=HALF),
    Case("borrow, half of them", lends=False, protected=HALF),
    Case("fair, half of them", strategies=(FINAL_SHARE, INITIAL_SHARE), protected=HALF),
    Case("fair, final share", lends=False, strategies=(FINAL_SHARE,), weight=110),
    Case("fair, initial share", lends=False, strategies=(INITIAL_SHARE,), weight=110),
    Case("fair, both", lends=False, strategies=(FINAL_SHARE, INITIAL_SHARE), weight=110),
)


def main() -> None:
    tune_garbage_collector()
    print(f"{'candidates':<32} {'cpus wanted':>12} {'victims':>8} {'search':>10} {'cycle':>10}")
    for case in CASES:
        state = _full(case)
        for wanted in (3, 1_000, HALF, CANDIDATES - 1):
            _show(case, state, wanted)
    for case in TOO_FEW:
        _show(case, _full(case), CANDIDATES if case.protected == 1 and case.lends else 6000)


def _show(case: Case, state: SchedulerState, wanted: int) -> None:
    victims, search, cycle = measure(state, _pending(wanted))
    print(f"{case.name:<32} {wanted:>12,} {victims:>8,} {search * 1e3:>7.1f} ms {cycle * 1e3:>7.1f} ms", flush=True)


def measure(state: SchedulerState, head: Info) -> tuple[int, float, float]:
    """The number of victims, and the median seconds of a search and of a whole cycle."""
    preemptor = _preemptor(state, head)
    find = fair_preemption.find_victims if state.fair_sharing else victim_search.find_victims
    search = _median(lambda: find(state, preemptor, NOW))
    cycle = _median(lambda: run_cycle(state, [("preemptor", head)], NOW))
    return len(find(state, preemptor, NOW)), search, cycle


def _median(run: Callable[[], object]) -> float:
    def once() -> float:
        started = process_time()
        run()
        return process_time() - started

    return median(once() for _ in range(RUNS))


def _full(case: Case) -> SchedulerState:
    """All quota is in use."""
    state, rng = SchedulerState(), Random(1)
    state.fair_sharing = case.strategies
    state.namespaces["ns"] = {}
    state.flavors["default"] = msgspec.convert({"metadata": {"name": "default"}}, ResourceFlavor)
    groups = [] if case.lends else [_group(CANDIDATES)]
    state.set_cohort(msgspec.convert({"metadata": {"name": "team"}, "spec": {"resourceGroups": groups}}, Cohort))
    state.set_queue(_queue("preemptor", CANDIDATES if case.lends else 0, case.weight, borrows=not case.lends))
    names = ["preemptor"] if case.own else [f"borrower-{i}" for i in range(QUEUES)]
    for name in names[case.own :]:
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
                usage={CPU: 1000, MEMORY: GI // (1 + i // QUEUES % 4)},
                admitted=True,
                priority=1000 if i < case.protected else rng.randrange(100),
                queued_at=when,
                reserved_at=when,
            )
        )
    return state


def _group(cpus: int) -> dict:
    resources = [{"name": "cpu", "nominalQuota": str(cpus)}, {"name": "memory", "nominalQuota": f"{cpus}Gi"}]
    return {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": resources}]}


def _queue(name: str, cpus: int, weight: int = 1, *, borrows: bool = False) -> ClusterQueue:
    spec = {
        "resourceGroups": [_group(cpus)],
        "namespaceSelector": {},
        "cohortName": "team",
        "fairSharing": {"weight": str(weight)},
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority" if borrows else "Never"},
        },
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterQueue)


def _pending(cpus: int) -> Info:
    containers = [{"name": "c", "resources": {"requests": {"cpu": str(cpus), "memory": "1Gi"}}}]
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
    node = state.queues["preemptor"].node
    needs = frozenset(fr for fr, amount in usage.items() if amount > node.available(fr))
    return Preemptor(head, state.queues["preemptor"], usage, needs)


if __name__ == "__main__":
    main()

"""Small clusters for the tests of preemption: ClusterQueues in cohorts, what runs in them, and one pending Workload."""

from __future__ import annotations

from datetime import datetime

from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.preemption_candidates import Preemptor
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.victim_search import find_victims
from tests.unit.queueing.builders import T0, at, cluster_queue, flavor, pending

CPU = FlavorResource("default", "cpu")


def queue(name="cq", cpu="4", cohort="", within="Never", reclaim="Never", borrowing=None, **more):
    """A ClusterQueue of one flavor with cpu. `borrowing`: {"policy": ...} of borrowWithinCohort."""
    preemption = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if borrowing is not None:
        preemption["borrowWithinCohort"] = borrowing
    quotas = more.pop("quotas", None) or {"default": {"cpu": cpu}}
    if cohort:
        more["cohortName"] = cohort
    return cluster_queue(name, quotas=quotas, preemption=preemption, **more)


def state(*queues, flavors=("default",)) -> SchedulerState:
    result = SchedulerState()
    result.namespaces["ns"] = {}
    for name in flavors:
        result.flavors[name] = flavor(name)
    for each in queues:
        result.set_queue(each)
    return result


def run(s, name, queue="cq", cpu=1, priority=0, reserved=0, created=0, evicted=False, usage=None, **more) -> Holding:
    """A Workload that holds quota; `cpu` in whole cpus of the default flavor, `usage` instead: {(flavor, resource)}.

    `more`: further fields of the Holding.
    """
    info = pending(name)
    amounts = {FlavorResource(*key): value for key, value in usage.items()} if usage else {CPU: cpu * 1000}
    holding = Holding(
        uid=info.uid,
        key=info.key,
        cluster_queue=queue,
        queue=info.queue,
        usage=amounts,
        admitted=True,
        priority=priority,
        queued_at=at(created),
        reserved_at=at(reserved),
        evicted=evicted,
        **more,
    )
    s.hold(holding)
    return holding


def preemptor(s, queue="cq", cpu=1, priority=100, created=50, usage=None, needs=None) -> Preemptor:
    info = pending("preemptor", requests={"cpu": str(cpu)}, priority=priority, created=created)
    amounts = usage or {CPU: cpu * 1000}
    short = needs or frozenset(fr for fr, v in amounts.items() if v > s.queues[queue].node.available(fr))
    return Preemptor(info, s.queues[queue], amounts, frozenset(short))


def victims(s, *, now: datetime = T0, **wanted) -> list[tuple[str, str]]:
    """(name, reason) of each victim."""
    found = find_victims(s, preemptor(s, **wanted), now)
    return [(v.holding.key.name.removeprefix("job-"), v.reason) for v in found]


def usage_of(s) -> dict[str, dict[FlavorResource, int]]:
    """The usage of every node, without zeros."""
    nodes = {}
    for each in s.queues.values():
        node = each.node
        while node is not None:
            nodes[node.name] = {fr: v for fr, v in node.usage.items() if v}
            node = node.parent
    return nodes

"""Scheduler states for the tests of fair sharing: ClusterQueues in one line, Workloads as "name:cpu@priority"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from queue_manager.api.types import ClusterQueue, Cohort
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.preemption_candidates import Preemptor
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import Info
from tests.unit.queueing.builders import at, cluster_queue, flavor, pending

BOTH = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
FINAL, INITIAL = BOTH


def queue(name: str, nominal="3", cohort="all", *, weight=None, within="LowerPriority", reclaim="Any", **more):
    """A ClusterQueue; `nominal`: cpu of flavor default, or {flavor: cpu}."""
    quotas = nominal if isinstance(nominal, dict) else {"default": nominal}
    spec = {"preemption": {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}, **more}
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    if cohort:
        spec["cohortName"] = cohort
    return cluster_queue(name, quotas={f: {"cpu": cpu} for f, cpu in quotas.items()}, **spec)


def cohort(name: str, nominal: str | None = None, parent: str = "", weight=None) -> Cohort:
    """A Cohort object with cpu of flavor default."""
    spec: dict = {"parentName": parent} if parent else {}
    if nominal is not None:
        quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": nominal}]}
        spec["resourceGroups"] = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return msgspec.convert({"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}, Cohort)


def scheduler_state(
    queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort] = (), strategies: tuple[str, ...] = BOTH
) -> SchedulerState:
    """A state with fair sharing on."""
    state = SchedulerState()
    state.fair_sharing = strategies
    state.namespaces["ns"] = {}
    for one in cohorts:
        state.set_cohort(one)
    for one in queues:
        state.set_queue(one)
        for group in one.spec.resource_groups:
            for quotas in group.flavors:
                state.flavors[quotas.name] = flavor(quotas.name)
    return state


def milli(cpu: str) -> int:
    return round(float(cpu) * 1000)


def read(text: str) -> tuple[str, int, int]:
    """(name, milli cpu, priority) of "name:cpu@priority"; cpu 1 and priority 0 may be left out."""
    rest, _, priority = text.partition("@")
    name, _, cpu = rest.partition(":")
    return name, milli(cpu or "1"), int(priority or 0)


def admit(
    state: SchedulerState, queue_name: str, text: str, flavor_name: str = "default", reserved: int = 0
) -> Holding:
    """Let a Workload hold quota."""
    name, cpu, priority = read(text)
    info = pending(name, priority=priority, requests={"cpu": f"{cpu}m"}, uid=name)
    usage = {FlavorResource(flavor_name, "cpu"): cpu}
    holding = Holding(
        name, info.key, queue_name, info.queue, usage, admitted=True, priority=priority, reserved_at=at(reserved)
    )
    state.hold(holding)
    return holding


def admit_all(state: SchedulerState, admitted: Mapping[str, str], flavor_name: str = "default") -> None:
    """`admitted`: by ClusterQueue, Workloads in one string."""
    for queue_name, texts in admitted.items():
        for text in texts.split():
            name, _, other = text.partition("/")
            admit(state, queue_name, name, other or flavor_name)


def preemptor(state: SchedulerState, queue_name: str, text: str, flavor_name: str = "default") -> Preemptor:
    """A pending Workload that needs cpu of a flavor."""
    name, cpu, priority = read(text)
    info: Info = pending(name, priority=priority, requests={"cpu": f"{cpu}m"}, uid=name)
    fr = FlavorResource(flavor_name, "cpu")
    return Preemptor(info, state.queues[queue_name], {fr: cpu}, frozenset({fr}))


def usages(state: SchedulerState) -> dict[str, dict[FlavorResource, int]]:
    """The usage of every node, without zeros."""
    nodes = {node for s in state.queues.values() for node in s.node.path()}
    return {f"{node.name} {node.parent is None}": {fr: v for fr, v in node.usage.items() if v} for node in nodes}

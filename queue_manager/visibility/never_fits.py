"""Decides from specs alone whether a Job could start in an otherwise empty cluster. Pure.

The resources of a resource group share a flavor, so a Job fits if each group has a flavor with enough quota for all
requests in that group. The sums per flavor are computed as in the scheduler. The module reports only certain results.
`rules` (the `resources` section of the configuration) determines how requests count; if unknown, they count unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from job_controller.model import Job
from queue_manager.api.types import ClusterQueue, Cohort, ResourceFlavor, ResourceGroup
from queue_manager.jobs.workload_manifest import min_parallelism, pod_count
from queue_manager.scheduling.amounts import Amounts, text
from queue_manager.scheduling.flavor_matching import refusal
from queue_manager.scheduling.pod_requests import pod_requests
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode
from queue_manager.scheduling.resource_rules import COUNT_ALL, ResourceRules
from queue_manager.scheduling.workload_info import PODS


class GroupObstacle(NamedTuple):
    """Why no flavor of one resource group can ever take a Job. `refused`: by their labels and taints, not by quota."""

    text: str
    refused: bool


class Excess(NamedTuple):
    """A resource whose request exceeds the quota of every flavor."""

    resource: str
    asked: int
    limit: int


def group_obstacles(
    job: Job,
    queue: ClusterQueue,
    others: Iterable[ClusterQueue],
    flavors: Mapping[str, ResourceFlavor],
    rules: ResourceRules = COUNT_ALL,
    cohorts: Iterable[Cohort] = (),
) -> list[GroupObstacle]:
    """Return what keeps the Job from starting even if the ClusterQueue is empty, for each of its resource groups.

    `others` and `cohorts`: all ClusterQueues and Cohorts, to compute what can be borrowed. `flavors`: by name.
    """
    try:
        asked = least(job, rules)
        state = _quotas(queue, others, cohorts)
    except ValueError:
        return []  # a value is not a quantity, which validation reports
    if state.cycle_above(queue.metadata.name):
        return []  # what it can borrow is known when the cycle is broken
    node = state.queues[queue.metadata.name].node
    if PODS in _covered(queue):
        asked[PODS] = smallest_count(job)
    found = (_why_never_in(group, asked, job, node, flavors) for group in queue.spec.resource_groups)
    return [one for one in found if one is not None]


def _quotas(queue: ClusterQueue, others: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> SchedulerState:
    state = SchedulerState()
    for cohort in cohorts if queue.spec.cohort_name else ():
        state.set_cohort(cohort)
    for one in (*(other for other in others if queue.spec.cohort_name and other.spec.cohort_name), queue):
        state.set_queue(one)
    return state


def without_quota(job: Job, queue: ClusterQueue, rules: ResourceRules = COUNT_ALL) -> list[str]:
    """Return the counted resources that the Job requests and for which the ClusterQueue has no quota."""
    if rules.ignore_undeclared:
        return []
    try:
        asked = least(job, rules)
    except ValueError:
        return []
    return sorted(resource for resource, amount in asked.items() if amount and resource not in _covered(queue))


def _covered(queue: ClusterQueue) -> set[str]:
    return {resource for group in queue.spec.resource_groups for resource in group.covered_resources}


def least(job: Job, rules: ResourceRules = COUNT_ALL) -> Amounts:
    """Return the sum of requests of all parallel pods; with partial admission, of the minimum parallelism."""
    single = rules.apply(pod_requests(job.spec.template.get("spec") or {}))
    return {resource: amount * smallest_count(job) for resource, amount in single.items()}


def smallest_count(job: Job) -> int:
    """Return the fewest parallel pods with which the Job may start; all of them without partial admission."""
    minimum, all_of_them = min_parallelism(job), pod_count(job.spec)
    return all_of_them if minimum is None else min(minimum, all_of_them)


def _why_never_in(
    group: ResourceGroup, asked: Amounts, job: Job, node: QuotaNode, flavors: Mapping[str, ResourceFlavor]
) -> GroupObstacle | None:
    wanted = [resource for resource in group.covered_resources if asked.get(resource)]
    if not wanted:
        return None
    usable, refusals = [], []
    for quotas in group.flavors:
        flavor = flavors.get(quotas.name)
        why = refusal(flavor, job.spec.template.get("spec") or {}) if flavor is not None else ""
        refusals += [why] if why else []
        usable += [] if why else [quotas.name]
    if not usable:
        return GroupObstacle("; ".join(refusals), refused=True) if refusals else None
    if any(not _excesses(name, wanted, asked, node) for name in usable):
        return None
    name, excesses = _nearest(usable, wanted, asked, node)
    where = f" in flavor {name}" if len(usable) > 1 else ""
    return GroupObstacle("; ".join(_text(excess) for excess in excesses) + where, refused=False)


def _excesses(flavor: str, wanted: Sequence[str], asked: Amounts, node: QuotaNode) -> list[Excess]:
    limits = ((resource, node.potential(FlavorResource(flavor, resource))) for resource in wanted)
    return [Excess(resource, asked[resource], limit) for resource, limit in limits if asked[resource] > limit]


def _nearest(usable: Sequence[str], wanted: Sequence[str], asked: Amounts, node: QuotaNode) -> tuple[str, list[Excess]]:
    """Return the closest flavor and its excesses: fewest exceeded resources first, then the smallest ratio."""
    found = [(name, _excesses(name, wanted, asked, node)) for name in usable]
    return min(found, key=lambda one: (len(one[1]), max(Fraction(e.asked, max(1, e.limit)) for e in one[1])))


def _text(excess: Excess) -> str:
    asked, limit = (text(excess.resource, amount) for amount in (excess.asked, excess.limit))
    return f"asks {asked} {excess.resource}, queue limit {limit}"

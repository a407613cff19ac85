"""The scheduler's state: ClusterQueues, flavors, namespaces, and the quota that each Workload holds.

Usage is counted once per Workload UID: from its pod sets and the flavors in status.admission or, between the decision
and the response to its write, from the scheduler's assumption. Rebuilding the state from the API gives the same
numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from job_controller.api_rules import label_selectors
from job_controller.model import Key
from queue_manager.api import condition_types, messages, reasons
from queue_manager.api.types import (
    Admission,
    AdmissionCheck,
    AdmissionCheckRule,
    ClusterQueue,
    PodSetAssignment,
    ResourceFlavor,
    Workload,
    stops,
)
from queue_manager.scheduling.amounts import amount
from queue_manager.scheduling.execution_time import execution_deadline
from queue_manager.scheduling.flavor_assignment import requests_of
from queue_manager.scheduling.quota_tree import FlavorResource, Quota, QuotaNode, Usage, compute_subtrees, link
from queue_manager.scheduling.workload_info import EPOCH, PODS, Info, PodSetInfo


class Holding(NamedTuple):
    """The quota that one Workload holds."""

    uid: str
    key: Key
    cluster_queue: str
    queue: Key  # LocalQueue
    usage: Usage
    admitted: bool
    ready: bool = False  # PodsReady is True
    # For preemption:
    priority: int = 0
    queued_at: datetime = EPOCH  # the time by which the Workload was ordered in its queue
    reserved_at: datetime = EPOCH  # when quota was reserved
    evicted: bool = False  # its Job is being stopped, and then the quota is free
    ends_by: datetime | None = None  # when maximumExecutionTimeSeconds ends its run at the latest; None: not declared


@dataclass(slots=True)
class QueueState:
    """A ClusterQueue with its node in the quota tree."""

    queue: ClusterQueue
    node: QuotaNode
    holdings: dict[str, Holding] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the ClusterQueue."""
        return self.queue.metadata.name


class SchedulerState:
    """ClusterQueues with their quota tree and its usage; flavors, namespaces and checks by name."""

    def __init__(self, *, ignore_undeclared: bool = False) -> None:
        self.ignore_undeclared = ignore_undeclared  # resources without quota do not count
        self.queues: dict[str, QueueState] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}  # labels
        self.checks: dict[str, AdmissionCheck] = {}
        self.holdings: dict[str, Holding] = {}  # by Workload uid; also in deleted ClusterQueues
        self.changes = 0  # counts the changes of quotas and holdings

    # --- queues and flavors ---

    def set_queue(self, queue: ClusterQueue) -> None:
        """Take a new or changed ClusterQueue. Raises ValueError on a malformed quota."""
        known = self.queues.get(queue.metadata.name)
        if known is not None and known.queue.spec == queue.spec:
            known.queue = queue
            return
        self._rebuild([*(s.queue for s in self.queues.values() if s.name != queue.metadata.name), queue])

    def drop_queue(self, name: str) -> None:
        """The ClusterQueue is deleted."""
        self._rebuild([s.queue for s in self.queues.values() if s.name != name])

    def _rebuild(self, queues: Iterable[ClusterQueue]) -> None:
        """Build the quota tree again and restore the usage from the holdings. Specs change rarely."""
        self.changes += 1
        cohorts: dict[str, QuotaNode] = {}
        self.queues = {}
        roots: list[QuotaNode] = []
        for queue in sorted(queues, key=lambda q: q.metadata.name):
            node = QuotaNode(queue.metadata.name, quotas_of(queue))
            cohort = queue.spec.cohort_name
            if cohort:
                if cohort not in cohorts:
                    cohorts[cohort] = QuotaNode(cohort)
                    roots.append(cohorts[cohort])
                link(node, cohorts[cohort])
            else:
                roots.append(node)
            self.queues[queue.metadata.name] = QueueState(queue, node)
        compute_subtrees(roots)
        for holding in self.holdings.values():
            self._count(holding)

    def relatives(self, name: str) -> list[str]:
        """The ClusterQueues that share quota with this one, itself included."""
        state = self.queues.get(name)
        if state is None or state.node.parent is None:
            return [name]
        root = state.node.root
        return [s.name for s in self.queues.values() if s.node.root is root]

    def missing_flavors(self, name: str) -> list[str]:
        """The flavors that the ClusterQueue names and that do not exist, without duplicates."""
        spec = self.queues[name].queue.spec
        named = (f.name for group in spec.resource_groups for f in group.flavors)
        return list(dict.fromkeys(f for f in named if f not in self.flavors))

    def inactive(self, name: str) -> tuple[str, str] | None:
        """(reason, message) of Active=False, as Kueue words it; None if the ClusterQueue can admit."""
        queue = self.queues[name].queue
        if queue.metadata.deletion_timestamp is not None:
            return reasons.TERMINATING, messages.TERMINATING_MESSAGE
        causes, texts = [], []
        if stops(queue.spec.stop_policy):
            causes.append(reasons.STOPPED)
            texts.append("is stopped")
        missing = self.missing_flavors(name)
        if missing:
            causes.append(reasons.FLAVOR_NOT_FOUND)
            texts.append(f"references missing ResourceFlavor(s): {','.join(missing)}")
        named = [rule.name for rule in check_rules(queue)]
        unknown = [name for name in named if name not in self.checks]
        if unknown:
            causes.append(reasons.ADMISSION_CHECK_NOT_FOUND)
            texts.append(f"references missing AdmissionCheck(s): {','.join(unknown)}")
        idle = [name for name in named if name in self.checks and not self.checks[name].active]
        if idle:
            causes.append(reasons.ADMISSION_CHECK_INACTIVE)
            texts.append(f"references inactive AdmissionCheck(s): {','.join(idle)}")
        return (causes[0], f"Can't admit new workloads: {', '.join(texts)}.") if causes else None

    def checks_of(self, name: str, flavors: Collection[str] | None = None) -> tuple[str, ...]:
        """The admission checks that this ClusterQueue requires; with `flavors`, only those that apply to them."""
        state = self.queues.get(name)
        if state is None:
            return ()
        return tuple(
            rule.name
            for rule in check_rules(state.queue)
            if flavors is None or not rule.on_flavors or any(flavor in flavors for flavor in rule.on_flavors)
        )

    def selects_namespace(self, name: str, namespace: str) -> bool:
        """Whether the ClusterQueue's namespaceSelector selects this namespace by its current labels."""
        return label_selectors.matches(
            self.queues[name].queue.spec.namespace_selector, self.namespaces.get(namespace, {})
        )

    # --- holdings ---

    def hold(self, holding: Holding) -> None:
        """Count the usage of a Workload; replaces what it held before."""
        if self.holdings.get(holding.uid) != holding:
            self.release(holding.uid)
            self.changes += 1
            self.holdings[holding.uid] = holding
            self._count(holding)

    def _count(self, holding: Holding) -> None:
        state = self.queues.get(holding.cluster_queue)
        if state is not None:
            state.holdings[holding.uid] = holding
            state.node.add_all(holding.usage)

    def release(self, uid: str) -> Holding | None:
        """Release what a Workload holds and return it; None if it held nothing."""
        holding = self.holdings.pop(uid, None)
        self.changes += holding is not None
        if holding is not None and (state := self.queues.get(holding.cluster_queue)):
            del state.holdings[uid]
            state.node.remove_all(holding.usage)
        return holding


def check_rules(queue: ClusterQueue) -> tuple[AdmissionCheckRule, ...]:
    """The required admission checks of the ClusterQueue, with the flavors to which each applies."""
    strategy = queue.spec.admission_checks_strategy
    return strategy.admission_checks if strategy is not None else ()


def quotas_of(queue: ClusterQueue) -> dict[FlavorResource, Quota]:
    """The quotas of a ClusterQueue as exact amounts."""
    result = {}
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                limits = (quota.borrowing_limit, quota.lending_limit)
                borrowing, lending = (None if q is None else amount(quota.name, q) for q in limits)
                fr = FlavorResource(flavor.name, quota.name)
                result[fr] = Quota(amount(quota.name, quota.nominal_quota), borrowing, lending)
    return result


def reserves_quota(workload: Workload) -> bool:
    """Whether the Workload holds quota by its own status: QuotaReserved and not Finished."""
    reserved = workload.status.admission is not None and workload.is_true(condition_types.QUOTA_RESERVED)
    return reserved and not workload.is_true(condition_types.FINISHED)


def holding_of(workload: Workload, info: Info) -> Holding | None:
    """What a Workload holds, with its requests and rank from `info`; None if it holds nothing.

    The status determines only the ClusterQueue and the flavors. The amounts are computed from the pod sets, which
    cannot change while quota is reserved, by the rules of the scheduler: so write access to the status cannot free
    quota that pods use.
    """
    admission = workload.status.admission
    if admission is None or not reserves_quota(workload):
        return None
    return Holding(
        uid=workload.metadata.uid,
        key=workload.metadata.key,
        cluster_queue=admission.cluster_queue,
        queue=workload.local_queue,
        usage=_usage(admission, info.pod_sets),
        admitted=workload.is_true(condition_types.ADMITTED),
        ready=workload.is_true(condition_types.PODS_READY),
        priority=info.priority,
        queued_at=info.queued_at,
        reserved_at=_reserved_at(workload),
        evicted=workload.is_true(condition_types.EVICTED),
        ends_by=execution_deadline(workload),
    )


def _reserved_at(workload: Workload) -> datetime:
    reserved = workload.condition(condition_types.QUOTA_RESERVED)
    return (reserved.last_transition_time if reserved is not None else None) or EPOCH


def _usage(admission: Admission, pod_sets: Sequence[PodSetInfo]) -> Usage:
    """The requests of each pod set in its assigned flavors; resources without a flavor do not count."""
    usage: dict[FlavorResource, int] = {}
    assignments = {assigned.name: assigned for assigned in admission.pod_set_assignments}
    for pod_set in pod_sets:
        assigned = assignments.get(pod_set.name, PodSetAssignment())
        running = msgspec.structs.replace(pod_set, count=_running(pod_set, assigned.count))
        requests = requests_of(running, covers_pods=PODS in assigned.flavors)
        for resource, flavor in assigned.flavors.items():
            fr = FlavorResource(flavor, resource)
            usage[fr] = usage.get(fr, 0) + requests.get(resource, 0)
    return usage


def _running(pod_set: PodSetInfo, assigned: int | None) -> int:
    """How many pods hold quota: with minCount the admitted number, without the pods that have been reclaimed."""
    if pod_set.minimum is None or assigned is None:
        return pod_set.count
    return min(pod_set.count, max(assigned, pod_set.minimum))

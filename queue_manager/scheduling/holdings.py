"""What a Workload holds: its usage by flavor and its place among candidates for preemption. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from job_controller.model import Key
from queue_manager.api import condition_types, messages
from queue_manager.api.types import Admission, PodSetAssignment, Workload
from queue_manager.scheduling.execution_time import execution_deadline, protection_end
from queue_manager.scheduling.flavor_assignment import requests_of
from queue_manager.scheduling.queue_order import EPOCH, Rank
from queue_manager.scheduling.quota_tree import FlavorResource, Usage
from queue_manager.scheduling.workload_info import Info, PodSetInfo

# Candidates for preemption, the first one first: evicted, lower priority, later reservation, later in its queue
# (BEHAVIOUR.md#q7-queue-order: queue time, arrival), uid. Times are whole seconds.
Ranking = tuple[bool, int, int, int, int, str]
RetryOrder = tuple[int, int, Rank]


class PreemptedFor(NamedTuple):
    """For which Workload another one was preempted, by its UID, and the reason of the Preempted condition."""

    preemptor: str
    reason: str


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
    arrival: int = 0  # the order of creation within that second
    reserved_at: datetime = EPOCH  # when quota was reserved
    evicted: bool = False  # its Job is being stopped, and then the quota is free
    preempted_for: PreemptedFor | None = None  # of one that is evicted
    protected_until: datetime | None = None  # when its minimum runtime is over; None: it has none
    ends_by: datetime | None = None  # when maximumExecutionTimeSeconds ends its run at the latest; None: not declared
    unassigned: Mapping[str, int] = MappingProxyType({})  # requests to which the status assigns no flavor, by resource

    @property
    def ranking(self) -> Ranking:
        """Sort key of the holding among the candidates for preemption of its ClusterQueue."""
        reserved, queued = int(self.reserved_at.timestamp()), int(self.queued_at.timestamp())
        return not self.evicted, self.priority, -reserved, -queued, -self.arrival, self.uid

    @property
    def rank(self) -> Rank:
        """The place of the Workload in its queue when it has been stopped for a preemption."""
        return Rank(-self.priority, int(self.queued_at.timestamp()), self.arrival, self.uid)

    def is_protected(self, now: datetime) -> bool:
        """Whether the minimum runtime forbids a preemption at `now`; False for a Workload that is being stopped."""
        return self.protected_until is not None and now < self.protected_until and not self.evicted


class UsageByPriority:
    """The usage of the Workloads of one ClusterQueue, added up by priority: a bound of what a preemption can release.

    Kept up to date, so that a preemptor for which all candidates together are too few is refused without a search.
    """

    __slots__ = ("_known", "_levels")

    def __init__(self) -> None:
        self._levels: dict[int, dict[FlavorResource, int]] = {}  # without zeros
        self._known: dict[tuple[float, FlavorResource], int] = {}  # answers of `below` since the last change

    def add(self, holding: Holding) -> None:
        """Count the usage of a holding."""
        self._known.clear()
        level = self._levels.setdefault(holding.priority, {})
        for fr, amount in holding.usage.items():
            if amount:
                level[fr] = level.get(fr, 0) + amount

    def remove(self, holding: Holding) -> None:
        """The reverse of `add`."""
        self._known.clear()
        level = self._levels.get(holding.priority, {})
        for fr, amount in holding.usage.items():
            if amount:
                level[fr] -= amount
                if not level[fr]:
                    del level[fr]
        if not level:
            self._levels.pop(holding.priority, None)

    def below(self, priority: float, fr: FlavorResource) -> int:
        """The usage of the Workloads of a priority below this one."""
        found = self._known.get((priority, fr))
        if found is None:
            found = sum(level.get(fr, 0) for own, level in self._levels.items() if own < priority)
            self._known[priority, fr] = found
        return found


class Reservation(NamedTuple):
    """The quota that is kept for a Workload while its victims are being stopped.

    `borrow` is the height of the lowest subtree of the quota tree into whose quota the Workload fits without borrowing:
    0 for its ClusterQueue (`QuotaNode.borrow_level`).
    """

    info: Info
    cluster_queue: str
    usage: Usage
    borrow: int
    victims: Mapping[str, str]  # by uid, the reason of the preemption

    @property
    def retry_order(self) -> RetryOrder:
        """See `retry_order`."""
        return retry_order(self.info.rank, self.borrow)


def retry_order(rank: Rank, borrow: int) -> RetryOrder:
    """Sort key of the preemptors that are tried again: a higher priority may use what is kept for a lower one."""
    return rank.minus_priority, borrow, rank


def reserves_quota(workload: Workload) -> bool:
    """Whether the Workload holds quota by its own status: QuotaReserved and not Finished."""
    reserved = workload.status.admission is not None and workload.is_true(condition_types.QUOTA_RESERVED)
    return reserved and not workload.is_true(condition_types.FINISHED)


def holding_of(workload: Workload, info: Info, max_min_runtime: float | None) -> Holding | None:
    """The holding of a Workload, with requests and rank from `info`; None if it holds no quota.

    `max_min_runtime`: the bound of its minimum runtime, in seconds; None: it may have none.

    The status gives the ClusterQueue, the flavors, the pods that are reclaimed and, with minCount, the number of pods.
    The amounts per pod are computed from the pod sets, which cannot change while quota is reserved, by the rules of the
    scheduler: so write access to the status cannot lower a request. Neither does leaving out the flavors: see
    `with_all_requests`.
    """
    admission = workload.status.admission
    if admission is None or not reserves_quota(workload):
        return None
    usage, unassigned = _usage(admission, info.pod_sets)
    return Holding(
        uid=workload.metadata.uid,
        key=workload.metadata.key,
        cluster_queue=admission.cluster_queue,
        queue=workload.local_queue,
        usage=usage,
        admitted=workload.is_true(condition_types.ADMITTED),
        ready=workload.is_true(condition_types.PODS_READY),
        priority=info.priority,
        queued_at=info.queued_at,
        arrival=info.rank.arrival,
        reserved_at=_reserved_at(workload),
        evicted=workload.is_true(condition_types.EVICTED) or workload.metadata.deletion_timestamp is not None,
        preempted_for=_preempted_for(workload),
        protected_until=protection_end(workload, max_min_runtime),
        ends_by=execution_deadline(workload),
        unassigned=unassigned,
    )


def _preempted_for(workload: Workload) -> PreemptedFor | None:
    preempted = workload.condition(condition_types.PREEMPTED)
    if preempted is None or not preempted.is_true or not workload.is_true(condition_types.EVICTED):
        return None
    preemptor = messages.preemptor_uid(preempted.message)
    return PreemptedFor(preemptor, preempted.reason) if preemptor else None


def _reserved_at(workload: Workload) -> datetime:
    reserved = workload.condition(condition_types.QUOTA_RESERVED)
    return (reserved.last_transition_time if reserved is not None else None) or EPOCH


def _usage(admission: Admission, pod_sets: Sequence[PodSetInfo]) -> tuple[Usage, Mapping[str, int]]:
    """The requests of each pod set in its assigned flavors, and those without a flavor by resource."""
    usage: dict[FlavorResource, int] = {}
    unassigned: dict[str, int] = {}
    assignments = {assigned.name: assigned for assigned in admission.pod_set_assignments}
    for pod_set in pod_sets:
        assigned = assignments.get(pod_set.name, PodSetAssignment())
        running = msgspec.structs.replace(pod_set, count=running_pods(pod_set.count, pod_set.minimum, assigned.count))
        requests = requests_of(running, covers_pods=True)
        for resource, flavor in assigned.flavors.items():
            fr = FlavorResource(flavor, resource)
            usage[fr] = usage.get(fr, 0) + requests.get(resource, 0)
        for resource in requests.keys() - assigned.flavors.keys():
            unassigned[resource] = unassigned.get(resource, 0) + requests[resource]
    return usage, unassigned


def with_all_requests(holding: Holding, quotas: Iterable[FlavorResource]) -> Holding:
    """The holding with each request without a flavor counted in the first flavor that has quota for its resource.

    The scheduler assigns a flavor to every request for which there is quota. The others are in a status that another
    client wrote, or their resource got quota after the admission; in both cases the pods use it.
    """
    first = {fr.resource: fr for fr in reversed(list(quotas))}
    extra = {first[resource]: n for resource, n in holding.unassigned.items() if n and resource in first}
    if not extra:
        return holding
    usage = {fr: holding.usage.get(fr, 0) + extra.get(fr, 0) for fr in {**holding.usage, **extra}}
    return holding._replace(usage=usage)


def running_pods(remaining: int, minimum: int | None, assigned: int | None) -> int:
    """How many pods of a pod set hold quota: with minCount the admitted number, but no more than remain.

    `remaining`: its pods that have not been reclaimed (`workload_info.remaining_pods`). `minimum`: its minCount.
    `assigned`: the count of its assignment in status.admission.
    """
    if minimum is None or assigned is None:
        return remaining
    return min(remaining, max(assigned, minimum))

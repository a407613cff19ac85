"""The scheduler's state: ClusterQueues, Cohorts, flavors, namespaces, and the quota that each Workload holds.

Usage is counted once per Workload UID: from its pod sets and the flavors in status.admission or, between the decision
and the response to its write, from the scheduler's assumption. Rebuilding the state from the API gives the same
numbers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from job_controller.api_rules import label_selectors
from job_controller.model import Key
from job_controller.quantities import exact
from queue_manager.api import messages, policy_values, reasons
from queue_manager.api.types import (
    AdmissionCheck,
    AdmissionCheckRule,
    ClusterQueue,
    Cohort,
    FairSharing,
    ResourceFlavor,
    ResourceGroup,
    stops,
)
from queue_manager.scheduling.amounts import amount
from queue_manager.scheduling.holdings import Holding, Ranking, Reservation, UsageByPriority, with_all_requests
from queue_manager.scheduling.quota_forest import Cycle, QuotaForest
from queue_manager.scheduling.quota_tree import FlavorResource, Quota, QuotaNode, Usage
from queue_manager.scheduling.usage_decay import WeightedUsage
from queue_manager.scheduling.workload_info import Info

MOST_RECLAIMS = 2  # of one Workload from another one that has no lower priority
NOT_YET = Counter[str]()  # a Workload has not preempted any other; do not change it
CYCLE_NAMES = 50  # that the message of a ClusterQueue lists


@dataclass(slots=True)
class QueueState:
    """A ClusterQueue with its node in the quota tree, and its holdings by Workload uid."""

    queue: ClusterQueue
    node: QuotaNode
    holdings: dict[str, Holding]
    ranking: list[Ranking]  # of the holdings, sorted
    by_priority: UsageByPriority = field(default_factory=UsageByPriority)

    @property
    def name(self) -> str:
        """The name of the ClusterQueue."""
        return self.queue.metadata.name


class SchedulerState:
    """ClusterQueues and Cohorts with their quota trees and the usage; flavors, namespaces and checks by name."""

    def __init__(self, *, ignore_undeclared: bool = False) -> None:
        self.ignore_undeclared = ignore_undeclared  # resources without quota do not count
        self.fair_sharing: tuple[str, ...] = ()  # preemption strategies of fair sharing; (): it is off
        # The past usage of LocalQueues, see `usage_decay`; None: admission fair sharing is off.
        self.usage_order: Callable[[Key], WeightedUsage] | None = None
        self.queues: dict[str, QueueState] = {}
        self.cohorts: dict[str, Cohort] = {}  # the objects; `forest.cohorts` also has those that are only named
        self.forest = QuotaForest()
        self.flavors: dict[str, ResourceFlavor] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}  # labels
        self.checks: dict[str, AdmissionCheck] = {}
        self.holdings: dict[str, Holding] = {}  # by Workload uid
        self._holdings_of: dict[str, dict[str, Holding]] = {}  # by ClusterQueue, also deleted ones
        self._rankings_of: dict[str, list[Ranking]] = {}  # the same, sorted
        self.reservations: dict[str, Reservation] = {}  # by uid of the preemptor
        # By uid of the preemptor, how often it has preempted which others of no lower priority, by uid.
        self.preempted: dict[str, Counter[str]] = {}
        self.changes = 0  # of quotas, flavors, holdings and reservations
        self._unready: set[str] = set()  # uids of holdings that are not PodsReady
        self._evicting: set[str] = set()  # uids whose eviction is decided, and may not be in the store yet

    # --- ClusterQueues and Cohorts ---

    def set_queue(self, queue: ClusterQueue) -> None:
        """Add or update a ClusterQueue. Raises ValueError on a malformed quota."""
        name = queue.metadata.name
        known = self.queues.get(name)
        if known is not None and known.queue.spec == queue.spec:
            known.queue = queue
            return
        self.changes += 1
        node = self.forest.set_queue(name, quotas_of(queue.spec.resource_groups), queue.spec.cohort_name)
        node.weight = weight_of(queue.spec.fair_sharing)
        if known is not None:
            known.queue = queue
            self._recount(known)
            return
        holdings, ranking = self._holdings_of.setdefault(name, {}), self._rankings_of.setdefault(name, [])
        self.queues[name] = QueueState(queue, node, holdings, ranking)
        for uid in holdings:
            self._add_usage(self.holdings[uid])

    def drop_queue(self, name: str) -> None:
        """Remove a deleted ClusterQueue."""
        self.changes += 1
        if self.queues.pop(name, None) is not None:
            self.forest.drop_queue(name)
            self._forget_if_unused(name)

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or update a ResourceFlavor."""
        self.changes += 1
        self.flavors[flavor.metadata.name] = flavor

    def drop_flavor(self, name: str) -> None:
        """Remove a deleted ResourceFlavor."""
        self.changes += 1
        self.flavors.pop(name, None)

    def set_cohort(self, cohort: Cohort) -> None:
        """Add or update a Cohort. Raises ValueError on a malformed quota."""
        self.changes += 1
        name = cohort.metadata.name
        self.forest.set_cohort(name, quotas_of(cohort.spec.resource_groups), cohort.spec.parent_name)
        self.forest.cohorts[name].weight = weight_of(cohort.spec.fair_sharing)
        self.cohorts[name] = cohort

    def drop_cohort(self, name: str) -> None:
        """Remove a deleted Cohort. ClusterQueues that name it still share their quota."""
        self.changes += 1
        if self.cohorts.pop(name, None) is not None:
            self.forest.cohorts[name].weight = weight_of(None)
            self.forest.drop_cohort(name)

    def relatives(self, name: str) -> list[str]:
        """The ClusterQueues that share quota with this one, itself included."""
        state = self.queues.get(name)
        return _queues_around(state.node) if state is not None else [name]

    def relatives_of_all(self, names: Iterable[str]) -> list[str]:
        """The ClusterQueues that share quota with any of these, each once."""
        found: dict[str, None] = {}
        for name in names:
            if name not in found:
                found |= dict.fromkeys(self.relatives(name))
        return list(found)

    def relatives_of_cohort(self, name: str) -> list[str]:
        """The ClusterQueues of the tree in which this cohort is; none if nothing names the cohort."""
        node = self.forest.cohorts.get(name)
        return _queues_around(node) if node is not None else []

    def cycle_above(self, name: str) -> Cycle:
        """The cycle of Cohorts that the ClusterQueue is below, () without a cycle. Such a ClusterQueue is inactive."""
        return self.forest.cycle_above(self.queues[name].node)

    def members_of_cycle(self, cohort: str) -> Cycle:
        """The cycle of Cohorts that this cohort is in or below, () without a cycle."""
        node = self.forest.cohorts.get(cohort)
        return self.forest.cycle_above(node) if node is not None else ()

    def missing_flavors(self, name: str) -> list[str]:
        """The flavors that the ClusterQueue names and that do not exist, without duplicates."""
        spec = self.queues[name].queue.spec
        named = (f.name for group in spec.resource_groups for f in group.flavors)
        return list(dict.fromkeys(f for f in named if f not in self.flavors))

    def has_several_flavors(self, name: str) -> bool:
        """Whether the ClusterQueue, which exists, has a resource with quota in more than one flavor."""
        return any(len(group.flavors) > 1 for group in self.queues[name].queue.spec.resource_groups)

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
        cycle = self.cycle_above(name)
        if cycle:
            causes.append(reasons.COHORT_CYCLE_DETECTED)
            texts.append(f'Cohort "{queue.spec.cohort_name}" has a cycle in hierarchy: {_loop(cycle)}')
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
        if holding.uid in self._evicting:
            holding = holding._replace(evicted=True)
        if self.holdings.get(holding.uid) != holding:
            self._uncount(holding.uid)
            self.holdings[holding.uid] = holding
            self._count(holding)

    @property
    def all_ready(self) -> bool:
        """Whether every holding is PodsReady."""
        return not self._unready

    @property
    def unchecked(self) -> int:
        """How many hold quota, are not PodsReady, and wait for their admission checks."""
        return sum(not self.holdings[uid].admitted for uid in self._unready)

    def counted(self, uid: str) -> Holding | None:
        """The holding of a Workload as its ClusterQueue counts it; None if it has none, or the ClusterQueue does not
        exist.
        """
        holding = self.holdings.get(uid)
        state = self.queues.get(holding.cluster_queue) if holding is not None else None
        return state.holdings[uid] if state is not None else None

    def usage_by_node(self, holdings: Iterable[Holding]) -> list[tuple[QuotaNode, Usage]]:
        """The total usage of these Workloads per ClusterQueue, by its node in the quota tree."""
        total: dict[str, dict[FlavorResource, int]] = {}
        for holding in holdings:
            amounts = total.setdefault(holding.cluster_queue, {})
            for fr, used in holding.usage.items():
                amounts[fr] = amounts.get(fr, 0) + used
        return [(self.queues[name].node, amounts) for name, amounts in total.items()]

    @contextmanager
    def without(self, holdings: Iterable[Holding]) -> Iterator[None]:
        """Context in which the quota trees are without the usage of these Workloads."""
        removed = self.usage_by_node(holdings)
        for node, usage in removed:
            node.remove_all(usage)
        try:
            yield
        finally:
            for node, usage in reversed(removed):
                node.add_all(usage)

    def _count(self, holding: Holding) -> None:
        self.changes += 1
        if not holding.ready:
            self._unready.add(holding.uid)
        insort(self._rankings_of.setdefault(holding.cluster_queue, []), holding.ranking)
        self._add_usage(holding)

    def _add_usage(self, holding: Holding) -> None:
        state = self.queues.get(holding.cluster_queue)
        counted = holding if state is None else with_all_requests(holding, state.node.quotas)
        self._holdings_of.setdefault(holding.cluster_queue, {})[holding.uid] = counted
        if state is not None:
            state.node.add_all(counted.usage)
            state.by_priority.add(counted)

    def _recount(self, state: QueueState) -> None:
        """Count holdings anew after changed quotas: requests without a flavor count for one that has quota."""
        for uid, counted in state.holdings.items():
            state.holdings[uid] = new = with_all_requests(self.holdings[uid], state.node.quotas)
            state.node.remove_all(counted.usage)
            state.node.add_all(new.usage)
            state.by_priority.remove(counted)
            state.by_priority.add(new)

    def release(self, uid: str) -> Holding | None:
        """Release what a Workload holds and return it; None if it held nothing.

        Unless it was preempted, how often it has preempted others counts no more: no circle of preemptions goes through
        it then.
        """
        holding = self.holdings.get(uid)
        if holding is not None and uid not in self._evicting and holding.preempted_for is None:
            self.preempted.pop(uid, None)
        self._evicting.discard(uid)
        return self._uncount(uid)

    def _uncount(self, uid: str) -> Holding | None:
        holding = self.holdings.pop(uid, None)
        if holding is None:
            return None
        self.changes += 1
        self._unready.discard(uid)
        name = holding.cluster_queue
        counted = self._holdings_of[name].pop(uid)
        del self._rankings_of[name][bisect_left(self._rankings_of[name], holding.ranking)]
        if (state := self.queues.get(name)) is not None:
            state.node.remove_all(counted.usage)
            state.by_priority.remove(counted)
        self._forget_if_unused(name)
        return holding

    def _forget_if_unused(self, cluster_queue: str) -> None:
        if cluster_queue not in self.queues and not self._holdings_of[cluster_queue]:
            del self._holdings_of[cluster_queue], self._rankings_of[cluster_queue]

    # --- preemption ---

    def reserve(self, reservation: Reservation) -> None:
        """Keep quota for a preemptor until its reservation ends; replaces an earlier reservation of the preemptor.

        To be called before the victims are marked as evicted: victims of no lower priority that are not evicted yet are
        counted as preempted.
        """
        self.changes += 1
        uid, least = reservation.info.uid, reservation.info.priority
        running = (h for victim in reservation.victims if (h := self.holdings.get(victim)) and not h.evicted)
        self.count_reclaims(uid, [holding.uid for holding in running if holding.priority >= least])
        self.reservations[uid] = reservation

    def count_reclaims(self, uid: str, others: Collection[str]) -> None:
        """Count once more that a Workload takes quota from these."""
        if others:
            self.preempted.setdefault(uid, Counter()).update(others)

    def reclaims(self, uid: str, other: str) -> int:
        """How often a Workload has taken quota from another one of no lower priority."""
        return self.preempted.get(uid, NOT_YET)[other]

    def spared_by(self, uid: str) -> list[str]:
        """The uids of those of no lower priority from which a Workload has taken quota as often as it may."""
        return [other for other, count in self.preempted.get(uid, NOT_YET).items() if count >= MOST_RECLAIMS]

    def take_back_reclaim(self, uid: str, other: str) -> None:
        """Count once less that a Workload takes quota from another one: that was not stopped for it."""
        if self.reclaims(uid, other) > 0:
            self.preempted[uid][other] -= 1

    def transfer_reclaim(self, uid: str, victim: Holding, preemptor: Info) -> None:
        """Count the stop of a Workload, which may be over, for another preemptor than the one for which it was decided,
        and counted: `uid`.
        """
        self.take_back_reclaim(uid, victim.uid)
        if victim.priority >= preemptor.priority:
            self.count_reclaims(preemptor.uid, [victim.uid])

    def needed_by(self, victim: str, decided_for: str) -> Reservation | None:
        """What is kept for the preemptor that waits for the end of this Workload: the one for which that was decided,
        else the first of the others that may preempt it; None if no preemptor waits for it. Both are uids.
        """

        def may_preempt(each: Reservation) -> bool:
            return each.info.uid == decided_for or self.reclaims(each.info.uid, victim) < MOST_RECLAIMS

        waiting = (each for each in self.reservations.values() if victim in each.victims and may_preempt(each))
        return min(waiting, key=lambda each: (each.info.uid != decided_for, each.retry_order), default=None)

    def end_reservation(self, uid: str) -> Reservation | None:
        """Remove and return the reservation of a preemptor that was admitted, refused, deleted or changed.

        Unless the preemptor was admitted, Workloads of the ClusterQueues that share its quota can be tried again.
        """
        reservation = self.reservations.pop(uid, None)
        self.changes += reservation is not None
        return reservation

    def forget(self, uid: str) -> Reservation | None:
        """Forget a finished or deleted Workload as a preemptor. Returns its reservation."""
        self.preempted.pop(uid, None)
        return self.end_reservation(uid)

    def ranked(self, queue: QueueState, *, evicted: bool, below: float) -> Iterator[tuple[Ranking, Holding]]:
        """The evicted or the other holdings of a priority below this one, in the order in which they are preempted.

        Where past usage orders the LocalQueues, those of the LocalQueue with the highest usage come first (KEP-4136).
        """
        ranking, holdings = queue.ranking, queue.holdings
        first, end = bisect_left(ranking, (not evicted,)), bisect_left(ranking, (not evicted, below))
        usage = self.usage_order
        if usage is None or not is_usage_based(queue.queue):
            for place in range(first, end):
                rank = ranking[place]
                yield rank, holdings[rank[-1]]
            return
        found = [(rank, holdings[rank[-1]]) for rank in ranking[first:end]]
        usages = {local: usage(local) for local in {holding.queue for _, holding in found}}
        yield from sorted(found, key=lambda each: usages[each[1].queue], reverse=True)  # stable

    def mark_evicted(self, uid: str, *, evicted: bool = True) -> None:
        """Count this Workload as evicted before the write; `evicted=False` takes that back after a failed write."""
        holding = self.holdings.get(uid)
        if holding is None:
            return
        (self._evicting.add if evicted else self._evicting.discard)(uid)
        self._uncount(uid)
        self.holdings[uid] = holding._replace(evicted=evicted)
        self._count(self.holdings[uid])


def _queues_around(node: QuotaNode) -> list[str]:
    return [one.name for one in node.root.below() if not one.is_cohort]


def _loop(cycle: Cycle) -> str:
    """ "a -> b -> a". The names of a long cycle are left out in the middle, for the limit of a condition's message."""
    shown = cycle if len(cycle) <= CYCLE_NAMES else (*cycle[: CYCLE_NAMES - 1], "...", cycle[-1])
    return " -> ".join((*shown, cycle[0]))


def is_usage_based(queue: ClusterQueue) -> bool:
    """Whether the ClusterQueue wants its LocalQueues ordered by past usage."""
    scope = queue.spec.admission_scope
    return scope is not None and scope.admission_mode == policy_values.USAGE_BASED


def check_rules(queue: ClusterQueue) -> tuple[AdmissionCheckRule, ...]:
    """The required admission checks of the ClusterQueue, with the flavors to which each applies."""
    strategy = queue.spec.admission_checks_strategy
    return strategy.admission_checks if strategy is not None else ()


def weight_of(sharing: FairSharing | None) -> Fraction:
    """spec.fairSharing.weight, 1 if absent."""
    return Fraction(1) if sharing is None or sharing.weight is None else exact(sharing.weight)


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    """The quotas of a ClusterQueue or Cohort as exact amounts. Raises ValueError on a malformed quantity."""
    result = {}
    for group in groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                limits = (quota.borrowing_limit, quota.lending_limit)
                borrowing, lending = (None if q is None else amount(quota.name, q) for q in limits)
                fr = FlavorResource(flavor.name, quota.name)
                result[fr] = Quota(amount(quota.name, quota.nominal_quota), borrowing, lending)
    return result

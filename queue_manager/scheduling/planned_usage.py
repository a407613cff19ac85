"""Usage of the quota tree during one admission cycle, in two versions: as it is now, and as it is planned.

*Planned* is the usage as soon as all preemptions in progress are done: without the victims, and with their preemptors.
A Workload is admitted only if it fits in both versions. So nothing is over-admitted while victims still run, and what
they release is kept for their preemptors. Victims for further preemptors are sought in the planned version, where
those of others are gone already.

That is not enough if one preemption releases more than its preemptor needs: a Workload could take now what is left over
later, and another preemptor, whose victims have stopped, would wait for victims that are not its own. So a Workload
must also fit beside the *claims* of preemptors: each takes its request, and gives back what its own victims hold. Of
several claims those count that together leave the least.

A preemptor may be about to borrow what another ClusterQueue can always reclaim. That is not kept from the heads of this
ClusterQueue, which would preempt the preemptor as soon as it is admitted; nor is what others withhold to borrow it.

The planned version is in `QuotaNode.usage`; the other version is kept only for nodes where it differs, each with all
its ancestors. At the end of the cycle the tree gets its own numbers back: the caller counts what the cycle has decided.
BEHAVIOUR.md#q45-quota-kept-for-preemptors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import TypeVar

from queue_manager.api import policy_values
from queue_manager.scheduling.holdings import Reservation
from queue_manager.scheduling.quota_state import MOST_RECLAIMS, QueueState, SchedulerState, is_usage_based
from queue_manager.scheduling.quota_tree import (
    FlavorResource,
    QuotaNode,
    Usage,
    blocking_limits,
    room,
    smallest_subtree,
)
from queue_manager.scheduling.workload_info import Info

Amounts = dict[FlavorResource, int]
T = TypeVar("T")


class PlannedUsage:
    """Both versions of the usage (now and planned), and the planned reservations. Use it in a `with` statement."""

    def __init__(self, state: SchedulerState, concerned: Iterable[str] | None = None) -> None:
        """`concerned`: the ClusterQueues about which questions follow; only their trees are planned. None: all."""
        self._state = state
        self._roots = None if concerned is None else {state.queues[name].node.root for name in concerned}
        self._original: dict[QuotaNode, Amounts] = {}
        self._now: dict[QuotaNode, Amounts] = {}  # where the usage now differs from the planned one
        self._separated: dict[QuotaNode, list[QuotaNode]] = {}  # by root, the nodes of `_now`
        self._by_root: dict[QuotaNode, list[Reservation]] = {}  # by root, `_claims` since the last change
        self._victims: Counter[str] = Counter()  # by uid: in how many planned reservations
        self._planned: dict[str, Reservation] = {}  # by uid of the preemptor
        self._planned_below: dict[QuotaNode, dict[str, Reservation]] = {}  # the same by root
        self._held: dict[str, list[tuple[QuotaNode, Usage]]] = {}  # by all victims of a planned one, as far as asked
        self._withheld: list[tuple[QuotaNode, Usage]] = []  # until the cycle ends
        self._withheld_by_blocking: list[tuple[QuotaNode, Usage]] = []  # as long as these block their StrictFIFO queues
        self._withheld_to_borrow: list[tuple[QuotaNode, Usage]] = []  # the part of both that is not their own quota
        self._standing: dict[QuotaNode, list[Reservation]] = {}  # of earlier cycles, by root

    def __enter__(self) -> PlannedUsage:
        for reservation in self._state.reservations.values():
            if self._is_concerned(reservation.cluster_queue):
                self.plan(reservation._replace(victims=self._stopping(reservation)))
        self._standing = {root: list(planned.values()) for root, planned in self._planned_below.items()}
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for node, usage in self._original.items():
            node.usage = usage

    @property
    def reservations(self) -> Iterable[Reservation]:
        """What is planned for preemptors."""
        return self._planned.values()

    @property
    def victims(self) -> Counter[str]:
        """UIDs of the Workloads that planned preemptions remove, each with the number of its preemptors."""
        return self._victims

    def _is_concerned(self, cluster_queue: str) -> bool:
        queue = self._state.queues.get(cluster_queue)
        return queue is not None and (self._roots is None or queue.node.root in self._roots)

    def _stopping(self, reservation: Reservation) -> dict[str, str]:
        """The victims that have not been admitted again, and whose eviction has not failed."""
        victims = reservation.victims.items()
        return {uid: why for uid, why in victims if (held := self._state.counted(uid)) is None or held.evicted}

    # --- queries ---

    def free(self, node: QuotaNode, fr: FlavorResource, *, own: bool = True) -> int:
        """The amount that is neither in use nor kept: available now beside the claims, and after all preemptions.

        `own`: for one that does not borrow. Of its own nominal quota nothing is kept for preemptors that would borrow
        it, and from which the ClusterQueue could reclaim it as soon as they are admitted.
        """
        free = self._free(node, fr)
        return self.own_beside(node, fr, free) if own else free

    def own_beside(self, node: QuotaNode, fr: FlavorResource, free: int) -> int:
        """`free`, which is without all that is kept for preemptors, raised by the own nominal quota that is kept only
        for preemptors that would borrow it.
        """
        if not self._planned:
            return free
        left = self._left_of_own(node, fr)
        if left > free and (yielding := self._yielding(node)):
            with self._without(yielding):
                return max(free, min(left, self._free(node, fr)))
        return free

    def _left_of_own(self, node: QuotaNode, fr: FlavorResource) -> int:
        """The nominal quota that its ClusterQueue does not use, now and after all preemptions."""
        return node.quota(fr).nominal - max(node.usage.get(fr, 0), self.used(node, fr))

    def _free(self, node: QuotaNode, fr: FlavorResource) -> int:
        planned = node.available(fr)
        if not self._differs(node):
            return planned
        return min(planned, *self._beside_claims(node, fr, lambda: node.available(fr)))

    def _yielding(self, node: QuotaNode) -> frozenset[str]:
        """The preemptors that would borrow from this ClusterQueue, which can always reclaim."""
        if not can_always_reclaim(self._state.queues[node.name]):
            return frozenset()
        around = self._planned_below.get(node.root, {})
        return frozenset(uid for uid, r in around.items() if borrows_from(self._state, r, node))

    def free_now(self, node: QuotaNode, fr: FlavorResource) -> int:
        """The amount that is available now, whatever is kept for preemptors."""
        with self._present(node.path()):
            return node.available(fr)

    def reserved(self, root: QuotaNode, needs: Iterable[FlavorResource]) -> dict[QuotaNode, Amounts]:
        """Of what the tree below `root` counts: the part that is planned for preemptors, and not in use yet.

        A cohort counts only what its members use above their local quota, so only that much of a reservation is there.
        """
        reserved: dict[QuotaNode, Amounts] = {}
        for reservation in self._planned_below.get(root, {}).values():
            node = self._state.queues[reservation.cluster_queue].node
            for fr in needs:
                amount = reservation.usage.get(fr, 0)
                for each in node.path():
                    if amount <= 0:
                        break
                    known = reserved.setdefault(each, {})
                    rest = each.usage.get(fr, 0) - known.get(fr, 0)
                    known[fr] = known.get(fr, 0) + amount
                    amount = min(amount, rest - each.local_quota(fr))
        return reserved

    def used(self, node: QuotaNode, fr: FlavorResource) -> int:
        """The current usage."""
        with self._present(node.path()):
            return node.usage.get(fr, 0)

    def blocking_limits(self, node: QuotaNode, fr: FlavorResource, amount: int) -> list[QuotaNode]:
        """The nodes whose borrowing limits alone keep `amount` from being free (`quota_tree.blocking_limits`)."""
        found = [blocking_limits(node, fr, amount)]
        if self._differs(node):
            found += self._beside_claims(node, fr, lambda: blocking_limits(node, fr, amount))
        blocking = {each for some in found for each in some or ()}
        return [each for each in node.path() if each in blocking] if None not in found else []

    def fits(self, node: QuotaNode, usage: Usage) -> bool:
        """Whether this usage is `free`."""
        own = not self.takes_what_is_kept(node, usage)
        return all(amount <= self.free(node, fr, own=own) for fr, amount in usage.items())

    def takes_what_is_kept(self, node: QuotaNode, usage: Usage) -> bool:
        """Whether there are preemptors to which `free` gives way, but not for this usage: it would borrow something."""
        return bool(self._planned and self._yielding(node)) and not self._is_own(node, usage)

    def _is_own(self, node: QuotaNode, usage: Usage) -> bool:
        """Whether this usage takes nothing but nominal quota of its ClusterQueue."""
        return all(amount <= self._left_of_own(node, fr) for fr, amount in usage.items())

    def will_fit(self, node: QuotaNode, usage: Usage) -> bool:
        """Whether this usage fits once all planned preemptions are done."""
        return all(amount <= node.available(fr) for fr, amount in usage.items())

    def will_fit_without(self, node: QuotaNode, usage: Usage, victims: Iterable[str]) -> bool:
        """Whether this usage fits once all planned preemptions are done, and the Workloads `victims` are gone too."""
        gone = [uid for uid in victims if uid not in self._victims]
        self._remove(gone)
        fits = self.will_fit(node, usage)
        self._put_back(gone)
        return fits

    def passed_by(self, info: Info, queue: QueueState) -> frozenset[str]:
        """The preemptors whose reservations of earlier cycles this head may use; `passes` decides that."""
        if not self._standing:
            return frozenset()
        around = self._standing.get(queue.node.root, ())
        return frozenset(r.info.uid for r in around if passes(self._state, info, queue, r))

    def kept_behind(self, info: Info, queue: QueueState) -> frozenset[str]:
        """The preemptors of equal priority that are ordered behind this one in its ClusterQueue; none if it is no
        preemptor.
        """
        if info.uid not in self._planned:
            return frozenset()
        others = (r.info for r in self._planned.values() if r.cluster_queue == queue.name)
        return frozenset(other.uid for other in others if _is_before(self._state, queue, info, other))

    # --- changes ---

    def count(self, node: QuotaNode, usage: Usage) -> None:
        """Count an admission of this cycle, in both versions."""
        if self._differs(node):
            self._separate(node)
            with self._present(node.path()):
                node.add_all(usage)
        self._keep_original(node)
        node.add_all(usage)

    def withhold(self, node: QuotaNode, usage: Usage, *, blocks: bool = False) -> None:
        """Keep an amount from others until the cycle ends: count it in the planned version only.

        `blocks`: for one that blocks its StrictFIFO queue, so that the same is kept in the next cycle too.
        """
        own = {fr: max(0, node.quota(fr).nominal - node.usage.get(fr, 0)) for fr in usage}
        borrowed = {fr: max(0, amount - own[fr]) for fr, amount in usage.items()}
        self._separate(node)
        node.add_all(usage)
        (self._withheld_by_blocking if blocks else self._withheld).append((node, usage))
        if any(borrowed.values()):
            self._withheld_to_borrow.append((node, borrowed))

    def plan(self, reservation: Reservation) -> None:
        """Plan that the victims are gone and their preemptor is admitted. Replaces what was planned for it."""
        self.forget(reservation.info.uid)
        queue = self._state.queues.get(reservation.cluster_queue)
        if queue is None or reservation.info.uid in self._state.holdings:
            return
        self._planned[reservation.info.uid] = reservation
        self._planned_below.setdefault(queue.node.root, {})[reservation.info.uid] = reservation
        self._remove([uid for uid in reservation.victims if uid not in self._victims])
        self._victims.update(reservation.victims.keys())
        self._separate(queue.node)
        queue.node.add_all(reservation.usage)
        self._by_root.clear()

    def forget(self, preemptor: str) -> Reservation | None:
        """Remove what was planned for the preemptor of this UID, and return it; None if nothing was."""
        reservation = self._planned.pop(preemptor, None)
        if reservation is None:
            return None
        self._held.pop(preemptor, None)
        node = self._state.queues[reservation.cluster_queue].node
        del self._planned_below[node.root][preemptor]
        node.remove_all(reservation.usage)
        self._by_root.clear()
        self._victims.subtract(reservation.victims.keys())
        remaining = [uid for uid in reservation.victims if not self._victims[uid]]
        for uid in remaining:
            del self._victims[uid]
        self._put_back(remaining)
        return reservation

    def _remove(self, victims: Iterable[str]) -> None:
        for node, usage in self._usage_of(victims):
            self._separate(node)
            node.remove_all(usage)

    def _put_back(self, victims: Iterable[str]) -> None:
        for node, usage in self._usage_of(victims):
            self._separate(node)
            node.add_all(usage)

    def _usage_of(self, victims: Iterable[str]) -> list[tuple[QuotaNode, Usage]]:
        """The usage of these Workloads by ClusterQueue."""
        return self._state.usage_by_node(held for uid in victims if (held := self._state.counted(uid)) is not None)

    def without(self, concerned: frozenset[str]) -> AbstractContextManager[None]:
        """Context in which nothing is planned for these preemptors."""
        return self._without(concerned) if concerned else nullcontext()

    @contextmanager
    def _without(self, concerned: frozenset[str]) -> Iterator[None]:
        forgotten = [r for uid in sorted(concerned) if (r := self.forget(uid)) is not None]
        try:
            yield
        finally:
            for reservation in forgotten:
                self.plan(reservation)

    def without_withheld(self, *, by_blocking_only: bool = False) -> AbstractContextManager[None]:
        """Context in which nothing is withheld, or nothing by those that block their StrictFIFO queues."""
        return self._left_out(self._withheld_by_blocking + ([] if by_blocking_only else self._withheld))

    def gives_way_to(self, queue: QueueState, usage: Usage) -> bool:
        """Whether something is withheld that others would borrow, while this usage takes nothing but own quota, which
        its ClusterQueue can always reclaim.
        """
        return bool(self._withheld_to_borrow) and can_always_reclaim(queue) and self._is_own(queue.node, usage)

    def beside_withheld(self, queue: QueueState, usage: Usage) -> AbstractContextManager[None]:
        """Context in which nothing is withheld that gives way to this usage."""
        return self._left_out(self._withheld_to_borrow) if self.gives_way_to(queue, usage) else nullcontext()

    @contextmanager
    def _left_out(self, withheld: Sequence[tuple[QuotaNode, Usage]]) -> Iterator[None]:
        for node, usage in withheld:
            node.remove_all(usage)
        try:
            yield
        finally:
            for node, usage in reversed(withheld):
                node.add_all(usage)

    # --- the two versions ---

    def _differs(self, node: QuotaNode) -> bool:
        """Whether the versions differ at this node or one of its ancestors, and so at the root."""
        return bool(self._now) and node.root in self._now

    def _keep_original(self, node: QuotaNode) -> None:
        if node in self._original:
            return
        for each in node.path():
            if each not in self._original:
                self._original[each] = each.usage
                each.usage = dict(each.usage)

    def _separate(self, node: QuotaNode) -> None:
        """Keep both versions of this node and its ancestors, which may become different."""
        if node in self._now:
            return
        self._keep_original(node)
        separated = self._separated.setdefault(node.root, [])
        for each in node.path():
            if each not in self._now:
                self._now[each] = dict(each.usage)
                separated.append(each)

    @contextmanager
    def _present(self, nodes: Iterable[QuotaNode]) -> Iterator[None]:
        """Context in which these nodes have the current usage."""
        differing = [each for each in nodes if each in self._now]
        self._swap(differing)
        try:
            yield
        finally:
            self._swap(differing)

    def _beside_claims(self, node: QuotaNode, fr: FlavorResource, call: Callable[[], T]) -> list[T]:
        """What `call` returns with the current usage of `fr` in the tree, for each node of the path with the claims
        that leave the least there: one of them, or its borrowing limit, decides what is left to `node`.
        """
        claims = self._claims(node.root)
        if len(claims) < 2:  # less is left once its preemption is done: that is planned
            with self._present(node.path()):
                return [call()]
        tree, found = self._separated[node.root], []
        for top in node.path():
            with self._copied(tree, fr):
                self._count_claims(claims, fr, partial(room, node, top, fr))
                found.append(call())
        return found

    def _count_claims(self, claims: Iterable[Reservation], fr: FlavorResource, left: Callable[[], int]) -> None:
        """Add to the usage of the tree the claims that make less of what is `left`.

        A preemptor that also counts on victims of others claims nothing: what is planned leaves room for it.
        """
        gone: set[str] = set()
        for claim in claims:
            before = left()
            preemptor, amount = self._state.queues[claim.cluster_queue].node, claim.usage.get(fr, 0)
            released = [(each, usage.get(fr, 0)) for each, usage in self._released(claim, gone)]
            for each, used in released:
                each.remove(fr, used)
            suffices = amount <= preemptor.available(fr)
            preemptor.add(fr, amount)
            if suffices and left() <= before:
                gone.update(claim.victims)
            else:
                preemptor.remove(fr, amount)
                for each, used in released:
                    each.add(fr, used)

    def _released(self, claim: Reservation, gone: AbstractSet[str]) -> list[tuple[QuotaNode, Usage]]:
        """The usage by ClusterQueue of the victims of this preemptor that are not `gone`."""
        if not gone.isdisjoint(claim.victims):
            return self._usage_of(uid for uid in claim.victims if uid not in gone)
        held = self._held.get(claim.info.uid)
        if held is None:
            held = self._held[claim.info.uid] = self._usage_of(claim.victims)
        return held

    @contextmanager
    def _copied(self, nodes: Sequence[QuotaNode], fr: FlavorResource) -> Iterator[None]:
        """Context in which these nodes have a copy of the current usage of `fr`, and no other usage."""
        planned = [each.usage for each in nodes]
        for each in nodes:
            each.usage = {fr: self._now[each].get(fr, 0)}
        try:
            yield
        finally:
            for each, usage in zip(nodes, planned, strict=True):
                each.usage = usage

    def _claims(self, root: QuotaNode) -> list[Reservation]:
        """What is planned in this tree for preemptors with victims of their own, in the order of their next try."""
        if len(self._planned) < 2:
            return []
        known = self._by_root.get(root)
        if known is None:
            found = (r for r in self._planned_below.get(root, {}).values() if r.victims)
            known = self._by_root[root] = sorted(found, key=lambda r: r.retry_order)
        return known

    def _swap(self, path: list[QuotaNode]) -> None:
        for each in path:
            each.usage, self._now[each] = self._now[each], each.usage


def can_always_reclaim(queue: QueueState) -> bool:
    """Whether quota that is lent comes back on demand. Kueue: CanAlwaysReclaim"""
    return queue.queue.spec.preemption.reclaim_within_cohort == policy_values.ANY


def borrows_from(state: SchedulerState, reservation: Reservation, node: QuotaNode) -> bool:
    """Whether a preemptor will borrow from the subtree in which another ClusterQueue is."""
    preemptor = state.queues.get(reservation.cluster_queue)
    if preemptor is None or preemptor.node is node or not reservation.borrow:
        return False
    holds = smallest_subtree(preemptor.node, reservation.borrow)
    return any(each is holds for each in node.path())


def passes(state: SchedulerState, info: Info, queue: QueueState, reservation: Reservation) -> bool:
    """Whether a head of this ClusterQueue may use the quota that is kept for a preemptor.

    True for the preemptor itself, and for a head of higher priority that cannot become a victim of the preemptor:
    otherwise the two would evict each other in turn. A preemptor can reclaim from higher priorities by policy Any,
    outside of the smallest subtree that holds it; with fair sharing everywhere but in its own ClusterQueue. What the
    victims of others leave over is not kept from those ordered before it in its ClusterQueue.

    Where withinClusterQueue is Never, no other of its ClusterQueue passes a preemptor that cannot reclaim the quota
    again: that one could wait without end, and the other could not preempt it either.
    """
    if info.uid == reservation.info.uid:
        return True
    is_rest = not reservation.victims and queue.name == reservation.cluster_queue
    if is_rest and _is_before(state, queue, info, reservation.info):
        return True
    if info.priority <= reservation.info.priority or _needs_its_last_victims(state, queue, reservation):
        return False
    preemptor = state.queues.get(reservation.cluster_queue)
    if preemptor is None or preemptor.queue.spec.preemption.reclaim_within_cohort != policy_values.ANY:
        return True
    safe = smallest_subtree(preemptor.node, 0 if state.fair_sharing else reservation.borrow)
    return any(each is safe for each in queue.node.path())


def _needs_its_last_victims(state: SchedulerState, queue: QueueState, reservation: Reservation) -> bool:
    """Whether others of this ClusterQueue never preempt a preemptor which may not preempt one of its victims again
    (`quota_state.MOST_RECLAIMS`).
    """
    may_stop = queue.queue.spec.preemption.within_cluster_queue != policy_values.NEVER
    if may_stop or queue.name != reservation.cluster_queue:
        return False
    return any(state.reclaims(reservation.info.uid, uid) >= MOST_RECLAIMS for uid in reservation.victims)


def _is_before(state: SchedulerState, queue: QueueState, one: Info, other: Info) -> bool:
    """Whether `one` has the priority of `other`, and is ordered before it in their ClusterQueue."""
    usage = state.usage_order
    if usage is None or not is_usage_based(queue.queue):
        return one.priority == other.priority and one.rank < other.rank
    return one.priority == other.priority and (usage(one.queue), one.rank) < (usage(other.queue), other.rank)

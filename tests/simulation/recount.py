"""The equations of the quota tree, written down once more over the specs of the objects.

Slow, recursive, without the product's tree: the reference for the numbers in an explanation. Source:
queue_manager/BEHAVIOUR.md#q14-quota-tree; of the shares: queue_manager/BEHAVIOUR.md#q46-fair-sharing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import inf

from job_controller.quantities import exact
from queue_manager.scheduling.amounts import amount
from queue_manager.scheduling.holdings import Holding, Reservation
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.visibility.scheduler_judgement import ClusterObjects

Usage = Mapping[FlavorResource, int]
UNLIMITED = 2**63 - 1


@dataclass(frozen=True)
class Recount:
    """The tree of the objects with this usage by ClusterQueue. Ask nothing about what is below a cycle of Cohorts."""

    objects: ClusterObjects
    usage: Mapping[str, Usage]  # by ClusterQueue

    def __post_init__(self) -> None:
        specs = {("cq", q.metadata.name): q.spec for q in self.objects.cluster_queues}
        specs |= {("co", c.metadata.name): c.spec for c in self.objects.cohorts}
        object.__setattr__(self, "specs", specs)

    def parent(self, node: tuple[str, str]) -> tuple[str, str] | None:
        spec = self.specs.get(node)
        name = "" if spec is None else spec.cohort_name if node[0] == "cq" else spec.parent_name
        return ("co", name) if name else None

    def children(self, node: tuple[str, str]) -> list[tuple[str, str]]:
        named = [("co", self.specs[n].parent_name) for n in self.specs if n[0] == "co" and self.specs[n].parent_name]
        named += [("co", self.specs[n].cohort_name) for n in self.specs if n[0] == "cq" and self.specs[n].cohort_name]
        return [n for n in {*self.specs, *named} if self.parent(n) == node]

    def is_below_cycle(self, node: tuple[str, str]) -> bool:
        seen: set[tuple[str, str]] = set()
        for above in self.ancestors(node):
            if above in seen:
                return True
            seen.add(above)
        return False

    def quota(self, node: tuple[str, str], fr: FlavorResource) -> tuple[int, int | None, int | None]:
        """(nominal, borrowingLimit, lendingLimit)."""
        spec = self.specs.get(node)
        for group in spec.resource_groups if spec is not None else ():
            for flavor in group.flavors:
                for quota in flavor.resources:
                    if FlavorResource(flavor.name, quota.name) == fr:
                        limits = (quota.borrowing_limit, quota.lending_limit)
                        borrowing, lending = (None if each is None else amount(fr.resource, each) for each in limits)
                        return amount(fr.resource, quota.nominal_quota), borrowing, lending
        return 0, None, None

    def subtree(self, node: tuple[str, str], fr: FlavorResource) -> int:
        lent = sum(self.subtree(child, fr) - self.local(child, fr) for child in self.children(node))
        return self.quota(node, fr)[0] + lent

    def local(self, node: tuple[str, str], fr: FlavorResource) -> int:
        lending = self.quota(node, fr)[2]
        return 0 if lending is None else max(0, self.subtree(node, fr) - lending)

    def used(self, node: tuple[str, str], fr: FlavorResource) -> int:
        if node[0] == "cq":
            return self.usage.get(node[1], {}).get(fr, 0)
        return sum(max(0, self.used(child, fr) - self.local(child, fr)) for child in self.children(node))

    def available(self, node: tuple[str, str], fr: FlavorResource) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, fr) - self.used(node, fr)
        local, used, borrowing = self.local(node, fr), self.used(node, fr), self.quota(node, fr)[1]
        most = UNLIMITED
        if borrowing is not None:
            most = self.subtree(node, fr) - local - max(0, used - local) + borrowing
        return max(0, local - used) + min(self.available(parent, fr), most)

    def takes(self, node: tuple[str, str], other: tuple[str, str], fr: FlavorResource) -> bool:
        """Whether usage of `node` counts in the lowest cohort that contains both."""
        around = set(self.ancestors(other))
        apart = [each for each in self.ancestors(node) if each not in around]
        return all(self.used(each, fr) > self.local(each, fr) for each in apart)

    def potential(self, node: tuple[str, str], fr: FlavorResource) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, fr)
        borrowing = self.quota(node, fr)[1]
        most = UNLIMITED if borrowing is None else self.subtree(node, fr) + borrowing
        return min(self.local(node, fr) + self.potential(parent, fr), most)

    def height(self, node: tuple[str, str]) -> int:
        """The number of levels below a node."""
        return max((self.height(child) + 1 for child in self.children(node)), default=0)

    # --- shares ---

    def ancestors(self, node: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """The node and all above it."""
        above: tuple[str, str] | None = node
        while above is not None:
            yield above
            above = self.parent(above)

    def branches(self, one: str, other: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """The children of the lowest common cohort of two ClusterQueues of one tree that lead to them."""
        theirs = {self.parent(node): node for node in self.ancestors(("cq", other))}
        own = next(node for node in self.ancestors(("cq", one)) if self.parent(node) in theirs)
        return own, theirs[self.parent(own)]

    def share(self, node: tuple[str, str], resource: str) -> Fraction | float:
        """The dominant resource share of a node that is not a root, where only this resource is used."""
        parent, spec = self.parent(node), self.specs.get(node)
        known = {fr for usage in self.usage.values() for fr in usage if fr.resource == resource} | self.quotas(resource)
        borrowed = sum(max(0, self.used(node, fr) - self.subtree(node, fr)) for fr in known)
        lendable = sum(self.potential(parent, fr) for fr in known) if parent is not None else 0
        weight = spec.fair_sharing.weight if spec is not None and spec.fair_sharing is not None else None
        by = Fraction(1) if weight is None else exact(weight)
        if not borrowed:
            return Fraction(0)
        return inf if by == 0 else Fraction(borrowed * 1000, lendable or 1) / by

    def quotas(self, resource: str) -> set[FlavorResource]:
        """What any node has a quota for."""
        groups = [group for spec in self.specs.values() for group in spec.resource_groups]
        return {
            FlavorResource(f.name, q.name) for g in groups for f in g.flavors for q in f.resources if q.name == resource
        }


def total(usages: Iterable[tuple[str, Usage]]) -> dict[str, dict[FlavorResource, int]]:
    """The usage by ClusterQueue, added up."""
    result: dict[str, dict[FlavorResource, int]] = {}
    for name, usage in usages:
        for fr, value in usage.items():
            of_queue = result.setdefault(name, {})
            of_queue[fr] = of_queue.get(fr, 0) + value
    return result


def after(holdings: Iterable[Holding], objects: ClusterObjects, done: Iterable[Reservation]) -> Recount:
    """The tree when these preemptions are done."""
    victims = {uid for r in done for uid in r.victims}
    staying = ((h.cluster_queue, h.usage) for h in holdings if h.uid not in victims or not h.evicted)
    return Recount(objects, total([*staying, *((r.cluster_queue, r.usage) for r in done)]))


def least_available(
    objects: ClusterObjects,
    holdings: Collection[Holding],
    reservations: Collection[Reservation],
    node: tuple[str, str],
    fr: FlavorResource,
) -> int:
    """What is available to a node whichever preemptions are done: none, all, or any whose own victims suffice."""
    certain = min(after(holdings, objects, done).available(node, fr) for done in ((), reservations))
    preemptors = [r for r in reservations if r.victims]
    some = (done for size in range(1, len(preemptors) + 1) for done in combinations(preemptors, size))
    possible = ((done, after(holdings, objects, done)) for done in some)
    suffices = (
        found.available(node, fr)
        for done, found in possible
        if all(found.available(("cq", r.cluster_queue), fr) >= 0 for r in done)
    )
    return min([certain, *suffices])


def free(
    objects: ClusterObjects,
    holdings: Collection[Holding],
    reservations: Collection[Reservation],
    node: tuple[str, str],
    fr: FlavorResource,
) -> int:
    """What is not in use, and not kept; of its own quota nothing is kept from a ClusterQueue that can reclaim it."""
    least = least_available(objects, holdings, reservations, node, fr)
    others = [r for r in reservations if not yields(objects, r, node)]
    if len(others) == len(reservations):
        return least
    now, planned = (after(holdings, objects, done) for done in ((), reservations))
    own = now.quota(node, fr)[0] - max(now.used(node, fr), planned.used(node, fr))
    return max(least, min(own, least_available(objects, holdings, others, node, fr)))


def yields(objects: ClusterObjects, reservation: Reservation, node: tuple[str, str]) -> bool:
    """Whether the preemptor would borrow from a ClusterQueue whose policy lets it reclaim from anyone."""
    tree, preemptor = Recount(objects, {}), ("cq", reservation.cluster_queue)
    if preemptor == node or not reservation.borrow or tree.specs[node].preemption.reclaim_within_cohort != "Any":
        return False
    holds = next(each for each in tree.ancestors(preemptor) if tree.height(each) >= reservation.borrow)
    return holds in tree.ancestors(node)

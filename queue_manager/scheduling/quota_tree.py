"""The quota tree: how much a ClusterQueue may use of its own quota and of its cohort's.

Every node (ClusterQueue or cohort) has quotas and a usage per flavor and resource. A node offers its parent the quota
that it may lend. Usage beyond its guaranteed part ("local quota") counts as usage of the parent, and so on up to the
root. All amounts are exact integers.

    subtree(ClusterQueue) = nominal          subtree(cohort) = nominal + sum of children (subtree - local)
    local(node)           = max(0, subtree - lendingLimit) with a lendingLimit, else 0
    available(root)       = subtree - usage
    available(node)       = max(0, local - usage) + min(available(parent), remainder of borrowingLimit)
    potential(node)       = the same without any usage

Kueue: pkg/cache/scheduler/resource_node.go, KEP-79; BEHAVIOUR.md#q14-quota-tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple


class FlavorResource(NamedTuple):
    """One resource in one flavor: the key of quota and usage."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one FlavorResource, in the units of `amounts`. A limit of None is no limit."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


NO_QUOTA = Quota()


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort."""

    name: str
    quotas: dict[FlavorResource, Quota] = field(default_factory=dict)
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    subtree: dict[FlavorResource, int] = field(default_factory=dict)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    weight: Fraction = Fraction(1)  # among its siblings, for fair sharing

    def path(self) -> Iterator[QuotaNode]:
        """This node and its ancestors, up to the root."""
        node: QuotaNode | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        """The root of this node's tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def quota(self, fr: FlavorResource) -> Quota:
        """The node's own quota of `fr`; NO_QUOTA if it has none."""
        return self.quotas.get(fr, NO_QUOTA)

    def local_quota(self, fr: FlavorResource) -> int:
        """The part of the subtree's quota that the rest of the cohort cannot borrow."""
        limit = self.quota(fr).lending_limit
        return 0 if limit is None else max(0, self.subtree.get(fr, 0) - limit)

    def local_available(self, fr: FlavorResource) -> int:
        """The free part of the local quota."""
        return max(0, self.local_quota(fr) - self.usage.get(fr, 0))

    def available(self, fr: FlavorResource) -> int:
        """The amount that can still be used here. Negative if quota was lowered below the usage."""
        used = self.usage.get(fr, 0)
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree - used
        above = self.parent.available(fr)
        limit = self.quota(fr).borrowing_limit
        if limit is not None:
            local = self.local_quota(fr)
            above = min(above, subtree - local - max(0, used - local) + limit)
        return self.local_available(fr) + above

    def potential(self, fr: FlavorResource) -> int:
        """The amount that could be used here if nothing else ran."""
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree
        most = self.local_quota(fr) + self.parent.potential(fr)
        limit = self.quota(fr).borrowing_limit
        return most if limit is None else min(most, subtree + limit)

    def borrow_level(self, fr: FlavorResource, amount: int) -> int:
        """Height of the lowest subtree that holds `amount` more without borrowing; 0 is this node itself."""
        node, remaining = self, amount
        while node.parent is not None and node.usage.get(fr, 0) + remaining > node.subtree.get(fr, 0):
            remaining -= node.local_available(fr)
            node = node.parent
        return node.height

    @property
    def height(self) -> int:
        """The number of levels below; 0 for a ClusterQueue."""
        return 1 + max(child.height for child in self.children) if self.children else 0

    def add(self, fr: FlavorResource, amount: int) -> None:
        """Add usage here, and in the parent the part that exceeds the free local quota."""
        free = self.local_available(fr)
        self.usage[fr] = self.usage.get(fr, 0) + amount
        if self.parent is not None and amount > free:
            self.parent.add(fr, amount - free)

    def remove(self, fr: FlavorResource, amount: int) -> None:
        """The reverse of `add`."""
        in_parent = max(0, self.usage.get(fr, 0) - self.local_quota(fr))
        self.usage[fr] = self.usage.get(fr, 0) - amount
        if self.parent is not None and in_parent > 0:
            self.parent.remove(fr, min(amount, in_parent))

    def add_all(self, usage: Usage) -> None:
        """Add every amount of `usage`."""
        for fr, amount in usage.items():
            self.add(fr, amount)

    def remove_all(self, usage: Usage) -> None:
        """Remove every amount of `usage`."""
        for fr, amount in usage.items():
            self.remove(fr, amount)


def link(child: QuotaNode, parent: QuotaNode) -> None:
    """Make `child` a child of `parent`. Call compute_subtrees after all links are made."""
    child.parent = parent
    parent.children.append(child)


def compute_subtrees(roots: Iterable[QuotaNode]) -> None:
    """Compute `subtree` from the leaves up."""
    for root in roots:
        _compute(root)


def _compute(node: QuotaNode) -> None:
    node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
    for child in node.children:
        _compute(child)
        for fr, amount in child.subtree.items():
            node.subtree[fr] = node.subtree.get(fr, 0) + amount - child.local_quota(fr)

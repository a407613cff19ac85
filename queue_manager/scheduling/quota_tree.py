"""The quota tree: how much each ClusterQueue may use, of its own and of its cohort's.

Every node (ClusterQueue or cohort) has quotas and a usage per flavor and resource. A node offers its parent
what it may lend; what it uses beyond its own guaranteed part ("local quota") counts as usage of the parent,
and so on up to the root. All amounts are exact integers (spec: kueue.md 6.3).

    subtree(ClusterQueue) = nominal          subtree(cohort) = nominal + sum of children (subtree - local)
    local(node)           = max(0, subtree - lendingLimit) with a lendingLimit, else 0
    available(root)       = subtree - usage
    available(node)       = max(0, local - usage) + min(available(parent), what borrowingLimit leaves)
    potential(node)       = the same with no usage anywhere
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class FlavorResource(NamedTuple):
    """What quota is of: one resource in one flavor."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Quota:
    """What a ClusterQueue has of one FlavorResource, in the units of `amounts`. Limits are None where there is none."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


NO_QUOTA = Quota()


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue, or a cohort of them."""

    name: str
    quotas: dict[FlavorResource, Quota] = field(default_factory=dict)
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    subtree: dict[FlavorResource, int] = field(default_factory=dict)
    usage: dict[FlavorResource, int] = field(default_factory=dict)

    @property
    def root(self) -> QuotaNode:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def quota(self, fr: FlavorResource) -> Quota:
        return self.quotas.get(fr, NO_QUOTA)

    def local_quota(self, fr: FlavorResource) -> int:
        """The part of the subtree's quota that nobody else may borrow."""
        limit = self.quota(fr).lending_limit
        return 0 if limit is None else max(0, self.subtree.get(fr, 0) - limit)

    def local_available(self, fr: FlavorResource) -> int:
        """What is still free of the part that nobody else may borrow."""
        return max(0, self.local_quota(fr) - self.usage.get(fr, 0))

    def available(self, fr: FlavorResource) -> int:
        """What can still be used here. Negative when quota was lowered below the usage."""
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
        """What could be used here if nothing else ran."""
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree
        most = self.local_quota(fr) + self.parent.potential(fr)
        limit = self.quota(fr).borrowing_limit
        return most if limit is None else min(most, subtree + limit)

    def borrow_level(self, fr: FlavorResource, amount: int) -> int:
        """Height of the lowest subtree that holds `amount` more without borrowing: 0 is this node itself."""
        node, remaining = self, amount
        while node.parent is not None and node.usage.get(fr, 0) + remaining > node.subtree.get(fr, 0):
            remaining -= node.local_available(fr)
            node = node.parent
        return node.height

    @property
    def height(self) -> int:
        """How many levels there are below: 0 for a ClusterQueue."""
        return 1 + max(child.height for child in self.children) if self.children else 0

    def add(self, fr: FlavorResource, amount: int) -> None:
        """Count usage here, and above what exceeds the free part of the local quota."""
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
        for fr, amount in usage.items():
            self.add(fr, amount)

    def remove_all(self, usage: Usage) -> None:
        for fr, amount in usage.items():
            self.remove(fr, amount)


def link(child: QuotaNode, parent: QuotaNode) -> None:
    """Put a node under its cohort. Call compute_subtrees when all links stand."""
    child.parent = parent
    parent.children.append(child)


def compute_subtrees(roots: Iterable[QuotaNode]) -> None:
    """Fill in `subtree` from the leaves up, once quotas and links stand."""
    for root in roots:
        _compute(root)


def _compute(node: QuotaNode) -> None:
    node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
    for child in node.children:
        _compute(child)
        for fr, amount in child.subtree.items():
            node.subtree[fr] = node.subtree.get(fr, 0) + amount - child.local_quota(fr)

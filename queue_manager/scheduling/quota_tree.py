"""The quota tree: how much a ClusterQueue may use of its own quota and of its cohort's.

Every node (ClusterQueue or cohort) has quotas and a usage per flavor and resource. A node offers its parent the quota
that it may lend. Usage beyond its guaranteed part ("local quota") counts as usage of the parent, and so on up to the
root.

    subtree(ClusterQueue) = nominal          subtree(cohort) = nominal + sum of children (subtree - local)
    usage(ClusterQueue) = of its Workloads   usage(cohort) = sum of children max(0, usage - local)
    local(node)           = max(0, subtree - lendingLimit) with a lendingLimit, else 0
    available(root)       = subtree - usage
    available(node)       = max(0, local - usage) + min(available(parent), remainder of borrowingLimit)
    potential(node)       = the same without any usage

These equations hold after every call: a change of a node replaces what it and its ancestors contribute to their
parents, so it costs a step per level; only to link or unlink a node reads its siblings. `subtree` and `usage` are exact
integers of any size, which is why nothing that is added and removed leaves a trace. `available` and `potential`
saturate at 64 bits, as the quotas themselves (Kueue: resources.Amount). No method recurses: the depth of a tree is
bounded by memory only.

Kueue: pkg/cache/scheduler/resource_node.go, KEP-79; BEHAVIOUR.md#q14-quota-tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from job_controller.quantities import INT64_MAX


class FlavorResource(NamedTuple):
    """One resource in one flavor: the key of quota and usage."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]
NOTHING: Usage = {}


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one FlavorResource, in the units of `amounts`. A limit of None means no limit."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


NO_QUOTA = Quota()
Quotas = Mapping[FlavorResource, Quota]


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort. `link`, `unlink` and `set_quotas` change the tree, `add` and `remove` the usage."""

    name: str
    quotas: Quotas = field(default_factory=dict)
    is_cohort: bool = False
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    subtree: dict[FlavorResource, int] = field(init=False)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    height: int = 0  # the number of levels below; 0 for a ClusterQueue
    weight: Fraction = Fraction(1)  # among its siblings, for fair sharing

    def __post_init__(self) -> None:
        self.subtree = {fr: quota.nominal for fr, quota in self.quotas.items()}

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

    def below(self) -> Iterator[QuotaNode]:
        """This node and its descendants, each after its parent."""
        found = [self]
        for node in found:
            yield node
            found += node.children

    def quota(self, fr: FlavorResource) -> Quota:
        """The node's own quota of `fr`; NO_QUOTA if it has none."""
        return self.quotas.get(fr, NO_QUOTA)

    def local_quota(self, fr: FlavorResource) -> int:
        """The part of the subtree's quota that the rest of the cohort cannot borrow."""
        quota = self.quotas.get(fr)
        if quota is None or quota.lending_limit is None:
            return 0
        return max(0, self.subtree.get(fr, 0) - quota.lending_limit)

    def local_available(self, fr: FlavorResource) -> int:
        """The free part of the local quota."""
        local = self.local_quota(fr)
        return max(0, local - self.usage.get(fr, 0)) if local else 0

    def available(self, fr: FlavorResource) -> int:
        """The amount that can still be used here. Negative if quota was lowered below the usage."""
        node, kept, most = self, 0, INT64_MAX  # `kept`: free in local quotas from here to below `node`
        while node.parent is not None:
            quota = node.quotas.get(fr)
            if quota is not None:
                used, local = node.usage.get(fr, 0), node.local_quota(fr) if quota.lending_limit is not None else 0
                kept += max(0, local - used)
                if quota.borrowing_limit is not None:
                    borrowed = max(0, used - local)
                    most = min(most, kept + node.subtree.get(fr, 0) - local - borrowed + quota.borrowing_limit)
            node = node.parent
        return min(most, kept + node.subtree.get(fr, 0) - node.usage.get(fr, 0))

    def potential(self, fr: FlavorResource) -> int:
        """The amount that could be used here if nothing else ran."""
        node, kept, most = self, 0, INT64_MAX
        while node.parent is not None:
            limit = node.quota(fr).borrowing_limit
            if limit is not None:
                most = min(most, kept + node.subtree.get(fr, 0) + limit)
            kept += node.local_quota(fr)
            node = node.parent
        return min(most, kept + node.subtree.get(fr, 0))

    def borrow_level(self, fr: FlavorResource, amount: int) -> int:
        """Height of the lowest subtree that holds `amount` more without borrowing; 0 is this node itself."""
        node, remaining = self, amount
        while node.parent is not None and node.usage.get(fr, 0) + remaining > node.subtree.get(fr, 0):
            remaining -= node.local_available(fr)
            node = node.parent
        return node.height

    def add(self, fr: FlavorResource, amount: int) -> None:
        """Add usage here, and in each ancestor the part that exceeds the free local quota below it."""
        node: QuotaNode | None = self
        while node is not None:
            used, quota = node.usage.get(fr, 0), node.quotas.get(fr)
            node.usage[fr] = used + amount
            if quota is not None and quota.lending_limit is not None:  # else the local quota is 0
                amount -= max(0, node.local_quota(fr) - used)
            node = node.parent if amount > 0 else None

    def remove(self, fr: FlavorResource, amount: int) -> None:
        """The reverse of `add`. At most the usage of this node can be removed."""
        node: QuotaNode | None = self
        while node is not None:
            used, quota = node.usage.get(fr, 0), node.quotas.get(fr)
            node.usage[fr] = used - amount
            local = node.local_quota(fr) if quota is not None and quota.lending_limit is not None else 0
            amount = min(amount, used - local)
            node = node.parent if amount > 0 else None

    def add_all(self, usage: Usage) -> None:
        """Add every amount of `usage`."""
        for fr, amount in usage.items():
            self.add(fr, amount)

    def remove_all(self, usage: Usage) -> None:
        """Remove every amount of `usage`."""
        for fr, amount in usage.items():
            self.remove(fr, amount)


# --- questions to the tree ---------------------------------------------------------------------------------


def smallest_subtree(node: QuotaNode, height: int) -> QuotaNode:
    """The lowest ancestor of `node`, or the node itself, of at least this height (see `QuotaNode.borrow_level`)."""
    while node.height < height and node.parent is not None:
        node = node.parent
    return node


def room(node: QuotaNode, top: QuotaNode, fr: FlavorResource) -> int:
    """The amount that `top`, which is on the path of `node`, and the local quotas below it could still hold."""
    kept, each = 0, node
    while each is not top and each.parent is not None:
        kept += each.local_available(fr)
        each = each.parent
    return kept + top.subtree.get(fr, 0) - top.usage.get(fr, 0)


def blocking_limits(
    node: QuotaNode, fr: FlavorResource, amount: int, *, unused: bool = False
) -> list[QuotaNode] | None:
    """The nodes whose borrowing limits alone keep `amount` more from fitting, from `node` up; None if it would not fit
    without any such limit either. `unused`: as if nothing ran (`QuotaNode.potential`, else `QuotaNode.available`).
    """
    found, each, kept = [], node, 0
    while each.parent is not None:
        used, local = 0 if unused else each.usage.get(fr, 0), each.local_quota(fr)
        kept += max(0, local - used)
        limit = each.quota(fr).borrowing_limit
        if limit is not None and kept + each.subtree.get(fr, 0) - local - max(0, used - local) + limit < amount:
            found.append(each)
        each = each.parent
    free = kept + each.subtree.get(fr, 0) - (0 if unused else each.usage.get(fr, 0))
    return found if amount <= free else None


def unlent(node: QuotaNode, fr: FlavorResource, amount: int) -> list[QuotaNode]:
    """The other nodes whose lending limits keep `amount` from fitting if nothing ran, as few as suffice; none if it
    fits, or would not fit without any such limit.
    """
    path = set(node.path())
    limited = (each for each in node.root.below() if each.quota(fr).lending_limit is not None)
    keeping = [each for each in limited if each not in path]
    if node.potential(fr) >= amount or _potential(node, fr, keeping) < amount:
        return []
    for each in sorted(keeping, key=lambda each: each.local_quota(fr)):
        others = [other for other in keeping if other is not each]
        if _potential(node, fr, others) >= amount:
            keeping = others
    return keeping


def _potential(node: QuotaNode, fr: FlavorResource, lenders: Collection[QuotaNode]) -> int:
    """`QuotaNode.potential`, if these nodes lent all that they have."""

    subtree: dict[QuotaNode, int] = {}

    def lent(each: QuotaNode) -> int:
        limit = each.quota(fr).lending_limit
        return subtree[each] if limit is None or each in lenders else min(subtree[each], limit)

    for each in reversed(list(node.root.below())):  # children before their parents
        subtree[each] = each.quota(fr).nominal + sum(map(lent, each.children))
    kept, most = 0, INT64_MAX
    *below, root = node.path()
    for each in below:
        limit = each.quota(fr).borrowing_limit
        if limit is not None:
            most = min(most, kept + subtree[each] + limit)
        kept += subtree[each] - lent(each)
    return min(most, kept + subtree[root])


def is_within_quota(node: QuotaNode, needs: frozenset[FlavorResource], reserved: Usage = NOTHING) -> bool:
    """Whether the subtree uses no more than its own quota of each of these. `reserved`: the part that is not in use
    yet.
    """
    return all(node.usage.get(fr, 0) - reserved.get(fr, 0) <= node.subtree.get(fr, 0) for fr in needs)


# --- changes of the tree -----------------------------------------------------------------------------------


def link(child: QuotaNode, parent: QuotaNode) -> None:
    """Make `child`, which is a root, a child of `parent`, which is not below it."""
    _withdraw(parent)
    child.parent = parent
    parent.children.append(child)
    _contribute(child)
    _raise_heights(child)


def unlink(child: QuotaNode) -> None:
    """Make `child` the root of its subtree. Does nothing if it is a root."""
    parent = child.parent
    if parent is None:
        return
    _withdraw(child)
    parent.children.remove(child)
    child.parent = None
    _contribute(parent)
    _lower_heights(parent)


def set_quotas(node: QuotaNode, quotas: Quotas) -> None:
    """Replace the node's own quotas."""
    _withdraw(node)
    for fr, quota in node.quotas.items():
        node.subtree[fr] -= quota.nominal
    for fr, quota in quotas.items():
        node.subtree[fr] = node.subtree.get(fr, 0) + quota.nominal
    node.quotas = quotas
    _contribute(node)


def _withdraw(node: QuotaNode) -> None:
    """Subtract from each parent on the path what its child on the path contributes, from the root down."""
    for child in reversed(list(node.path())):
        _add_contribution(child, -1)


def _contribute(node: QuotaNode) -> None:
    """The reverse of `_withdraw`, from the node up."""
    for child in node.path():
        _add_contribution(child, 1)


def _add_contribution(child: QuotaNode, sign: int) -> None:
    """Add to the parent, if any, the quota that `child` may lend and the usage beyond its local quota."""
    parent = child.parent
    if parent is None:
        return
    for fr, subtree in child.subtree.items():
        parent.subtree[fr] = parent.subtree.get(fr, 0) + sign * (subtree - child.local_quota(fr))
    for fr, usage in child.usage.items():
        parent.usage[fr] = parent.usage.get(fr, 0) + sign * max(0, usage - child.local_quota(fr))


def _raise_heights(node: QuotaNode) -> None:
    while node.parent is not None and node.parent.height <= node.height:
        node.parent.height = node.height + 1
        node = node.parent


def _lower_heights(node: QuotaNode | None) -> None:
    while node is not None:
        height = 1 + max((child.height for child in node.children), default=-1)
        if height == node.height:
            return
        node.height = height
        node = node.parent

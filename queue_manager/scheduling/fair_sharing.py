"""Fair sharing: whose Workload is served first when ClusterQueues compete for the quota of a cohort (KEP-1714).

The *dominant resource share* of a ClusterQueue or cohort says how much of its parent's quota it borrows:

    borrowed(node, resource)   = sum over flavors of max(0, usage - subtree quota)
    lendable(parent, resource) = sum over flavors of the parent's potential
    share(node)                = max over resources of borrowed * 1000 / lendable, divided by the node's weight

The share of a root is 0. A node with weight 0 that borrows has an infinite share; two such nodes compare by their
shares without weight. Shares are exact fractions, so their order does not depend on rounding.

The heads of a cycle are ordered by a tournament, one per root. At each cohort the winners of its children compete: the
first is the one whose child does not borrow a requested flavor from the cohort, then the one whose child has the lower
share with the Workload counted, then the one with the higher rank. Kueue: dominantResourceShare in
pkg/cache/scheduler, fairSharingIterator in pkg/scheduler; BEHAVIOUR.md#q46-fair-sharing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil, lcm
from typing import Generic, NamedTuple, TypeVar

from job_controller.quantities import INT64_MAX
from queue_manager.scheduling.queue_order import Rank
from queue_manager.scheduling.quota_tree import QuotaNode, Usage, is_within_quota

T = TypeVar("T")
PER_MILLE = 1000


class Share(NamedTuple):
    """A dominant resource share. A higher one is served later and preempted first."""

    infinite: bool  # borrows with weight 0
    per_mille: Fraction  # divided by the weight, unless that is 0

    @property
    def rounded(self) -> int:
        """status.fairSharing.weightedShare: rounded up; the largest 64-bit integer if it is infinite."""
        return INT64_MAX if self.infinite else min(INT64_MAX, ceil(self.per_mille))


NO_SHARE = Share(infinite=False, per_mille=Fraction(0))
ShareKey = tuple[bool, int]  # infinite, a multiple of the share; see `Shares.key_of`
NO_SHARE_KEY: ShareKey = (False, 0)


class Shares:
    """Computes shares from the usage in a quota tree. An instance may be used until quotas change."""

    def __init__(self) -> None:
        self._lendable: dict[QuotaNode, Mapping[str, int]] = {}
        self._factors: dict[QuotaNode, Mapping[str, int]] = {}
        self._multiples: dict[QuotaNode, Mapping[str, int]] = {}  # by parent

    def of(self, node: QuotaNode) -> Share:
        """The share of a node."""
        if node.parent is None:
            return NO_SHARE
        borrowed = _borrowed(node)
        return self._share(borrowed, node.parent, node.weight) if borrowed else NO_SHARE

    def key_of(self, node: QuotaNode) -> ShareKey:
        """The share as a key that orders the children of one parent as the shares do, without any fraction."""
        borrowed = _borrowed(node) if node.parent is not None else None
        if not borrowed:
            return NO_SHARE_KEY
        factors = self._factors.get(node)
        if factors is None:
            factors = self._factors[node] = self._factors_of(node, node.weight or Fraction(1))
        dominant = 0
        for resource, amount in borrowed.items():
            dominant = max(dominant, amount * factors.get(resource, 0))
        return node.weight == 0, dominant

    def _factors_of(self, node: QuotaNode, weight: Fraction) -> Mapping[str, int]:
        """By resource, what makes an integer of a share: the same multiple for all children of the parent."""
        parent = node.parent
        if parent is None:
            return {}
        multiples = self._multiples.get(parent)
        if multiples is None:
            lendable = {resource: amount for resource, amount in self._lendable_of(parent).items() if amount > 0}
            weights = lcm(*{child.weight.numerator for child in parent.children if child.weight})
            common = lcm(*lendable.values()) * weights
            multiples = self._multiples[parent] = {r: common // amount for r, amount in lendable.items()}
        return {r: multiple // weight.numerator * weight.denominator for r, multiple in multiples.items()}

    def _share(self, borrowed: Mapping[str, int], parent: QuotaNode, weight: Fraction) -> Share:
        lendable = self._lendable_of(parent)
        ratios = (Fraction(b * PER_MILLE, lendable[r]) for r, b in borrowed.items() if lendable.get(r, 0) > 0)
        dominant = max(ratios, default=Fraction(0))
        return Share(True, dominant) if weight == 0 else Share(False, dominant / weight)

    def _lendable_of(self, parent: QuotaNode) -> Mapping[str, int]:
        lendable = self._lendable.get(parent)
        if lendable is None:
            lendable = self._lendable[parent] = _lendable(parent)
        return lendable


def _borrowed(node: QuotaNode) -> dict[str, int]:
    """What the node uses above its quota, by resource."""
    borrowed: dict[str, int] = {}
    subtree = node.subtree
    for fr, used in node.usage.items():
        over = used - subtree.get(fr, 0)
        if over > 0:
            borrowed[fr.resource] = borrowed.get(fr.resource, 0) + over
    return borrowed


def _lendable(parent: QuotaNode) -> Mapping[str, int]:
    """The most that a node could use if nothing else ran, by resource, summed over all flavors."""
    result: dict[str, int] = {}
    for fr in parent.root.subtree:
        result[fr.resource] = result.get(fr.resource, 0) + parent.potential(fr)
    return result


# --- the order of heads ---


class Contender(NamedTuple):
    """The usage that a head would add, and its ClusterQueue."""

    node: QuotaNode  # its ClusterQueue
    usage: Usage
    rank: Rank


class _Place(NamedTuple):
    """Sort key of the children of a cohort, by the head that each nominates; the smallest wins."""

    borrows: bool
    share: Share
    rank: Rank  # total: no two heads have the same


def _place(node: QuotaNode, contender: Contender, shares: Shares) -> _Place:
    """The place of `node` among its siblings if this head were admitted."""
    requested = frozenset(fr for fr, amount in contender.usage.items() if amount > 0)
    contender.node.add_all(contender.usage)
    try:
        return _Place(not is_within_quota(node, requested), shares.of(node), contender.rank)
    finally:
        contender.node.remove_all(contender.usage)


class _Bracket(Generic[T]):
    """One node of the quota tree in a tournament: the heads of a ClusterQueue, or the children of a cohort.

    Each node nominates one head: a ClusterQueue its first one, a cohort that of its best child (`_Place`).
    """

    __slots__ = ("children", "depth", "heads", "node")

    def __init__(self, node: QuotaNode, depth: int) -> None:
        self.node = node
        self.depth = depth  # 0: root
        self.heads: list[tuple[Rank, Contender, T]] = []  # heap; of a ClusterQueue
        self.children: list[tuple[_Place, _Bracket[T]]] = []  # heap; of a cohort: those that nominate a head

    @property
    def nominee(self) -> tuple[Rank, Contender, T] | None:
        """The head that won below this node; None if none is left."""
        bracket = self
        while bracket.children:
            bracket = bracket.children[0][1]
        return bracket.heads[0] if bracket.heads else None

    def remove_nominee(self) -> list[_Bracket[T]]:
        """Remove the nominee. Returns the brackets below this one that nominated it: they have no place now."""
        path = [self]
        while path[-1].children:
            path.append(heapq.heappop(path[-1].children)[1])
        heapq.heappop(path[-1].heads)
        return path[1:]

    def remove_place(self, child: _Bracket[T]) -> None:
        """Remove a child from the heap; it nominates no head until it gets a new place."""
        self.children = [placed for placed in self.children if placed[1] is not child]
        heapq.heapify(self.children)


def fair_order(entries: Iterable[T], contender_of: Callable[[T], Contender], freed: list[QuotaNode]) -> Iterator[T]:
    """The entries in the order of the tournaments, the roots by name.

    Each tournament is decided when the next entry is requested, by the usage that the quota tree has then: the caller
    counts an admitted entry before it requests the next, and appends the ClusterQueues of its victims to `freed`, which
    is emptied. An entry costs O(depth * log(children)), a victim O(depth * children).
    """
    trees: dict[QuotaNode, dict[QuotaNode, _Bracket[T]]] = {}  # by root
    for entry in entries:
        contender = contender_of(entry)
        brackets = trees.setdefault(contender.node.root, {})
        for depth, node in enumerate(reversed(list(contender.node.path()))):
            brackets.setdefault(node, _Bracket(node, depth))
        heapq.heappush(brackets[contender.node].heads, (contender.rank, contender, entry))
    for root in sorted(trees, key=lambda node: node.name):
        yield from _tournament(trees[root], root, freed)


def _tournament(brackets: Mapping[QuotaNode, _Bracket[T]], root: QuotaNode, freed: list[QuotaNode]) -> Iterator[T]:
    """Yield the entries of one quota tree in the order in which they win."""
    without_place = list(brackets.values())
    shares = Shares()
    while True:
        for bracket in sorted(without_place, key=lambda b: -b.depth):  # those below decide about the nominee
            head, parent = bracket.nominee, bracket.node.parent
            if head is not None and parent is not None:
                heapq.heappush(brackets[parent].children, (_place(bracket.node, head[1], shares), bracket))
        winner = brackets[root].nominee
        if winner is None:
            return
        without_place = brackets[root].remove_nominee()
        yield winner[2]
        without_place += _outdated(brackets, freed, without_place)
        freed.clear()


def _outdated(
    brackets: Mapping[QuotaNode, _Bracket[T]], freed: Iterable[QuotaNode], without_place: list[_Bracket[T]]
) -> list[_Bracket[T]]:
    """Take the brackets of these ClusterQueues and the cohorts above them from their places: their usage has changed.

    Returns these brackets.
    """
    changed = {node: brackets[node] for queue in freed for node in queue.path() if node in brackets}
    outdated = [bracket for bracket in changed.values() if bracket not in without_place]
    for bracket in outdated:
        if bracket.node.parent is not None:
            brackets[bracket.node.parent].remove_place(bracket)
    return outdated

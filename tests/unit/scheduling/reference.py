"""What the scheduler must decide in small clusters, computed naively: the other side of `test_against_reference`.

Nothing here is incremental and nothing is shared with the product. A `World` never changes; a state without some
Workloads is another World, in which every number is counted again from the quotas and the Workloads up. The rules are
Kueue's (pkg/scheduler, pkg/cache/scheduler/resource_node.go, fair_sharing.go) with the differences that
queue_manager/BEHAVIOUR.md names. The rules of preemption are in `reference_preemption`, those of flavors and cycles in
`reference_cycle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import wraps
from typing import NamedTuple

FR = tuple[str, str]  # flavor and resource
Usage = Mapping[FR, int]


class Limits(NamedTuple):
    """The quota of a node in one FR; a limit of None is no limit."""

    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


@dataclass(frozen=True)
class Policies:
    """What decides who may be preempted, and when the next flavor is tried."""

    within: str = "Never"
    reclaim: str = "Never"
    borrow: str = "Never"  # borrowWithinCohort.policy
    threshold: int | None = None  # borrowWithinCohort.maxPriorityThreshold
    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = ""


@dataclass(frozen=True)
class Node:
    """A cohort, or with `groups` a ClusterQueue. A group: its resources, and its flavors in order."""

    name: str
    parent: str = ""
    quotas: Mapping[FR, Limits] = field(default_factory=dict)
    weight: Fraction = Fraction(1)
    groups: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    policies: Policies = Policies()


@dataclass(frozen=True)
class Held:
    """A Workload that holds quota. Times are whole seconds."""

    uid: str
    queue: str
    usage: Usage
    priority: int = 0
    queued: int = 0
    reserved: int = 0
    evicted: bool = False
    arrival: int = 0  # the order of those queued in the same second


@dataclass(frozen=True)
class Head:
    """A pending Workload. `pod_sets`: the requests of all pods of each; `refused`: flavors with a taint for it."""

    uid: str
    queue: str
    pod_sets: tuple[Mapping[str, int], ...]
    priority: int = 0
    queued: int = 0
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Kept:
    """The quota that is kept for a preemptor of an earlier cycle, and its victims with the reasons."""

    uid: str
    queue: str
    priority: int
    usage: Usage
    borrow: int
    victims: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class World:
    """ClusterQueues and cohorts by name, Workloads, and usage that is counted besides (`added`).

    `preempted`: by uid of a preemptor, how often it has preempted which uid.
    """

    nodes: Mapping[str, Node]
    held: tuple[Held, ...] = ()
    heads: tuple[Head, ...] = ()
    kept: tuple[Kept, ...] = ()
    preempted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    strategies: tuple[str, ...] = ()  # of fair sharing; (): off
    added: tuple[tuple[str, Usage], ...] = ()
    takes_own: bool = True  # of the head in question: it borrows nothing, as far as known
    memo: dict = field(default_factory=dict, repr=False)

    def without(self, uids: Iterable[str]) -> World:
        """The world in which these Workloads hold nothing."""
        gone = set(uids)
        return replace(self, held=tuple(h for h in self.held if h.uid not in gone), memo={})

    def plus(self, queue: str, usage: Usage) -> World:
        """The world in which the ClusterQueue uses more."""
        return replace(self, added=(*self.added, (queue, usage)), memo={})


def counted(function: Callable) -> Callable:
    """Compute each number of a World once. Another World starts from nothing."""

    @wraps(function)
    def remembered(world: World, *args):
        key = (function, *args)
        if key not in world.memo:
            world.memo[key] = function(world, *args)
        return world.memo[key]

    return remembered


# --- the tree ----------------------------------------------------------------------------------------------


def above(w: World, name: str) -> list[str]:
    """The cohorts above a node, the nearest first."""
    parent = w.nodes[name].parent
    return [parent, *above(w, parent)] if parent else []


def children(w: World, name: str) -> list[str]:
    return sorted(n.name for n in w.nodes.values() if n.parent == name)


def is_queue(w: World, name: str) -> bool:
    return bool(w.nodes[name].groups)


@counted
def height(w: World, name: str) -> int:
    """The number of levels below a node."""
    return max((height(w, child) + 1 for child in children(w, name)), default=0)


def resources_of_all(w: World) -> list[FR]:
    return sorted({fr for n in w.nodes.values() for fr in n.quotas})


# --- quota -------------------------------------------------------------------------------------------------


def limits(w: World, name: str, fr: FR) -> Limits:
    return w.nodes[name].quotas.get(fr, Limits())


@counted
def subtree(w: World, name: str, fr: FR) -> int:
    """The quota of a node and of all below, as far as they lend it."""
    lent = sum(subtree(w, child, fr) - local(w, child, fr) for child in children(w, name))
    return limits(w, name, fr).nominal + lent


def local(w: World, name: str, fr: FR) -> int:
    """The quota that a node never lends."""
    lending = limits(w, name, fr).lending
    return 0 if lending is None else max(0, subtree(w, name, fr) - lending)


@counted
def used(w: World, name: str, fr: FR) -> int:
    """What counts against the quota of a node."""
    if is_queue(w, name):
        own = [h.usage for h in w.held if h.queue == name] + [usage for queue, usage in w.added if queue == name]
        return sum(usage.get(fr, 0) for usage in own)
    return sum(max(0, used(w, child, fr) - local(w, child, fr)) for child in children(w, name))


def local_available(w: World, name: str, fr: FR) -> int:
    return max(0, local(w, name, fr) - used(w, name, fr))


@counted
def available(w: World, name: str, fr: FR) -> int:
    """What may still be used; negative after more was used than the quota is now."""
    parent, borrowing = w.nodes[name].parent, limits(w, name, fr).borrowing
    if not parent:
        return subtree(w, name, fr) - used(w, name, fr)
    shared = available(w, parent, fr)
    if borrowing is not None:
        lent = subtree(w, name, fr) - local(w, name, fr)
        shared = min(shared, lent - max(0, used(w, name, fr) - local(w, name, fr)) + borrowing)
    return local_available(w, name, fr) + shared


@counted
def potential(w: World, name: str, fr: FR) -> int:
    """What could be used if nothing were used."""
    parent, borrowing = w.nodes[name].parent, limits(w, name, fr).borrowing
    if not parent:
        return subtree(w, name, fr)
    most = local(w, name, fr) + potential(w, parent, fr)
    return most if borrowing is None else min(most, subtree(w, name, fr) + borrowing)


def borrows_with(w: World, name: str, fr: FR, amount: int) -> bool:
    return used(w, name, fr) + amount > subtree(w, name, fr)


def smallest_subtree(w: World, queue: str, fr: FR, amount: int) -> str:
    """The lowest node around a ClusterQueue whose quota holds a further amount; the root if there is none."""
    rest = amount
    for name in (queue, *above(w, queue)):
        if not borrows_with(w, name, fr, rest):
            return name
        rest -= local_available(w, name, fr)
    return name


def fits(w: World, queue: str, usage: Usage, borrowing: bool = True) -> bool:
    """Whether a ClusterQueue may use this in addition."""
    return all(
        amount <= available(w, queue, fr) and (borrowing or not borrows_with(w, queue, fr, amount))
        for fr, amount in usage.items()
    )


# --- fair sharing ------------------------------------------------------------------------------------------


class Share(NamedTuple):
    """The dominant resource share of a node. Infinite ones are the highest."""

    infinite: bool
    per_mille: Fraction


@counted
def share(w: World, name: str) -> Share:
    """Of all resources the highest: what a node uses above its quota, in thousandths of what its parent could use."""
    node = w.nodes[name]
    if not node.parent:
        return Share(False, Fraction(0))
    every, ratio = resources_of_all(w), Fraction(0)
    over = {fr: used(w, name, fr) - subtree(w, name, fr) for fr in every}
    for resource in {resource for _, resource in every}:
        borrowed = sum(max(0, amount) for (_, r), amount in over.items() if r == resource)
        lendable = sum(potential(w, node.parent, fr) for fr in every if fr[1] == resource)
        if lendable > 0:
            ratio = max(ratio, Fraction(borrowed * 1000, lendable))
    borrows = any(amount > 0 for amount in over.values())
    return Share(not node.weight and borrows, ratio / (node.weight or 1))


def meeting(w: World, one: str, other: str) -> tuple[str, str]:
    """The two children of the lowest common cohort of two ClusterQueues, on the way to each."""
    common = next(c for c in above(w, one) if c in above(w, other))
    return tuple(next(n for n in (queue, *above(w, queue)) if w.nodes[n].parent == common) for queue in (one, other))


def ways(names: list[str]) -> Iterator[tuple[str, ...]]:
    """All orders of a few names."""
    if not names:
        yield ()
    for i, name in enumerate(names):
        for rest in ways(names[:i] + names[i + 1 :]):
            yield (name, *rest)

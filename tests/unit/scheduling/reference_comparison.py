"""Compares the product with the reference on one generated World; a difference is text, "" if there is none.

`python -m tests.unit.scheduling.reference_comparison N SEED` compares N Worlds and prints each difference with its seed
and the smallest World that shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import combinations

from msgspec.structs import replace

from queue_manager.scheduling import fair_preemption, victim_search
from queue_manager.scheduling.cycle import Admit, Preempt, run_cycle
from queue_manager.scheduling.fair_sharing import Shares
from queue_manager.scheduling.flavor_assignment import Assignment, Mode
from queue_manager.scheduling.nomination import nominate
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import Info
from tests.unit.queueing.builders import T0
from tests.unit.scheduling import reference_cycle as cycles
from tests.unit.scheduling import reference_preemption as victims
from tests.unit.scheduling.reference import (
    Head,
    World,
    available,
    fits,
    is_queue,
    potential,
    resources_of_all,
    share,
    subtree,
    used,
    ways,
)
from tests.unit.scheduling.reference_worlds import (
    describe,
    generate,
    generate_later,
    info_of,
    preemptor,
    product_preemptor,
    shrink,
    state_of,
)

TINY = 6  # candidates, of which all subsets are tried
PODS = 4  # of a head that gets fewer


def expect(name: str, product: object, reference: object) -> str:
    return "" if product == reference else f"{name}: {product} instead of {reference}"


def usage_of(state: SchedulerState) -> dict[str, dict]:
    nodes = {node.name: node for queue in state.queues.values() for node in queue.node.path()}
    return {name: {fr: v for fr, v in node.usage.items() if v} for name, node in sorted(nodes.items())}


def usage_differs(world: World, state: SchedulerState) -> str:
    """The usage in the product's tree is a recount of the World: a search leaves nothing behind."""
    for name, usage in usage_of(state).items():
        counted = {fr: used(world, name, fr) for fr in usage}
        if text := expect(f"usage of {name}", usage, counted):
            return text
    return ""


# --- numbers -----------------------------------------------------------------------------------------------


def numbers_differ(world: World) -> str:
    """Quota, usage and share of every node, and the borrow level of every amount that matters."""
    state, shares = state_of(world), Shares()
    nodes = {node.name: node for queue in state.queues.values() for node in queue.node.path()}
    for name, node in nodes.items():
        if text := expect(f"share of {name}", tuple(shares.of(node)), tuple(share(world, name))):
            return text
        for fr in (FlavorResource(*pair) for pair in resources_of_all(world)):
            found = (node.subtree.get(fr, 0), node.usage.get(fr, 0), node.available(fr), node.potential(fr))
            expected = tuple(count(world, name, fr) for count in (subtree, used, available, potential))
            levels = [node.borrow_level(fr, amount) for amount in range(1, 9)] if is_queue(world, name) else []
            levels_expected = [cycles.level(world, name, fr, i + 1) for i in range(len(levels))]
            if text := expect(f"{name} {fr}", (found, levels), (expected, levels_expected)):
                return text
    return ""


# --- victims -----------------------------------------------------------------------------------------------


def product_victims(state: SchedulerState, head: Head, wanted: victims.Preemptor) -> list[tuple[str, str]]:
    find = fair_preemption.find_victims if state.fair_sharing else victim_search.find_victims
    return [(v.holding.uid, v.reason) for v in find(state, product_preemptor(state, head, wanted), T0)]


def victims_differ(world: World, seed: str) -> str:
    """For each head in some flavors: the victims, that they suffice, and that none can be spared."""
    state = state_of(world)
    for head in world.heads:
        wanted = preemptor(world, head, f"{seed}/{head.uid}")
        if wanted is not None:
            found = product_victims(state, head, wanted)
            text = one_search_differs(world, wanted, found) or usage_differs(world, state)
            if text:
                return f"victims of {head.uid} for {wanted}: {text}"
    return ""


def one_search_differs(world: World, wanted: victims.Preemptor, found: list[tuple[str, str]]) -> str:
    expected = victims.find_victims(world, wanted)
    if set(found) != set(expected) and not (world.strategies and is_a_tie(world, wanted, found)):
        return f"{found} instead of {expected}"
    uids = [uid for uid, _ in found]
    if found and not any(suffice_and_are_needed(world, wanted, uids, borrowing) for borrowing in (True, False)):
        return f"{found} do not suffice, or some can be spared"
    return "" if found or world.strategies else a_set_is_missed(world, wanted)


def suffice_and_are_needed(world: World, wanted: victims.Preemptor, uids: list[str], borrowing: bool) -> bool:
    """Whether the preemptor fits without these, and does not without any part of them only."""

    def suffice(some: Iterable[str]) -> bool:
        return fits(world.without(some), wanted.queue, wanted.usage, borrowing)

    parts = (part for size in range(len(uids)) for part in combinations(uids, size))
    return suffice(uids) and not any(suffice(part) for part in parts)


def a_set_is_missed(world: World, wanted: victims.Preemptor) -> str:
    """Whether a set of candidates would have done, although no victims were found, and the order does not explain it.

    Candidates are removed in their order. The one before may bring a ClusterQueue or cohort within its quota, and then
    nothing more may be taken there: so a set that starts with a later candidate is missed, in Kueue too.
    """
    found = victims.candidates(world, wanted)
    if len(found) > TINY:
        return ""
    for borrowing in victims.attempts(world, wanted, found):
        removed = victims.removed_in_order(world, wanted, found, borrowing)
        rest = world.without(removed)
        for some in victims.allowed_sets(world, wanted, borrowing):
            passed_by = [c for c in found if c.held.uid in some - removed]
            if not passed_by or any(victims.usable(rest, wanted, c, borrowing) for c in passed_by):
                return f"no victims instead of {sorted(some)}"
    return ""


def is_a_tie(world: World, wanted: victims.Preemptor, found: list[tuple[str, str]]) -> bool:
    """Whether cohorts with equal shares can be chosen so that these victims are found."""
    cohorts = [name for name in world.nodes if not is_queue(world, name)]
    return any(set(victims.fair(world, wanted, ties)) == set(found) for ties in ways(cohorts))


# --- flavors -----------------------------------------------------------------------------------------------


def assignments_differ(world: World) -> str:
    """For each head: mode, borrow level and flavors, and the victims."""
    state = state_of(world)
    for head in world.heads:
        queue, info = state.queues[head.queue], info_of(head)
        with PlannedUsage(state) as planned, planned.without(planned.passed_by(info, queue)):
            found = nominate(state, planned, queue, info, T0)
        expected = cycles.nominate(world, head)
        text = expect("will fit", found.will_fit, expected.will_fit) or assignment_differs(
            found.assignment, expected.assigned
        )
        text = text or expect(
            "victims", sorted((v.holding.uid, v.reason) for v in found.victims), sorted(expected.victims)
        )
        if text:
            return f"{head.uid}: {text}"
    return ""


def assignment_differs(found: Assignment, expected: cycles.Assigned) -> str:
    if text := expect("mode", found.mode, Mode(expected.mode)):
        return text
    if expected.mode == cycles.NO_FIT:
        return ""
    return expect("flavors", tuple(p.flavors for p in found.pod_sets), expected.flavors) or expect(
        "borrow", found.borrow, expected.borrow
    )


def numbers_of_pods_differ(world: World) -> str:
    """For each head of which one pod suffices: it gets what a head of so many pods gets, and one pod more is too much.

    A larger number may do all the same, since preemptions are not monotone in what is needed.
    """
    state, kept = state_of(world), {each.uid for each in world.kept}
    for head in world.heads:
        queue, info = state.queues[head.queue], info_of(head)
        if head.uid in kept:  # it gets no more than planned
            continue
        with PlannedUsage(state) as planned, planned.without(planned.passed_by(info, queue)):
            found = nominate(state, planned, queue, with_pods(info, PODS, fewest=1), T0)
            pods = found.assignment.pod_sets[0].count if found.is_possible else 0
            alike = nominate(state, planned, queue, with_pods(info, pods), T0) if pods else found
            more = nominate(state, planned, queue, with_pods(info, pods + 1), T0)
        text = expect("usage", found.assignment.usage, alike.assignment.usage)
        text = text or expect("victims", found.victims, alike.victims)
        if text := text or expect("one pod more", more.is_possible and pods < PODS, False):
            return f"{head.uid} with {pods} pods: {text}"
    return ""


def with_pods(info: Info, pods: int, fewest: int | None = None) -> Info:
    """The Workload with this number of pods in its first pod set, of which the fewest suffice."""
    first, *others = info.pod_sets
    return replace(info, pod_sets=(replace(first, count=pods, minimum=fewest), *others))


# --- cycles ------------------------------------------------------------------------------------------------


def cycles_differ(world: World) -> str:
    """The outcome of each head."""
    state = state_of(world)
    outcomes = run_cycle(state, [(head.queue, info_of(head)) for head in world.heads], T0)
    expected = cycles.run_cycle(world)
    for outcome in outcomes:
        found = decided(outcome)
        if text := expect(f"outcome of {outcome.info.uid}", found, expected[outcome.info.uid]):
            return text
    return expect("number of outcomes", len(outcomes), len(expected)) or usage_differs(world, state)


def decided(outcome: object) -> cycles.Decided:
    if isinstance(outcome, Admit):
        return cycles.Decided(cycles.ADMIT, *promised(outcome.assignment))
    if isinstance(outcome, Preempt):
        found = frozenset((v.holding.uid, v.reason) for v in outcome.victims)
        return cycles.Decided(found, *promised(outcome.assignment))
    return cycles.Decided(cycles.REFUSE)


def promised(assignment: Assignment) -> tuple:
    return tuple(p.flavors for p in assignment.pod_sets), dict(assignment.usage), assignment.borrow


# --- all of it ---------------------------------------------------------------------------------------------


def worlds(number: int, seed: str) -> Iterator[tuple[World, str]]:
    """Each World with its seed: every second one after a cycle or two."""
    for i in range(number):
        one = f"{seed}/{i}"
        yield (generate_later(one) if i % 2 else generate(one)), one


def differences(world: World, seed: str) -> str:
    """The first difference; "" if there is none."""
    found = numbers_differ(world) or victims_differ(world, seed) or assignments_differ(world)
    return found or numbers_of_pods_differ(world) or cycles_differ(world)


def report(world: World, seed: str) -> str:
    """The difference and the smallest World that has one; "" if there is none."""
    if not differences(world, seed):
        return ""
    smallest = shrink(world, lambda some: differences(some, seed))
    return f"seed {seed}: {differences(smallest, seed)}\n{describe(smallest)}"


def main(number: int, seed: str) -> int:
    found = 0
    for world, one in worlds(number, seed):
        if text := report(world, one):
            found += 1
            print(text, flush=True)
    print(f"{number} Worlds, {found} differences")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))

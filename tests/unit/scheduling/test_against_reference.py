"""The product decides as the naive reference does, in thousands of generated small clusters.

Each World has up to four cohorts in as many levels, five ClusterQueues, three flavors, two resources, sixteen Workloads
that hold quota, and a head per ClusterQueue. Compared are all quotas, usages and shares; victims with their reasons, for
arbitrary flavors; flavors, mode and borrow level of each head; the outcome of each head in a whole cycle. Of victims it
is tried, too, that no part of them would do, and if there are none that no other candidates would have done.

The same Worlds each time; `make compare-scheduling N=10000 SEED=1` compares others.
"""

import pytest

from tests.unit.scheduling import reference_cycle, reference_preemption
from tests.unit.scheduling.reference import Head, Held, Limits, Node, Policies, World
from tests.unit.scheduling.reference_comparison import differences, report
from tests.unit.scheduling.reference_worlds import generate, shrink

WORLDS_PER_PART = 500


@pytest.mark.parametrize("part", range(4))
def test_product_and_reference_decide_alike(part):
    texts = (report(generate(f"{part}/{i}"), f"{part}/{i}") for i in range(WORLDS_PER_PART))
    assert next(filter(None, texts), "") == ""


def test_the_generated_worlds_have_what_is_compared():
    """Each reason of a preemption, each mode and each outcome is frequent, with and without fair sharing."""
    worlds = [generate(f"0/{i}") for i in range(150)]
    nominated = [reference_cycle.nominate(world, head) for world in worlds for head in world.heads]
    seen = [reason for found in nominated for _, reason in found.victims]
    seen += [found.assigned.mode for found in nominated]
    seen += [type(decided.outcome) for world in worlds for decided in reference_cycle.run_cycle(world).values()]
    seen += [bool(world.strategies) for world in worlds for _ in world.heads]
    reasons = reference_preemption.IN_QUEUE, reference_preemption.RECLAMATION
    rare = reference_preemption.WHILE_BORROWING, reference_preemption.FAIR
    assert min(seen.count(what) for what in (*reasons, *range(5), str, frozenset, True, False)) >= 5
    assert min(seen.count(what) for what in rare) >= 2


def lowered(**policies):
    """One ClusterQueue whose head needs quota that a Workload of lower priority holds."""
    quotas, groups = {("red", "cpu"): Limits(2)}, ((("cpu",), ("red",)),)
    node = Node("q", "", quotas, groups=groups, policies=Policies(**policies))
    held = Held("low", "q", {("red", "cpu"): 2})
    return World(
        {"q": node}, (held, Held("other", "q", {("red", "cpu"): 0})), (Head("h", "q", ({"cpu": 1},), priority=1),)
    )


def test_a_difference_is_found_and_made_small(monkeypatch):
    """If the reference knew no policy LowerPriority, the comparison would say so, with nothing that does not matter."""
    world = lowered(within="LowerPriority")
    assert differences(world, "0") == ""
    monkeypatch.setattr(reference_preemption, "may", lambda policy, preemptor, held: False)
    assert "instead of" in differences(world, "0")
    assert [held.uid for held in shrink(world, lambda some: differences(some, "0")).held] == ["low"]

"""The product decides as the naive reference does, in thousands of generated small clusters.

Each World has up to four cohorts in as many levels, five ClusterQueues, three flavors, two resources, sixteen Workloads
that hold quota, and a head per ClusterQueue; half of them are the World after a cycle, in which victims are stopping.
Compared are all quotas, usages and shares; victims with their reasons, for arbitrary flavors; flavors, mode and
borrow level of each head; the outcome of each head in a whole cycle. Of victims it is tried, too, that no part of them
would do, and if there are none that no other candidates would have done; of heads with fewer pods than they want, that
one more would not do.

The same 10 000 Worlds each time; `make compare-scheduling N=10000 SEED=1` compares others.
"""

from collections import Counter
from fractions import Fraction

import pytest

from tests.unit.scheduling import reference_cycle, reference_preemption
from tests.unit.scheduling.reference import Head, Held, Limits, Node, Policies, World
from tests.unit.scheduling.reference_comparison import differences, report, worlds
from tests.unit.scheduling.reference_worlds import shrink

WORLDS_PER_PART = 500
PARTS = [
    pytest.param(0, marks=pytest.mark.thorough),
    *(pytest.param(part, marks=pytest.mark.exhaustive) for part in range(1, 20)),
]


@pytest.mark.parametrize("part", PARTS)
def test_product_and_reference_decide_alike(part):
    texts = (report(world, seed) for world, seed in worlds(WORLDS_PER_PART, str(part)))
    assert next(filter(None, texts), "") == ""


def test_the_generated_worlds_have_what_is_compared():
    """Each reason of a preemption, each mode and each outcome is there, with and without fair sharing."""
    some = [world for world, _ in worlds(150, "0")]
    nominated = [reference_cycle.nominate(world, head) for world in some for head in world.heads]
    seen = Counter(reason for found in nominated for _, reason in found.victims)
    seen.update(f"mode {found.assigned.mode}" for found in nominated)
    decided = [each for world in some for each in reference_cycle.run_cycle(world).values()]
    seen.update(type(each.outcome).__name__ for each in decided)
    seen.update(f"fair {bool(world.strategies)}, kept {bool(world.kept)}" for world in some)
    assert len(seen) == 17  # 4 reasons, 7 modes, 2 types of outcomes, 4 kinds of Worlds
    assert min(seen.values()) >= 3


def full_queue(**policies):
    """One ClusterQueue whose head needs quota that a Workload of lower priority holds."""
    quotas, groups = {("red", "cpu"): Limits(2)}, ((("cpu",), ("red",)),)
    node = Node("q", "", quotas, groups=groups, policies=Policies(**policies))
    held = Held("low", "q", {("red", "cpu"): 2})
    return World(
        {"q": node}, (held, Held("other", "q", {("red", "cpu"): 0})), (Head("h", "q", ({"cpu": 1},), priority=1),)
    )


def test_a_difference_is_found_and_made_small(monkeypatch):
    """If the reference knew no policy LowerPriority, the comparison would say so, with nothing that does not matter."""
    world = full_queue(within="LowerPriority")
    assert differences(world, "0") == ""
    monkeypatch.setattr(reference_preemption, "may", lambda policy, preemptor, held: False)
    assert "instead of" in differences(world, "0")
    assert [held.uid for held in shrink(world, lambda some: differences(some, "0")).held] == ["low"]


def test_a_head_that_fits_into_no_flavor_of_one_group_uses_nothing():
    """With the cpus of `never` its cohort would borrow, and the head of the other cohort would be served first."""
    cpu, gpu = ("red", "cpu"), ("green", "gpu")
    groups = ((("cpu",), ("red",)), (("gpu",), ("green",)))

    def queue(name, cohort, cpus, gpus, weight=1):
        quotas = {cpu: Limits(cpus), gpu: Limits(gpus, borrowing=gpus)}
        return Node(name, cohort, quotas, Fraction(weight), groups)

    nodes = [
        Node("root"),
        Node("left", "root", weight=Fraction(0)),
        queue("a", "left", 3, 2, weight=0),
        queue("b", "left", 6, 0),
    ]
    nodes.append(queue("c", "root", 2, 8))
    heads = [Head("fits", "a", ({"cpu": 4, "gpu": 1},)), Head("never", "b", ({"cpu": 6, "gpu": 1},))]
    heads.append(Head("late", "c", ({"cpu": 4, "gpu": 1},)))
    held = (Held("runs", "b", {cpu: 4}),)
    world = World({each.name: each for each in nodes}, held, tuple(heads), strategies=("LessThanInitialShare",))
    assert reference_cycle.run_cycle(world)["fits"].outcome == reference_cycle.ADMIT
    assert differences(world, "0") == ""

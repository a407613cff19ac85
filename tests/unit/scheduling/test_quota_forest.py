"""Trees by name: links, cycles, and that no order of changes leaves a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from job_controller.quantities import INT64_MAX
from queue_manager.scheduling import quota_tree
from queue_manager.scheduling.quota_forest import QuotaForest
from queue_manager.scheduling.quota_tree import FlavorResource, Quota, QuotaNode
from tests.examples import examples

CPU, GPU = FlavorResource("default", "cpu"), FlavorResource("spot", "gpu")
FRS = (CPU, GPU)


def parents(forest: QuotaForest) -> dict[str, str]:
    nodes = [*forest.queues.values(), *forest.cohorts.values()]
    return {node.name: node.parent.name for node in nodes if node.parent is not None}


def test_a_cohort_exists_while_it_has_an_object_or_something_names_it() -> None:
    forest = QuotaForest()
    forest.set_queue("cq", {}, "team")
    forest.set_cohort("team", {CPU: Quota(1)}, "all")
    assert parents(forest) == {"cq": "team", "team": "all"}
    assert forest.queues["cq"].potential(CPU) == 1
    forest.drop_cohort("team")
    assert (parents(forest), list(forest.cohorts)) == ({"cq": "team"}, ["team"])
    assert forest.queues["cq"].potential(CPU) == 0
    forest.set_queue("cq", {}, "other")
    assert list(forest.cohorts) == ["other"]
    forest.drop_queue("cq")
    assert (forest.queues, forest.cohorts) == ({}, {})


def test_a_node_stays_the_same_while_its_object_changes() -> None:
    forest = QuotaForest()
    node = forest.set_queue("cq", {CPU: Quota(1)}, "a")
    node.add(CPU, 1)
    assert forest.set_queue("cq", {CPU: Quota(3)}, "b") is node
    assert (node.available(CPU), forest.cohorts["b"].usage[CPU]) == (2, 1)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
def test_a_cycle_names_its_members_from_the_one_above_the_queue_on(order: tuple[str, ...]) -> None:
    above = {"a": "b", "b": "c", "c": "a"}
    forest = QuotaForest()
    forest.set_queue("cq", {CPU: Quota(1)}, "leaf")
    forest.set_cohort("leaf", {}, "b")
    for name in order:
        assert forest.cycle_above(forest.queues["cq"]) == ()
        forest.set_cohort(name, {}, above[name])
    assert forest.cycle_above(forest.queues["cq"]) == ("b", "c", "a")
    assert forest.cycle_above(forest.cohorts["a"]) == ("a", "b", "c")
    assert parents(forest) == {"cq": "leaf", "leaf": "b"}


def test_a_broken_cycle_is_a_tree_again() -> None:
    forest = QuotaForest()
    forest.set_queue("cq", {CPU: Quota(1)}, "a")
    for name, parent in (("a", "b"), ("b", "a"), ("a", "a")):
        forest.set_cohort(name, {}, parent)
    assert (forest.cycle_above(forest.queues["cq"]), parents(forest)) == (("a",), {"cq": "a", "b": "a"})
    forest.set_cohort("a", {}, "")
    assert (forest.cycle_above(forest.queues["cq"]), parents(forest)) == ((), {"cq": "a", "b": "a"})
    forest.set_cohort("a", {}, "b")
    forest.drop_cohort("b")
    assert (forest.cycle_above(forest.queues["cq"]), parents(forest)) == ((), {"cq": "a", "a": "b"})


def test_a_queue_of_the_name_of_a_cohort_in_a_cycle_is_not_below_it() -> None:
    forest = QuotaForest()
    forest.set_cohort("x", {}, "x")
    forest.set_queue("x", {}, "")
    assert forest.cycle_above(forest.queues["x"]) == ()


# --- against the equations of quota_tree, computed from nothing ---------------------------------------------


@dataclass
class Model:
    """What was said last about each name, and what each ClusterQueue uses."""

    queues: dict[str, tuple[dict[FlavorResource, Quota], str]] = field(default_factory=dict)
    cohorts: dict[str, tuple[dict[FlavorResource, Quota], str]] = field(default_factory=dict)
    used: dict[tuple[str, FlavorResource], int] = field(default_factory=dict)

    def cycle(self, cohort: str) -> frozenset[str]:
        """The members of the cycle to which the parents lead from here."""
        seen: list[str] = []
        while cohort and cohort not in seen:
            seen.append(cohort)
            cohort = self.cohorts.get(cohort, ({}, ""))[1]
        return frozenset(seen[seen.index(cohort) :]) if cohort else frozenset()

    def parent(self, name: str, is_cohort: bool) -> str:
        _, parent = (self.cohorts if is_cohort else self.queues).get(name, ({}, ""))
        return "" if is_cohort and name in self.cycle(name) else parent

    def children(self, cohort: str) -> list[tuple[str, bool]]:
        named = [(name, False) for name in self.queues] + [(name, True) for name in self.cohorts]
        return [one for one in named if self.parent(*one) == cohort]

    def quota(self, name: str, is_cohort: bool, fr: FlavorResource) -> Quota:
        return (self.cohorts if is_cohort else self.queues).get(name, ({}, ""))[0].get(fr, Quota())

    def subtree(self, name: str, is_cohort: bool, fr: FlavorResource) -> int:
        own = self.quota(name, is_cohort, fr).nominal
        below = self.children(name) if is_cohort else []
        return own + sum(self.subtree(*one, fr) - self.local(*one, fr) for one in below)

    def local(self, name: str, is_cohort: bool, fr: FlavorResource) -> int:
        limit = self.quota(name, is_cohort, fr).lending_limit
        return 0 if limit is None else max(0, self.subtree(name, is_cohort, fr) - limit)

    def usage(self, name: str, is_cohort: bool, fr: FlavorResource) -> int:
        if not is_cohort:
            return self.used.get((name, fr), 0)
        return sum(max(0, self.usage(*one, fr) - self.local(*one, fr)) for one in self.children(name))

    def height(self, name: str, is_cohort: bool) -> int:
        return 1 + max((self.height(*one) for one in self.children(name)), default=-1) if is_cohort else 0

    def available(self, name: str, is_cohort: bool, fr: FlavorResource) -> int:
        parent = self.parent(name, is_cohort)
        subtree, used = self.subtree(name, is_cohort, fr), self.usage(name, is_cohort, fr)
        if not parent:
            return subtree - used
        local, limit = self.local(name, is_cohort, fr), self.quota(name, is_cohort, fr).borrowing_limit
        above = self.available(parent, True, fr)
        if limit is not None:
            above = min(above, subtree - local - max(0, used - local) + limit)
        return max(0, local - used) + above

    def potential(self, name: str, is_cohort: bool, fr: FlavorResource) -> int:
        parent, subtree = self.parent(name, is_cohort), self.subtree(name, is_cohort, fr)
        if not parent:
            return subtree
        most, limit = self.local(name, is_cohort, fr), self.quota(name, is_cohort, fr).borrowing_limit
        most += self.potential(parent, True, fr)
        return most if limit is None else min(most, subtree + limit)


NAMES = st.sampled_from(["a", "b", "c", "d"])
AMOUNTS = st.integers(0, 9) | st.just(INT64_MAX)
QUOTAS = st.dictionaries(st.sampled_from(FRS), st.builds(Quota, AMOUNTS, st.none() | AMOUNTS, st.none() | AMOUNTS))
CHANGES = st.one_of(
    st.tuples(st.just("queue"), NAMES, QUOTAS, st.just("") | NAMES),
    st.tuples(st.just("cohort"), NAMES, QUOTAS, st.just("") | NAMES),
    st.tuples(st.just("drop queue"), NAMES),
    st.tuples(st.just("drop cohort"), NAMES),
    st.tuples(st.just("use"), NAMES, st.sampled_from(FRS), AMOUNTS),
    st.tuples(st.just("free"), NAMES, st.sampled_from(FRS), AMOUNTS),
)


def change(forest: QuotaForest, model: Model, what: str, name: str, *args: object) -> None:
    match what, args:
        case "queue", (quotas, parent):
            forest.set_queue(name, quotas, parent)  # type: ignore[arg-type]
            model.queues[name] = (quotas, parent)  # type: ignore[assignment]
        case "cohort", (quotas, parent):
            forest.set_cohort(name, quotas, parent)  # type: ignore[arg-type]
            model.cohorts[name] = (quotas, parent)  # type: ignore[assignment]
        case "drop queue", _ if name in model.queues:
            forest.drop_queue(name)
            del model.queues[name]
            model.used = {key: amount for key, amount in model.used.items() if key[0] != name}
        case "drop cohort", _ if name in model.cohorts:
            forest.drop_cohort(name)
            del model.cohorts[name]
        case "use", (fr, int(amount)) if name in model.queues:
            forest.queues[name].add(fr, amount)  # type: ignore[arg-type]
            model.used[name, fr] = model.used.get((name, fr), 0) + amount  # type: ignore[index,arg-type]
        case "free", (fr, int(amount)) if name in model.queues:
            amount = min(amount, model.used.get((name, fr), 0))  # type: ignore[arg-type]
            forest.queues[name].remove(fr, amount)  # type: ignore[arg-type]
            model.used[name, fr] = model.used.get((name, fr), 0) - amount  # type: ignore[index,arg-type]


def numbers(node: QuotaNode, fr: FlavorResource) -> tuple[int, ...]:
    return node.subtree.get(fr, 0), node.usage.get(fr, 0), node.available(fr), node.potential(fr)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(CHANGES, max_size=25))
def test_after_any_changes_all_numbers_equal_a_recount(changes: list[tuple[object, ...]]) -> None:
    forest, model = QuotaForest(), Model()
    for one in changes:
        change(forest, model, *one)  # type: ignore[arg-type]
        named = {parent for _, parent in (*model.queues.values(), *model.cohorts.values()) if parent}
        assert set(forest.queues) == set(model.queues)
        assert set(forest.cohorts) == set(model.cohorts) | named
        for node in (*forest.queues.values(), *forest.cohorts.values()):
            own = (node.name, node.is_cohort)
            start = node.name if node.is_cohort else model.queues[node.name][1]
            assert frozenset(forest.cycle_above(node)) == model.cycle(start)
            assert (node.parent.name if node.parent else "") == model.parent(*own)
            assert node.height == model.height(*own)
            for fr in FRS:
                assert numbers(node, fr) == (
                    model.subtree(*own, fr),
                    model.usage(*own, fr),
                    min(INT64_MAX, model.available(*own, fr)),
                    min(INT64_MAX, model.potential(*own, fr)),
                )


LIMITS = st.none() | st.integers(0, 9)
NODES = st.lists(st.tuples(st.integers(0, 9), LIMITS, LIMITS, st.integers(0, 99)), min_size=1, max_size=5)


@settings(max_examples=examples(300), deadline=None)
@given(NODES, NODES, st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12)), max_size=20))
def test_usage_that_fits_exceeds_no_limit_and_leaves_nothing_when_removed(cohorts, queues, requests) -> None:
    """A subtree uses at most its quota and borrowingLimit, the rest of the tree its own and the lendingLimit."""
    forest = QuotaForest()
    for i, (nominal, borrowing, lending, above) in enumerate(cohorts):
        forest.set_cohort(f"c{i}", {CPU: Quota(nominal, borrowing, lending)}, f"c{above % i}" if i else "")
    for i, (nominal, borrowing, lending, above) in enumerate(queues):
        forest.set_queue(f"q{i}", {CPU: Quota(nominal, borrowing, lending)}, f"c{above % len(cohorts)}")
    taken = []
    for i, amount in requests:
        node = forest.queues[f"q{i % len(queues)}"]
        assert node.available(CPU) <= node.potential(CPU)
        if amount <= node.available(CPU):
            node.add(CPU, amount)
            taken.append((node, amount))
    everything = list(forest.cohorts["c0"].below())
    for node in everything:
        inside = set(node.below())
        outside = [other for other in everything if other not in inside]
        quota = node.quotas[CPU]
        if node.parent is None or quota.borrowing_limit is not None:
            assert used(inside) <= nominal_of(inside) + (quota.borrowing_limit or 0)
        if quota.lending_limit is not None:
            assert used(outside) <= nominal_of(outside) + quota.lending_limit
    for node, amount in taken:
        node.remove(CPU, amount)
    assert all(node.usage.get(CPU, 0) == 0 for node in everything)


def used(nodes: Iterable[QuotaNode]) -> int:
    return sum(node.usage.get(CPU, 0) for node in nodes if not node.is_cohort)


def nominal_of(nodes: Iterable[QuotaNode]) -> int:
    return sum(node.quotas[CPU].nominal for node in nodes)


def test_loading_queues_one_by_one_costs_a_few_steps_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step adds what one node contributes to its parent, or subtracts it; nothing else reads a tree's numbers."""
    steps = 0
    step = quota_tree._add_contribution

    def count(child: QuotaNode, sign: int) -> None:
        nonlocal steps
        steps += 1
        step(child, sign)

    monkeypatch.setattr(quota_tree, "_add_contribution", count)
    forest = QuotaForest()
    for i in range(100):
        forest.set_cohort(f"c{i}", {CPU: Quota(1, lending_limit=1)}, f"c{(i - 1) // 5}" if i else "")
    for i in range(1000):
        forest.set_queue(f"cq{i}", {CPU: Quota(10)}, f"c{i % 100}")
    assert (forest.cohorts["c0"].height, forest.queues["cq7"].potential(CPU)) == (4, 3 * (10 * 10 + 5) + 1)
    assert steps < 15 * 1100

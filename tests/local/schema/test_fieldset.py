"""Operations on field sets equal those on sets of paths."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queue_manager.local.schema.fieldset import (
    contains,
    difference,
    intersection,
    of_paths,
    paths,
    show,
    union,
    without,
)

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"z"', "v:1"])
SETS = st.lists(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=6).map(lambda p: of_paths(*p))


def members(fields: Any) -> set[Any]:
    return set(paths(fields))


@given(SETS, SETS)
def test_union_intersection_and_difference_equal_those_of_paths(one: Any, other: Any) -> None:
    assert members(union(one, other)) == members(one) | members(other)
    assert members(intersection(one, other)) == members(one) & members(other)
    assert members(difference(one, other)) == members(one) - members(other)


@given(SETS, SETS)
def test_without_also_removes_the_paths_below(one: Any, other: Any) -> None:
    gone = members(other)
    left = {path for path in members(one) if not any(path[:length] in gone for length in range(1, len(path) + 1))}
    assert members(without(one, other)) == left


@given(SETS)
def test_a_field_set_is_rebuilt_from_its_paths(one: Any) -> None:
    assert of_paths(*paths(one)) == one
    assert all(contains(one, path) for path in paths(one))


def test_paths_are_printed_as_in_conflicts() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"x"')
    assert show(path) == '.spec[containerPort=80,protocol="TCP"][="x"]'

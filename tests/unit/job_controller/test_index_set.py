"""Index sets equal sets of integers, and their cost depends on the intervals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from job_controller.index_set import IndexSet

MAX_ROWS = 2**31 - 2
indexes = st.sets(st.integers(0, 30))


@given(indexes, indexes)
def test_they_are_sets(one: set[int], other: set[int]) -> None:
    mine, theirs = IndexSet.of(one), IndexSet.of(other)
    assert set(mine) == one
    assert len(mine) == len(one)
    assert {index for index in range(-2, 33) if index in mine} == one
    assert set(mine | theirs) == set(mine | other) == one | other
    assert mine.common(theirs) == len(one & other)
    assert mine.isdisjoint(other) == one.isdisjoint(other)
    assert mine.isdisjoint(theirs) == one.isdisjoint(other)


@given(indexes, st.integers(0, 33))
def test_what_is_missing_comes_in_order(listed: set[int], end: int) -> None:
    assert list(IndexSet.of(listed).missing(end)) == sorted(set(range(end)) - listed)


def test_two_thousand_million_indexes_are_one_interval() -> None:
    every = IndexSet([(0, MAX_ROWS)])
    assert len(every) == MAX_ROWS + 1
    assert (every | {5, 7}).intervals == [(0, MAX_ROWS)]
    assert every.common(IndexSet([(7, MAX_ROWS)])) == MAX_ROWS - 6
    assert not every.isdisjoint({MAX_ROWS})
    assert IndexSet([(1, MAX_ROWS)]).isdisjoint({0, MAX_ROWS + 1})
    assert next(every.missing(MAX_ROWS + 2)) == MAX_ROWS + 1
    assert every.text == f"0-{MAX_ROWS}"

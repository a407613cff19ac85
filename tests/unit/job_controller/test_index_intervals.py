"""Index strings: two readers, one writer, set operations on intervals, and sets of indexes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_controller import index_intervals
from job_controller.index_set import IndexSet

N = 60
SETS = st.sets(st.integers(0, N - 1)).map(sorted)
TEXT = st.text(alphabet="0123456789,-+x ", max_size=20)


def read(text: str, completions: int) -> list[int]:
    return list(IndexSet(index_intervals.parse_intervals(text, completions)))


def brute_intervals(listed: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for index in listed:
        if found and found[-1][1] == index - 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return found


@given(SETS)
def test_what_is_written_is_read_back_by_both_readers(listed: list[int]) -> None:
    text = IndexSet.of(listed).text
    assert read(text, N) == listed
    assert index_intervals.check(text, N) == len(listed)


@given(SETS)
def test_compress_finds_the_longest_runs(listed: list[int]) -> None:
    assert index_intervals.compress(listed) == brute_intervals(listed)
    assert index_intervals.compress(index for index in listed for _ in range(2)) == brute_intervals(listed)


@given(SETS, SETS)
def test_the_overlap_of_two_lists_is_the_first_index_in_both(one: list[int], other: list[int]) -> None:
    assert index_intervals.overlap(index_intervals.compress(one), index_intervals.compress(other)) == min(
        {*one} & {*other}, default=None
    )


@given(TEXT, st.integers(0, N))
def test_the_lenient_reader_takes_any_text_and_gives_sorted_intervals(text: str, completions: int) -> None:
    found = read(text, completions)
    assert found == sorted(set(found))
    assert all(0 <= index < completions for index in found)
    assert index_intervals.compress(found) == index_intervals.parse_intervals(text, completions)


@given(TEXT, st.integers(0, N))
def test_what_the_strict_reader_accepts_the_lenient_one_reads_alike(text: str, completions: int) -> None:
    try:
        total = index_intervals.check(text, completions)
    except index_intervals.BadIndexes:
        return
    assert len(read(text, completions)) == total


@pytest.mark.parametrize(
    ("text", "written"),
    [("", ""), ("0", "0"), ("0,1", "0,1"), ("0,1,2", "0-2"), ("01,+2,3,5-7,9", "1-3,5-7,9"), ("3,4", "3,4")],
)
def test_runs_of_three_become_an_interval(text: str, written: str) -> None:
    assert IndexSet(index_intervals.parse_intervals(text, 10)).text == written


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0,x,3", [0, 3]),
        ("2,9,3", [2]),
        ("1-20", [1, 2, 3, 4]),
        ("3,1", [3]),
        ("0-1-2,4", [4]),
        (",,2", [2]),
        ("1-,3", [3]),
    ],
)
def test_the_lenient_reader_skips_clips_and_stops(text: str, found: list[int]) -> None:
    assert read(text, 5) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0, 1", 'cannot convert string to integer for index: " 1"'),
        ("1_0", 'cannot convert string to integer for index: "1_0"'),
        ("٣", 'cannot convert string to integer for index: "٣"'),
        ("-1", 'cannot convert string to integer for index: ""'),
        ("5", 'too large index: "5"'),
        ("3-5", 'too large index: "5"'),
        ("2,1", "non-increasing order, previous: 2, current: 1"),
        ("2-2", "non-increasing order, previous: 2, current: 2"),
        ("2,2", "non-increasing order, previous: 2, current: 2"),
        ("1-2,2-4", "non-increasing order, previous: 2, current: 2"),
        ("99999999999999999999", 'cannot convert string to integer for index: "99999999999999999999"'),
    ],
)
def test_the_strict_reader_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(index_intervals.BadIndexes) as refused:
        index_intervals.check(text, 5)
    assert str(refused.value) == message


def test_overlap_of_texts_passes_over_malformed_fragments() -> None:
    assert index_intervals.first_overlap("0,x,3", "1,3", 5) == 3
    assert index_intervals.first_overlap("0-3", "2", 5) == 2
    assert index_intervals.first_overlap("0,2", "1,3", 5) is None


@given(SETS, SETS, st.integers(0, N))
def test_sets_of_indexes_are_sets(one: list[int], other: list[int], end: int) -> None:
    found, more = IndexSet.of(one), IndexSet.of(other)
    assert [index for index in range(-1, N) if index in found] == one == list(found)
    assert (len(found), found.common(more)) == (len(one), len({*one} & {*other}))
    assert list(found | other) == list(found | more) == sorted({*one} | {*other})
    assert (found | more).intervals == brute_intervals(sorted({*one} | {*other}))
    assert found.isdisjoint(other) == found.isdisjoint([*other, -1]) == {*one}.isdisjoint(other)
    assert list(found.missing(end)) == [index for index in range(end) if index not in one]


def test_what_is_no_index_is_not_in_a_set_of_them() -> None:
    assert IndexSet.of([2, -1, 0, -1]).intervals == [(0, 0), (2, 2)]

"""Completion indexes as text ("0-3,5") and as sorted intervals (BEHAVIOUR.md#b8-index-text).

An interval is a pair (first, last), both included. Lists of intervals are sorted, do not overlap and do not touch: a
Job of 100 000 indexes that all succeeded is one pair, and every operation costs time proportional to the intervals.

There are two readers: `check` rejects malformed text (validation of status and successPolicy); `parse_intervals` skips
malformed fragments, because the controller must work with any stored status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from job_controller.go_text import quote

Interval = tuple[int, int]
Intervals = list[Interval]

_is_integer = re.compile(r"[+-]?[0-9]{1,18}").fullmatch


class BadIndexes(ValueError):
    """An invalid index text; the message is that of the API server."""


def check(text: str, completions: int) -> int:
    """The number of indexes in a well-formed text. Raises BadIndexes (upstream validateIndexesFormat)."""
    total = 0
    previous: int | None = None
    for fragment in text.split(",") if text else ():
        # Fast path: a status may list 50 000 single indexes.
        if _is_plain(fragment) and (index := int(fragment)) < completions:
            first = last = index
        else:
            first, last = _interval(fragment, completions)
        if previous is not None and previous >= first:
            raise BadIndexes(f"non-increasing order, previous: {previous}, current: {first}")
        total += last - first + 1
        previous = last
    return total


def _is_plain(fragment: str) -> bool:
    return fragment.isdigit() and fragment.isascii() and len(fragment) < 19


def _interval(fragment: str, completions: int) -> Interval:
    parts = fragment.split("-")
    if len(parts) > 2:
        raise BadIndexes(
            f"the fragment {quote(fragment)} violates the requirement that an index interval "
            "can have at most two parts separated by '-'"
        )
    first = _index(parts[0], completions)
    if len(parts) == 1:
        return first, first
    last = _index(parts[1], completions)
    if first >= last:
        raise BadIndexes(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _index(text: str, completions: int) -> int:
    if not _is_integer(text):
        raise BadIndexes(f"cannot convert string to integer for index: {quote(text)}")
    index = int(text)
    if index >= completions:
        raise BadIndexes(f"too large index: {quote(text)}")
    return index


def first_overlap(one: str, other: str, completions: int) -> int | None:
    """The lowest index in both lists (`1,3-5`), None without one. Malformed fragments are skipped."""
    left, right = _well_formed(one, completions), _well_formed(other, completions)
    return overlap(left, right)


def _well_formed(text: str, completions: int) -> Intervals:
    found = []
    for fragment in text.split(",") if text else ():
        try:
            found.append(_interval(fragment, completions))
        except BadIndexes:
            continue
    return found


def parse_intervals(text: str, completions: int) -> Intervals:
    """The indexes below `completions` that a text lists (upstream parseIndexesFromString).

    Malformed and non-increasing fragments are skipped; reading stops at the first index that is too large.
    """
    found: Intervals = []
    end = -2  # last index of the previous interval
    for fragment in text.split(",") if text else ():
        if _is_plain(fragment):
            first = last = int(fragment)
        else:
            head, dash, tail = fragment.partition("-")
            if not _is_integer(head) or (dash and not _is_integer(tail)):
                continue
            first, last = int(head), int(tail if dash else head)
        if first >= completions:
            break
        last = min(last, completions - 1)
        if last < first or last <= end or first < 0:
            continue
        if first <= end + 1:
            first = found.pop()[0]
        found.append((first, last))
        end = last
    return found


def intervals_to_text(intervals: Iterable[Interval]) -> str:
    """The text of intervals: two consecutive indexes as "a,b", three or more as "a-c"."""
    return ",".join(
        f"{first}-{last}" if last > first + 1 else f"{first},{last}" if last > first else str(first)
        for first, last in intervals
    )


def compress(indexes: Iterable[int]) -> Intervals:
    """The intervals of ascending indexes; repeated indexes count once."""
    found: Intervals = []
    start = end = -2
    for index in indexes:
        if index == end + 1:
            end = index
        elif index > end:
            if start >= 0:
                found.append((start, end))
            start = end = index
    if start >= 0:
        found.append((start, end))
    return found


def expand(intervals: Iterable[Interval]) -> Iterator[int]:
    """Every index of the intervals, ascending."""
    for first, last in intervals:
        yield from range(first, last + 1)


def overlap(one: Sequence[Interval], other: Sequence[Interval]) -> int | None:
    """The first index in both lists of intervals; None if it does not exist."""
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][0] <= other[j][1] and other[j][0] <= one[i][1]:
            return max(one[i][0], other[j][0])
        if one[i][0] <= other[j][0]:
            i += 1
        else:
            j += 1
    return None

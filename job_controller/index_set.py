"""A set of completion indexes stored as intervals.

Its cost depends on the number of intervals, not of indexes: one short text in status may list 2*10^9 indexes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from functools import cached_property

from job_controller.index_intervals import Interval, Intervals, compress, expand, intervals_to_text


class IndexSet(Set[int]):
    """An immutable set of completion indexes.

    Every operation except iteration costs time proportional to the intervals, or to the set it is compared with. Do not
    iterate over a whole set.
    """

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        """The intervals are sorted and do not touch, as index_intervals.parse_intervals returns them."""
        self.intervals: Intervals = list(intervals)
        self._firsts = [first for first, _ in self.intervals]
        self._size = sum(last - first + 1 for first, last in self.intervals)

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        """The set of these indexes. Negative ones (pods without a valid index) are left out."""
        return cls(compress(index for index in sorted(indexes) if index >= 0))

    @cached_property
    def text(self) -> str:
        """The text of the set as status stores it (BEHAVIOUR.md#b8-index-text)."""
        return intervals_to_text(self.intervals)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        place = bisect_right(self._firsts, index) - 1
        return place >= 0 and index <= self.intervals[place][1]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        return expand(self.intervals)

    def __or__(self, other: Iterable[int]) -> IndexSet:  # type: ignore[override]
        more = other if isinstance(other, IndexSet) else IndexSet.of(other)
        if not more.intervals:
            return self
        joined: Intervals = []
        for first, last in sorted(self.intervals + more.intervals):
            if joined and first <= joined[-1][1] + 1:
                first, before = joined.pop()
                last = max(last, before)
            joined.append((first, last))
        return IndexSet(joined)

    def common(self, other: IndexSet) -> int:
        """The number of indexes in both sets."""
        found = i = j = 0
        while i < len(self.intervals) and j < len(other.intervals):
            (first, last), (begins, ends) = self.intervals[i], other.intervals[j]
            found += max(0, min(last, ends) - max(first, begins) + 1)
            if last < ends:
                i += 1
            else:
                j += 1
        return found

    def isdisjoint(self, other: Set[int]) -> bool:  # type: ignore[override]
        """Whether the sets have no index in common."""
        if len(self) <= 4 * len(other):  # faster: implemented in C
            return frozenset(other).isdisjoint(self)
        return not any(map(self.__contains__, other))

    def missing(self, end: int) -> Iterator[int]:
        """The indexes below `end` that are not in the set, lowest first."""
        begins = 0
        for first, last in self.intervals:
            yield from range(begins, min(first, end))
            begins = last + 1
        yield from range(begins, end)

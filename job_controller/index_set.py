"""A set of completion indexes that costs what its text costs: a status of one line may list two thousand million."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from functools import cached_property

from job_controller.intervals import Interval, Intervals, compress, expand, intervals_to_text


class IndexSet(Set[int]):
    """Immutable. Everything but iteration costs the intervals, or what the set is compared with; nobody should iterate
    over all."""

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        """The intervals are sorted and do not touch (intervals.parse_intervals)."""
        self.intervals: Intervals = list(intervals)
        self._firsts = [first for first, _ in self.intervals]
        self._size = sum(last - first + 1 for first, last in self.intervals)

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        """Those that are indexes: negative ones, of pods that have none, are left out."""
        return cls(compress(index for index in sorted(indexes) if index >= 0))

    @cached_property
    def text(self) -> str:
        """As status stores it."""
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
        """How many indexes are in both."""
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
        if len(self) <= 4 * len(other):  # a walk in C
            return frozenset(other).isdisjoint(self)
        return not any(map(self.__contains__, other))

    def missing(self, end: int) -> Iterator[int]:
        """The indexes below `end` that are not in here, lowest first."""
        begins = 0
        for first, last in self.intervals:
            yield from range(begins, min(first, end))
            begins = last + 1
        yield from range(begins, end)

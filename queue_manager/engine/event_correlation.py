"""Which Events are written, which are counted on an earlier one, and which are too many.

The three filters of client-go's EventCorrelator, in its order and with its figures. The version of the object makes no
difference.

1. *Aggregation*: Events about one object that differ only in their message are one group. From the tenth
   different message within ten minutes on, what is new is told as one Event whose message starts with
   "(combined from similar events): ". The first nine keep their own, and are counted up on them.
2. *Counting*: an Event like an earlier one (after aggregation) raises that one's count.
3. *Spam*: one object may cause 25 Events of one reason at once and then one per five minutes; the rest is not written.
   There the 25 are of a type, whatever the reason: the 25 pods of a Job leave no room for the news that it is complete.

Memory is bounded: of more than 4096 entries of a kind the longest unused are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

MAX_ENTRIES = 4096
MAX_SIMILAR = 9  # different messages told singly
SIMILAR_WITHIN = 600.0  # seconds
COMBINED = "(combined from similar events): "
BURST = 25.0  # Events of one object and reason
REFILL = 1 / 300  # Events per second

V = TypeVar("V")


@dataclass(slots=True)
class Occurrence:
    """How an Event is to be told: `count` times since `first`; `name` is that of the Event there is, if any."""

    message: str
    first: datetime
    count: int = 1
    name: str = ""


@dataclass(slots=True)
class _Group:
    last: datetime
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: datetime


class Correlator:
    """Remembers what was told. Pure: the time comes with each Event."""

    def __init__(self) -> None:
        self._groups: _Recent[_Group] = _Recent()
        self._told: _Recent[Occurrence] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()

    def take(self, source: tuple[str, ...], type: str, reason: str, message: str, now: datetime) -> Occurrence | None:
        """How to tell this Event of `source` (the reporter and the object); None: not at all."""
        group = (source, type, reason)
        combined = self._is_combined(group, message, now)
        text = COMBINED + message if combined else message
        key = (group, None if combined else message)
        told = self._told.get(key)
        if told is None:
            told = Occurrence(text, now)
            self._told.put(key, told)
        else:
            told.count += 1
            told.message = text
        return told if self._may(group, now) else None

    def written(self, occurrence: Occurrence, name: str) -> None:
        """The Event exists under this name: from now on it is counted up."""
        occurrence.name = name

    def _is_combined(self, key: Hashable, message: str, now: datetime) -> bool:
        group = self._groups.get(key)
        if group is None or (now - group.last).total_seconds() > SIMILAR_WITHIN:
            group = _Group(now)
            self._groups.put(key, group)
        group.last = now
        if len(group.messages) < MAX_SIMILAR:
            group.messages.add(message)
        return message not in group.messages

    def _may(self, group: Hashable, now: datetime) -> bool:
        bucket = self._buckets.get(group)
        if bucket is None:
            bucket = _Bucket(BURST, now)
            self._buckets.put(group, bucket)
        elapsed = max(0.0, (now - bucket.filled).total_seconds())
        bucket.tokens = min(BURST, bucket.tokens + elapsed * REFILL)
        bucket.filled = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


class _Recent(Generic[V]):
    """A dict that forgets what was not used for longest."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: Hashable, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)

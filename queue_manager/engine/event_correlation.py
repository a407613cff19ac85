"""Which Events are written as they are, which increase the count of an earlier Event, and which are dropped.

The three filters of client-go's EventCorrelator (tools/record/events_cache.go), with its order and constants. The
resourceVersion of the object is ignored.

1. *Aggregation*: Events about one object that differ only in the message form a group. From the tenth different
   message within ten minutes on, new messages are written as one Event that starts with
   "(combined from similar events): ". The first nine messages keep their own Events and counts.
2. *Counting*: an Event equal to an earlier one (after aggregation) increases the count of the earlier one.
3. *Spam filter*: one object may cause 25 Events of one reason at once, then one per five minutes; the rest is
   dropped. client-go limits per Event type instead of per reason; there the Events of the 25 pods of a Job would
   suppress the Event that the Job is complete.

Memory is bounded: each filter keeps the 4096 most recently used entries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

MAX_ENTRIES = 4096
MAX_SIMILAR = 9  # different messages that get Events of their own
SIMILAR_WITHIN_SECONDS = 600.0
COMBINED = "(combined from similar events): "
BURST = 25.0  # Events of one object and reason at once
REFILL = 1 / 300  # Events per second after that

V = TypeVar("V")


@dataclass(slots=True)
class Occurrence:
    """How to write an Event: `count` since `first`; as an update of the Event `name`, or anew if `name` is empty."""

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
    """Remembers recent Events. Pure: the time comes with each Event."""

    def __init__(self) -> None:
        self._groups: _Recent[_Group] = _Recent()
        self._written: _Recent[Occurrence] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()

    def take(self, source: tuple[str, ...], type: str, reason: str, message: str, now: datetime) -> Occurrence | None:
        """How to write this Event of `source` (reporting component and object), or None if it is dropped."""
        group = (source, type, reason)
        combined = self._is_combined(group, message, now)
        text = COMBINED + message if combined else message
        key = (group, None if combined else message)
        occurrence = self._written.get(key)
        if occurrence is None:
            occurrence = Occurrence(text, now)
            self._written.put(key, occurrence)
        else:
            occurrence.count += 1
            occurrence.message = text
        return occurrence if self._has_token(group, now) else None

    def written(self, occurrence: Occurrence, name: str) -> None:
        """Record that the Event was created under this name; later occurrences then increase its count."""
        occurrence.name = name

    def _is_combined(self, key: Hashable, message: str, now: datetime) -> bool:
        group = self._groups.get(key)
        if group is None or (now - group.last).total_seconds() > SIMILAR_WITHIN_SECONDS:
            group = _Group(now)
            self._groups.put(key, group)
        group.last = now
        if len(group.messages) < MAX_SIMILAR:
            group.messages.add(message)
        return message not in group.messages

    def _has_token(self, group: Hashable, now: datetime) -> bool:
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
    """A dict that drops the least recently used entry beyond MAX_ENTRIES."""

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

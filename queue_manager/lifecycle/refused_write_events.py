"""How often a manager records that the API server still rejects a write, and how long such an Event counts. Pure.

A rejected write is tried again after at most a minute. The Event about it (QueueingRefused) is recorded at the first
rejection, and again every REPEAT_SECONDS while they continue, so that a reader can distinguish a write that is still
rejected from one that was. BEHAVIOUR.md#q246-writes-that-the-api-server-refuses.
"""

from __future__ import annotations

from datetime import datetime, timedelta

REPEAT_SECONDS = 300.0
COUNTS_SECONDS = 2 * (REPEAT_SECONDS + 60)  # one repetition may get lost, and each is up to a minute late


def is_due(last: datetime | None, now: datetime) -> bool:
    """Whether the Event is recorded at this rejection. `last`: when it was recorded; None for the first rejection."""
    return last is None or now - last >= timedelta(seconds=REPEAT_SECONDS)


def counts(last: datetime, now: datetime) -> bool:
    """Whether an Event that was last recorded at `last` says that the write is still rejected."""
    return now - last <= timedelta(seconds=COUNTS_SECONDS)

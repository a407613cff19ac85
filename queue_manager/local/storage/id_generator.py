"""Generated names and UIDs, random from the injected source, so that a run can be reproduced."""

from __future__ import annotations

import uuid
from datetime import datetime
from random import Random

# Without vowels and look-alikes, as upstream, so that suffixes form no words and are not misread.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
MAX_GENERATED_PREFIX = 63 - SUFFIX_LENGTH


class IdGenerator:
    """Generates names, and UUIDs (version 7) that sort in the order of their creation."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._last = 0  # milliseconds << 12 | counter

    def name(self, prefix: str) -> str:
        """Return `prefix`, cut so that the result fits a DNS label, plus five random characters."""
        suffix = "".join(self._rng.choices(ALPHABET, k=SUFFIX_LENGTH))
        return prefix[:MAX_GENERATED_PREFIX] + suffix

    def uid(self, now: datetime) -> str:
        """Return a UID that sorts after all earlier ones, also within a millisecond and after the clock was set
        back.
        """
        stamp = int(now.timestamp() * 1000) << 12
        self._last = stamp = max(stamp, self._last + 1)
        value = (stamp >> 12) << 80 | 7 << 76 | (stamp & 0xFFF) << 64 | 2 << 62 | self._rng.getrandbits(62)
        digits = f"{value:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def seen(self, uid: str) -> None:
        """Record a UID read from disk: all new UIDs sort after it."""
        try:
            value = uuid.UUID(uid)
        except ValueError:
            return
        if value.version == 7:
            self._last = max(self._last, value.int >> 80 << 12 | value.int >> 64 & 0xFFF)

"""Exponential delays with jitter."""

from __future__ import annotations

from random import Random


class Backoff:
    """Delays that double from `first` to `longest` seconds; each is lengthened at random, up to twice.

    The jitter keeps clients that lost one server from reconnecting all at once. Defaults as in client-go's reflector:
    0.8 s to 30 s, jitter 1.
    """

    def __init__(self, rng: Random, first: float = 0.8, longest: float = 30.0) -> None:
        self._rng = rng
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        """Start again at the first delay, after a success."""
        self._next = self._first

    def delay(self, at_least: float = 0.0) -> float:
        """Seconds to wait before the next attempt, not less than `at_least`."""
        delay = self._next * (1 + self._rng.random())
        self._next = min(self._longest, 2 * self._next)
        return max(delay, at_least)

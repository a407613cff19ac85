"""Waiting longer after each failure."""

from __future__ import annotations

from random import Random


class Backoff:
    """Delays that double from `first` to `longest` seconds, each lengthened at random by up to itself.

    The randomness keeps clients that lost one server from coming back to it all at once (client-go's
    reflector: 0.8 s to 30 s, jitter 1).
    """

    def __init__(self, rng: Random, first: float = 0.8, longest: float = 30.0) -> None:
        self._rng = rng
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        """Start from the beginning: it went well."""
        self._next = self._first

    def delay(self, at_least: float = 0.0) -> float:
        """Seconds to wait now."""
        delay = self._next * (1 + self._rng.random())
        self._next = min(self._longest, 2 * self._next)
        return max(delay, at_least)

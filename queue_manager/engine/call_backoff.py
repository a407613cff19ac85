"""The delay between the attempts of a call that tenacity retries."""

from __future__ import annotations

from random import Random

from tenacity import RetryCallState
from tenacity.wait import wait_base

from queue_manager.engine.transport_protocol import ApiError


class Backoff(wait_base):
    """Wait strategy of tenacity: delays double from `first` to `longest` seconds, plus a random part of up to 100 %.

    The random part keeps clients that lost one server from returning to it all at once (client-go's reflector: 0.8 s to
    30 s, jitter 1). A server that says when to return (`ApiError.retry_after`) is not asked earlier.

    `reset` starts over. It is for an attempt that made progress before it failed, which tenacity's own number of the
    attempt does not show.
    """

    def __init__(self, rng: Random, first: float = 0.8, longest: float = 30.0) -> None:
        self._rng = rng
        self._first = first
        self._longest = longest
        self._next = first

    def __call__(self, retry_state: RetryCallState) -> float:
        """Seconds until the next attempt."""
        error = retry_state.outcome.exception() if retry_state.outcome is not None else None
        delay = self._next * (1 + self._rng.random())
        self._next = min(self._longest, 2 * self._next)
        return max(delay, (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0)

    def reset(self) -> None:
        """Begin again with the shortest delay, because the last attempt made progress."""
        self._next = self._first

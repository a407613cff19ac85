"""The delays between the attempts of a request that is retried."""

from __future__ import annotations

import random

from tenacity import RetryCallState, Retrying

from queue_manager.engine.call_backoff import Backoff
from queue_manager.engine.transport_protocol import ApiError


def test_backoff_doubles_to_its_limit_and_respects_retry_after() -> None:
    backoff = Backoff(random.Random(1), 1, 4)
    attempt = RetryCallState(Retrying(), None, (), {})
    for least in (1, 2, 4, 4):
        assert least <= backoff(attempt) <= 2 * least
    busy = ApiError(429, "TooManyRequests", "", {"details": {"retryAfterSeconds": 100}})
    attempt.set_exception((ApiError, busy, None))
    assert backoff(attempt) == 100
    backoff.reset()
    attempt.set_exception((OSError, OSError(), None))
    assert backoff(attempt) <= 2

"""How long an evicted Workload waits before it may try again (spec: kueue.md 4.5).

    wait(1) = base            wait(n) = min(2 * wait(n-1), max)            plus up to 0.01 % jitter

The first wait is not capped, even if base is greater than max.
"""

from __future__ import annotations

JITTER = 0.0001


def backoff_seconds(n: int, base: int, maximum: int, jitter: float = 0.0) -> float:
    """Seconds to wait after the n-th eviction (n >= 1). `jitter` is a random number in [0, 1)."""
    wait = base
    for _ in range(1, n):
        doubled = min(2 * wait, maximum) if maximum > 0 else 2 * wait
        if doubled == wait:
            break
        wait = doubled
    return wait * (1 + JITTER * jitter)

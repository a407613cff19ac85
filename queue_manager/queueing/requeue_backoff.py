"""How long an evicted Workload waits before it may try again (spec: kueue.md 4.5).

    Kueue      wait(1) = base            wait(n) = min(2 * wait(n-1), max)
    KEP1282    wait(n) = 1.41284738^(n-1)

plus up to 0.01 % jitter, in seconds. Kueue's first wait is not capped, even if base is greater than max. The waits
of the original design, KEP-1282, have neither base nor cap; they grow so that thirty of them fill a day.
"""

from __future__ import annotations

from typing import Literal

Formula = Literal["Kueue", "KEP1282"]

JITTER = 0.0001
NO_MAXIMUM = 2**62 // 10**9  # seconds, what Kueue takes a maximum of 0 for: 146 years
KEP_FACTOR = 1.41284738
KEP_LONGEST = 100 * 365 * 86400.0  # where the power would leave the calendar


def backoff_seconds(n: int, base: int, maximum: int, jitter: float = 0.0, formula: Formula = "Kueue") -> float:
    """Seconds to wait after the n-th eviction (n >= 1). `jitter` is a random number in [0, 1)."""
    wait = _kep1282(n) if formula == "KEP1282" else _kueue(n, base, maximum)
    return wait * (1 + JITTER * jitter)


def _kueue(n: int, base: int, maximum: int) -> int:
    wait, cap = base, maximum if maximum > 0 else NO_MAXIMUM
    for _ in range(1, n):
        doubled = min(2 * wait, cap)
        if doubled == wait:
            break
        wait = doubled
    return wait


def _kep1282(n: int) -> float:
    return min(KEP_FACTOR ** min(n - 1, 100), KEP_LONGEST)

"""How long an evicted Workload backs off before it may be admitted again (KEP-1282).

    Kueue      wait(1) = base            wait(n) = min(2 * wait(n-1), max)
    KEP1282    wait(n) = 1.41284738^(n-1)

in seconds, plus up to 0.01 % jitter. Kueue's first wait is not capped, even if base exceeds max. The waits of the
original proposal in KEP-1282 have neither base nor cap; thirty of them add up to 21 hours. See
BEHAVIOUR.md#q12-requeue-backoff.
"""

from __future__ import annotations

from typing import Literal

Formula = Literal["Kueue", "KEP1282"]

JITTER = 0.0001  # largest part by which a wait is lengthened
NO_MAXIMUM = 2**62 // 10**9  # seconds (146 years): how Kueue reads a maximum of 0
KEP_FACTOR = 1.41284738  # per retry
KEP_MAX_SECONDS = 100 * 365 * 86400.0  # keeps the power within the range of dates


def backoff_seconds(n: int, base: int, maximum: int, jitter: float = 0.0, formula: Formula = "Kueue") -> float:
    """Seconds to back off after the n-th eviction (n >= 1). `jitter` is a random number in [0, 1).

    Kueue: UpdateRequeueState in pkg/workload.
    """
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
    return min(KEP_FACTOR ** min(n - 1, 100), KEP_MAX_SECONDS)

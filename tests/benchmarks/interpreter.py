"""The Python build that ran a benchmark, a part of every figure: builds of one version differ by a factor of 1.8."""

from __future__ import annotations

import os
import platform
from time import process_time

LOOP = 100_000  # additions of integers


def interpreter() -> str:
    """Its version, and how long a plain loop takes: 1.5 ms with Debian's build of 3.11, 2.2 ms without its options."""
    loop = min(anchor() for _ in range(10)) * 1e3
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} cores; a loop over {LOOP:,} integers takes {loop:.1f} ms"
    )


def anchor() -> float:
    """CPU seconds of a loop that everyone can repeat."""
    started = process_time()
    total = 0
    for number in range(LOOP):
        total += number
    return process_time() - started

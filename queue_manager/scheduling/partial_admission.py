"""Partial admission (KEP-420): if not all pods of a Workload fit, admit as many as fit, but not fewer than minCount.

What fits with n pods fits with fewer, so the largest number is found by binary search. A number of pods that fits after
preemption fits too. BEHAVIOUR.md#q16-partial-admission.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from queue_manager.scheduling.workload_info import Info

Found = TypeVar("Found")


def largest_fit(info: Info, attempt: Callable[[Info], Found | None]) -> Found | None:
    """The result of `attempt` for the largest number of pods that fit; None if minCount does not fit, or is not set.

    `attempt` returns None for a Workload that does not fit.
    """
    index = next((i for i, pod_set in enumerate(info.pod_sets) if pod_set.minimum is not None), None)
    if index is None:
        return None
    least, most = info.pod_sets[index].minimum or 0, info.pod_sets[index].count - 1
    best: Found | None = None
    while least <= most:
        middle = (least + most + 1) // 2
        found = attempt(_with_count(info, index, middle))
        if found is not None:
            best, least = found, middle + 1
        else:
            most = middle - 1
    return best


def _with_count(info: Info, index: int, count: int) -> Info:
    pod_sets = list(info.pod_sets)
    pod_sets[index] = msgspec.structs.replace(pod_sets[index], count=count)
    return msgspec.structs.replace(info, pod_sets=tuple(pod_sets))

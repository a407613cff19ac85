"""Partial admission (KEP-420): if not all pods of a Workload fit, admit as many as fit, but not fewer than minCount.

What fits with n pods fits with fewer, so the largest number is found by binary search.
BEHAVIOUR.md#q16-partial-admission.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from queue_manager.scheduling.flavor_assignment import Assignment, Mode
from queue_manager.scheduling.workload_info import Info

Try = Callable[[Info], Assignment]


def largest_fit(info: Info, attempt: Try) -> Assignment | None:
    """The assignment of the largest number of pods that fit; None if minCount does not fit, or is not set."""
    index = next((i for i, pod_set in enumerate(info.pod_sets) if pod_set.minimum is not None), None)
    if index is None:
        return None
    least, most = info.pod_sets[index].minimum or 0, info.pod_sets[index].count - 1
    best: Assignment | None = None
    while least <= most:
        middle = (least + most + 1) // 2
        assignment = attempt(_with_count(info, index, middle))
        if assignment.mode is Mode.FIT:
            best, least = assignment, middle + 1
        else:
            most = middle - 1
    return best


def _with_count(info: Info, index: int, count: int) -> Info:
    pod_sets = list(info.pod_sets)
    pod_sets[index] = msgspec.structs.replace(pod_sets[index], count=count)
    return msgspec.structs.replace(info, pod_sets=tuple(pod_sets))

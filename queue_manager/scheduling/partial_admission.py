"""Partial admission (KEP-420): if not all pods of a Workload fit, admit as many as fit, but not fewer than minCount.

A binary search finds a number of pods that fits, and of which one more does not. A number that fits after preemption
fits too; with preemption a still larger one may do, since victims can exist for three pods and not for two.
BEHAVIOUR.md#q16-partial-admission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from queue_manager.scheduling.workload_info import Info

Found = TypeVar("Found")


def largest_fit(info: Info, attempt: Callable[[Info], Found | None]) -> Found | None:
    """The result of `attempt` for the number of pods that the search finds; None if it finds none, or without a
    minCount.

    `attempt` returns None for a Workload that does not fit.
    """
    pod_set = next((each for each in info.pod_sets if each.minimum is not None), None)
    if pod_set is None:
        return None
    least, most = pod_set.minimum or 0, pod_set.count - 1
    best: Found | None = None
    while least <= most:
        middle = (least + most + 1) // 2
        found = attempt(with_counts(info, {pod_set.name: middle}))
        if found is not None:
            best, least = found, middle + 1
        else:
            most = middle - 1
    return best


def with_fewest_pods(info: Info) -> Info:
    """The Workload with minCount pods; itself if that is not set, or no fewer."""
    counts = {each.name: each.minimum for each in info.pod_sets if each.minimum is not None}
    return with_counts(info, {each.name: min(each.count, counts.get(each.name, each.count)) for each in info.pod_sets})


def with_counts(info: Info, counts: Mapping[str, int]) -> Info:
    """The Workload with other numbers of pods, by pod set; itself if they are the same."""
    pod_sets = tuple(msgspec.structs.replace(each, count=counts.get(each.name, each.count)) for each in info.pod_sets)
    return info if pod_sets == info.pod_sets else msgspec.structs.replace(info, pod_sets=pod_sets)

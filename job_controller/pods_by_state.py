"""The pods of a Job, sorted by state, with unchanged parts reused from the last sync.

A Job may have 100 000 pods of which few change between two syncs. So the pods are sorted in parts of PODS_PER_PART, and
a part whose pods are identical objects to those of the last sync is reused: its cost is comparing object identities. A
part depends on nothing but its pods. What depends on the Job is computed for the few `countable` pods only.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from job_controller.labels import COMPLETION_INDEX, DELETING, TRACKING_FINALIZERS
from job_controller.model import Pod
from job_controller.pod_facts import completion_index, is_failed, is_ready
from job_controller.pod_phases import TERMINAL

PODS_PER_PART = 64


@dataclass(frozen=True, slots=True)
class Part:
    """Some pods of a Job. A pod can be in several of these lists.

    active      neither terminal nor being deleted; `ready` of them are ready; `indexes` are their indexes
    terminating being deleted, and not terminal
    tracked     with a tracking finalizer
    countable   tracked and not active: the pods that can count as finished; `countable_indexes` are their indexes
    interrupted without the finalizer and marked with labels.DELETING: their deletion failed
    """

    pods: tuple[Pod, ...] = ()
    active: Sequence[Pod] = ()
    ready: int = 0
    indexes: Sequence[int] = ()
    terminating: Sequence[Pod] = ()
    tracked: Sequence[Pod] = ()
    countable: Sequence[Pod] = ()
    countable_indexes: Sequence[int] = ()
    interrupted: Sequence[Pod] = ()


Parts = Sequence[Part]


@dataclass(slots=True)
class SortedPods:
    """All pods of a Job; lists as in Part. The countable pods of an Indexed Job are sorted by index.

    succeeded   countable pods that succeeded and are not recorded; of an Indexed Job those with a valid index
    failed      likewise, pods that failed
    completed   the indexes of the succeeded pods
    """

    active: list[Pod] = field(default_factory=list)
    ready: int = 0
    indexes: list[int] = field(default_factory=list)
    terminating: list[Pod] = field(default_factory=list)
    tracked: list[Pod] = field(default_factory=list)
    countable: list[Pod] = field(default_factory=list)
    countable_indexes: list[int] = field(default_factory=list)
    interrupted: list[Pod] = field(default_factory=list)
    succeeded: list[Pod] = field(default_factory=list)
    failed: list[Pod] = field(default_factory=list)
    completed: set[int] = field(default_factory=set)


def split(pods: tuple[Pod, ...], before: Parts = ()) -> Parts:
    """The pods in parts of PODS_PER_PART; unchanged parts are taken from `before`. O(pods)."""
    found: list[Part] = []
    for number, start in enumerate(range(0, len(pods), PODS_PER_PART)):
        some = pods[start : start + PODS_PER_PART]
        known = before[number] if number < len(before) else None
        found.append(known if known is not None and known.pods == some else _part(some))
    return found


def _part(pods: tuple[Pod, ...]) -> Part:
    active: list[Pod] = []
    terminating: list[Pod] = []
    tracked: list[Pod] = []
    countable: list[Pod] = []
    interrupted: list[Pod] = []
    untracked = TRACKING_FINALIZERS.isdisjoint  # inlined is_tracked: this loop runs for each pod
    for pod in pods:
        meta = pod.metadata
        runs = pod.status.phase not in TERMINAL
        if runs:
            runs = meta.deletion_timestamp is None
            (active if runs else terminating).append(pod)
        if not untracked(meta.finalizers):
            tracked.append(pod)
            if not runs:
                countable.append(pod)
        elif DELETING in meta.annotations and meta.deletion_timestamp is None:
            interrupted.append(pod)
    ready = sum(map(is_ready, active))
    return Part(
        pods, active, ready, _indexes(active), terminating, tracked, countable, _indexes(countable), interrupted
    )


def _indexes(pods: Sequence[Pod]) -> list[int]:
    """The completion indexes of these pods, -1 for an invalid one."""
    texts = [pod.metadata.annotations.get(COMPLETION_INDEX, "") for pod in pods]
    all_of_them = "".join(texts)
    if all(texts) and all_of_them.isdecimal() and all_of_them.isascii() and max(map(len, texts)) < 10:
        return list(map(int, texts))
    return list(map(completion_index, pods))


def join(parts: Parts, recorded: Set[str], only_terminal: bool, completions: int | None) -> SortedPods:
    """The parts combined.

    `recorded`: UIDs in status.uncountedTerminatedPods. `completions`: None unless the Job is Indexed. A running pod
    whose UID is recorded, by a failed Job or by another writer of the status, is countable too.
    """
    found = SortedPods()
    for part in parts:
        found.active += part.active
        found.ready += part.ready
        found.indexes += part.indexes
        found.terminating += part.terminating
        found.tracked += part.tracked
        found.countable += part.countable
        found.countable_indexes += part.countable_indexes
        found.interrupted += part.interrupted
    if completions is not None:
        order = sorted(range(len(found.countable)), key=found.countable_indexes.__getitem__)
        found.countable = [found.countable[place] for place in order]
        found.countable_indexes = [found.countable_indexes[place] for place in order]
    _find_finished(found, recorded, only_terminal, completions)
    running = recorded - {pod.metadata.uid for pod in found.countable} if recorded else recorded
    if running:  # mostly empty: the pods of most recorded UIDs are gone
        active = {pod.metadata.uid for pod in found.active} & running
        found.countable += [pod for pod in found.tracked if pod.metadata.uid in active]
    return found


def _find_finished(found: SortedPods, recorded: Set[str], only_terminal: bool, completions: int | None) -> None:
    for pod, index in zip(found.countable, found.countable_indexes, strict=True):
        if pod.metadata.uid in recorded:
            continue
        if completions is not None and not 0 <= index < completions:
            continue
        if pod.status.has_succeeded:
            found.succeeded.append(pod)
            if completions is not None:
                found.completed.add(index)
        elif is_failed(pod, only_terminal):
            found.failed.append(pod)

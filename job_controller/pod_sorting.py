"""The pods of a Job, sorted (spec 2.2, steps 10 and 11).

A Job may have a hundred thousand pods, and all of them are looked at in each sync, though few have changed since the
last one. So they are sorted in parts of some dozens, and a part of which no pod has changed is taken over from the
last sync: what that costs is a comparison of object identities. What is known of a part depends on nothing
but its pods; whatever depends on the Job is worked out for the few pods that are `loose`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from job_controller.labels import COMPLETION_INDEX, DELETING, TRACKING_FINALIZERS
from job_controller.model import Pod
from job_controller.pod_facts import ENDED, completion_index, is_failed, is_ready

SIZE = 64  # pods in a part


@dataclass(frozen=True, slots=True)
class Part:
    """Some pods of a Job. One can be in several of these.

    active      neither ended nor being deleted; of them so many are ready, and work on these indexes
    terminating being deleted, and not ended
    tracked     carry our finalizer: each of them is still to be counted, or just noted as uncounted
    loose       tracked and not active: only they can be over while the Job goes on; they worked on these indexes
    interrupted lost the finalizer for a deletion that did not happen
    """

    pods: tuple[Pod, ...] = ()
    active: Sequence[Pod] = ()
    ready: int = 0
    indexes: Sequence[int] = ()
    terminating: Sequence[Pod] = ()
    tracked: Sequence[Pod] = ()
    loose: Sequence[Pod] = ()
    loose_indexes: Sequence[int] = ()
    interrupted: Sequence[Pod] = ()


Parts = Sequence[Part]


@dataclass(slots=True)
class Sorted:
    """All pods of a Job. As in Part, the loose ones of an Indexed Job by index, and

    succeeded   of an Indexed Job only those with an index that it has
    failed      likewise; both are not noted anywhere yet
    completed   the indexes of those that succeeded
    """

    active: list[Pod] = field(default_factory=list)
    ready: int = 0
    indexes: list[int] = field(default_factory=list)
    terminating: list[Pod] = field(default_factory=list)
    tracked: list[Pod] = field(default_factory=list)
    loose: list[Pod] = field(default_factory=list)
    loose_indexes: list[int] = field(default_factory=list)
    interrupted: list[Pod] = field(default_factory=list)
    succeeded: list[Pod] = field(default_factory=list)
    failed: list[Pod] = field(default_factory=list)
    completed: set[int] = field(default_factory=set)


def split(pods: tuple[Pod, ...], before: Parts = ()) -> Parts:
    """The pods in parts; unchanged ones are those of the last time. O(pods)."""
    found: list[Part] = []
    for number, start in enumerate(range(0, len(pods), SIZE)):
        some = pods[start : start + SIZE]
        known = before[number] if number < len(before) else None
        found.append(known if known is not None and known.pods == some else _part(some))
    return found


def _part(pods: tuple[Pod, ...]) -> Part:
    active: list[Pod] = []
    terminating: list[Pod] = []
    tracked: list[Pod] = []
    loose: list[Pod] = []
    interrupted: list[Pod] = []
    untracked = TRACKING_FINALIZERS.isdisjoint  # is_tracked, without a call of ours for each of so many pods
    for pod in pods:
        meta = pod.metadata
        runs = pod.status.phase not in ENDED
        if runs:
            runs = meta.deletion_timestamp is None
            (active if runs else terminating).append(pod)
        if not untracked(meta.finalizers):
            tracked.append(pod)
            if not runs:
                loose.append(pod)
        elif DELETING in meta.annotations and meta.deletion_timestamp is None:
            interrupted.append(pod)
    ready = sum(map(is_ready, active))
    return Part(pods, active, ready, _indexes(active), terminating, tracked, loose, _indexes(loose), interrupted)


def _indexes(pods: Sequence[Pod]) -> list[int]:
    """The completion indexes of these pods, -1 for none."""
    texts = [pod.metadata.annotations.get(COMPLETION_INDEX, "") for pod in pods]
    all_of_them = "".join(texts)
    if all(texts) and all_of_them.isdecimal() and all_of_them.isascii() and max(map(len, texts)) < 10:
        return list(map(int, texts))
    return list(map(completion_index, pods))


def join(parts: Parts, noted: Set[str], only_terminal: bool, completions: int | None) -> Sorted:
    """noted: UIDs that status lists as uncounted. completions: of an Indexed Job; None if it is none."""
    found = Sorted()
    for part in parts:
        found.active += part.active
        found.ready += part.ready
        found.indexes += part.indexes
        found.terminating += part.terminating
        found.tracked += part.tracked
        found.loose += part.loose
        found.loose_indexes += part.loose_indexes
        found.interrupted += part.interrupted
    if completions is not None:
        order = sorted(range(len(found.loose)), key=found.loose_indexes.__getitem__)
        found.loose = [found.loose[place] for place in order]
        found.loose_indexes = [found.loose_indexes[place] for place in order]
    _find_ends(found, noted, only_terminal, completions)
    running = noted - {pod.metadata.uid for pod in found.loose} if noted else noted
    if running:  # noted with a Job that failed, or by whoever else wrote the status; mostly their pods are gone
        active = {pod.metadata.uid for pod in found.active} & running
        found.loose += [pod for pod in found.tracked if pod.metadata.uid in active]
    return found


def _find_ends(found: Sorted, noted: Set[str], only_terminal: bool, completions: int | None) -> None:
    for pod, index in zip(found.loose, found.loose_indexes, strict=True):
        if pod.metadata.uid in noted:
            continue
        if completions is not None and not 0 <= index < completions:
            continue
        if pod.status.phase == "Succeeded":
            found.succeeded.append(pod)
            if completions is not None:
                found.completed.add(index)
        elif is_failed(pod, only_terminal):
            found.failed.append(pod)

"""Of two Workloads that wait in one ClusterQueue, the first is not overtaken if it asks for no more than the other one.

The real scheduler runs on generated stores, in which each pending Workload has equal ones of other ages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest
from msgspec import structs

from queue_manager.api.types import Workload, WorkloadStatus
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.queueing.pending import PendingWorkloads
from queue_manager.scheduler.admission_loop import Scheduler
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduling.workload_info import Info
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.simulation.stores import crowded_settings, crowded_store, look_at_rest

STORES, BATCH = 800, 200


class Seen(NamedTuple):
    """A state at rest: pending Workloads with their ClusterQueue, and uids of those that hold quota, or for which it is
    kept.
    """

    pending: dict[str, tuple[str, Info]]
    held: set[str]
    kept: set[str]


def equals_of(w: Workload, rng: Random) -> Iterator[Workload]:
    for i in range(rng.randint(1, 4)):
        created = w.metadata.creation_timestamp + timedelta(seconds=rng.randint(-20, 20))
        names = {"name": f"{w.metadata.name}x{i}", "uid": f"{w.metadata.uid}x{i}"}
        yield structs.replace(w, metadata=structs.replace(w.metadata, **names, creation_timestamp=created))


def generated(rng: Random) -> tuple[ClusterObjects, WorkloadSettings]:
    """Without backfilling and past usage, which have an order of their own, and without claims from before."""
    objects, settings = crowded_store(rng), crowded_settings(rng)
    running = [w for w in objects.workloads if w.status.admission is not None]
    waiting = [structs.replace(w, status=WorkloadStatus()) for w in objects.workloads if w.status.admission is None]
    more = [each for w in waiting for each in equals_of(w, rng)]
    return replace(objects, workloads=[*running, *waiting, *more]), replace(settings, backfill=None, usage_decay=None)


def look(scheduler: Scheduler, quota_cache: QuotaCache) -> Seen:
    queues, state = quota_cache.queues, quota_cache.state
    pending = {info.uid: (name, info) for name, waiting in queues.cluster_queues.items() for info in waiting.in_order()}
    return Seen(pending, set(state.holdings), set(state.reservations))


def cpu(info: Info) -> int:
    return sum(pod_set.total.get("cpu", 0) for pod_set in info.pod_sets)


def is_first(one: Info, other: Info) -> bool:
    """Whether `one` is ordered before the other one and asks for no more, in the same flavors."""
    places = [[pod_set.placement for pod_set in info.pod_sets] for info in (one, other)]
    return one.rank < other.rank and cpu(one) <= cpu(other) and places[0] == places[1] and not one.error


def pairs(seed: int) -> Iterator[tuple[str, str, bool]]:
    """(first, other, overtaken) for each two that waited, when the other one gets quota, or some is kept for it."""
    rng = Random(seed)
    states = look_at_rest(*generated(rng), rng, look)
    for before, after in pairwise(states):
        served = after.held | after.kept
        for uid in before.pending.keys() & (after.held | after.kept - before.kept):
            name, other = before.pending[uid]
            for first, (queue, info) in before.pending.items():
                if queue == name and first in after.pending.keys() | served and is_first(info, other):
                    yield first, uid, first not in served


@pytest.mark.parametrize("batch", range(0, STORES, BATCH))
def test_the_first_of_two_is_not_overtaken(batch: int) -> None:
    found = {seed: list(pairs(seed)) for seed in range(batch, batch + BATCH)}
    assert not {seed: pair for seed, some in found.items() for pair in some if pair[2]}
    assert sum(map(len, found.values())) >= BATCH / 10


def test_one_that_overtakes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the victims of others leave over goes to the first that claims it."""
    monkeypatch.setattr(
        PendingWorkloads, "_is_tried_before", lambda self, preemptor, other: other.priority <= preemptor.priority
    )
    assert any(overtaken for seed in (96, 805) for *_, overtaken in pairs(seed))

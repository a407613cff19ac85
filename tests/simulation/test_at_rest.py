"""A cluster at rest stays at rest when every pending Workload is tried again: no change was missed.

The real scheduler runs on generated stores: with preemption, fair sharing, backfilling and minimum runtimes. Where
victims still stop, a try may change what is kept for whom (queue_manager/BEHAVIOUR.md#q56-tries-after-a-preemption).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.simulation.stores import (
    Rest,
    backfilling_settings,
    crowded_store,
    random_settings,
    rests,
    store,
)

STORES, BATCH = 400, 100
Generate = Callable[[Random], tuple[ClusterObjects, WorkloadSettings]]


def any_store(rng: Random) -> tuple[ClusterObjects, WorkloadSettings]:
    return store(rng), random_settings(rng)


def store_with_heads(rng: Random) -> tuple[ClusterObjects, WorkloadSettings]:
    """Most Workloads wait, and quota is kept for the heads of the ClusterQueues."""
    return crowded_store(rng), backfilling_settings(rng)


def states_at_rest(seeds: range, generate: Generate = any_store) -> Iterator[tuple[int, Rest, Rest]]:
    """(seed, state, state after every Workload was tried again)."""
    for seed in seeds:
        rng = Random(seed)
        objects, settings = generate(rng)
        for before, after in rests(objects, settings, rng):
            yield seed, before, after


@pytest.mark.parametrize("generate", [any_store, store_with_heads])
@pytest.mark.parametrize("batch", range(0, STORES, BATCH))
def test_nothing_changes_when_every_workload_is_tried_again(batch: int, generate: Generate) -> None:
    quiet = preempting = 0
    for seed, before, after in states_at_rest(range(batch, batch + BATCH), generate):
        if before.stopping:
            preempting += 1
        else:
            quiet += 1
            assert after == before, seed
    assert min(quiet, 3 * preempting) > BATCH, (quiet, preempting)


def test_a_change_after_which_nobody_is_tried_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quota is released, and the Workloads that it could let run are not woken."""
    monkeypatch.setattr(SchedulerState, "relatives_of_all", lambda state, names: [])
    found = states_at_rest(range(BATCH))
    assert any(after != before for _, before, after in found if not before.stopping)


def test_one_that_was_kept_back_and_is_not_tried_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head is gone, or starts later than promised."""
    monkeypatch.setattr(Queues, "take_for_idle", lambda queues: {})
    found = states_at_rest(range(3_300, 3_300 + BATCH), store_with_heads)
    assert any(after != before for _, before, after in found if not before.stopping)

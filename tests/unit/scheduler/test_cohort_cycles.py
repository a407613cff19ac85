"""Which ClusterQueues are reported when a cycle of Cohorts is closed, broken or changed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS
from queue_manager.api.types import ClusterQueue, Cohort
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduling.quota_forest import Cycle
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock
from tests.simulation.stores import NoServer
from tests.unit.queueing.builders import cluster_queue, cohort

COHORT_NAMES = ("a", "b", "c", "d")
QUEUES = {f"in-{name}": name for name in (*COHORT_NAMES, "")}


class _Watched:
    """A quota cache with a ClusterQueue below each cohort, and the ClusterQueues that it has reported."""

    def __init__(self) -> None:
        runtime = Runtime(NoServer(), virtual_clock(), Random(0))
        self._quota_cache = QuotaCache(runtime, WorkloadSettings())
        self._cohorts = runtime.cache(COHORTS, Cohort)
        self._known: dict[str, Cohort] = {}
        self._reported: set[str] = set()
        self._quota_cache.cycle_listeners.append(self._record)
        queues = [cluster_queue(name, cohortName=cohort_name) for name, cohort_name in QUEUES.items()]
        runtime.cache(CLUSTER_QUEUES, ClusterQueue).reset(queues, 1)

    def _record(self, names: Sequence[str]) -> None:
        self._reported.update(names)

    def set_parents(self, revision: int, **parents: str | None) -> set[str]:
        """Give these Cohorts a parent, "" none, or delete those of None. Returns the ClusterQueues reported."""
        self._reported = set()
        for name, parent in parents.items():
            self._known.pop(name, None)
            if parent is not None:
                made = cohort(name, parent)
                version = replace(made.metadata, uid=f"uid-{name}", resource_version=str(revision))
                self._known[name] = replace(made, metadata=version)
        self._cohorts.reset(list(self._known.values()), revision)
        return self._reported

    def cycles(self) -> dict[str, Cycle]:
        return {name: self._quota_cache.state.cycle_above(name) for name in QUEUES}


def test_a_cycle_is_reported_for_the_queues_of_all_its_members() -> None:
    """The ClusterQueue is below b, and the cycle is closed and broken by a."""

    async def scenario() -> None:
        watched = _Watched()
        watched.set_parents(1, a="", b="a")
        assert watched.set_parents(2, a="b") == {"in-a", "in-b"}
        assert watched.set_parents(3, a="") == {"in-a", "in-b"}

    run_virtual(scenario())


@pytest.mark.parametrize("seed", range(40))
def test_each_queue_whose_cycle_changes_is_reported_after_any_change(seed: int) -> None:
    async def scenario() -> int:
        rng, watched, changes = Random(seed), _Watched(), 0
        for revision in range(1, 40):
            before = watched.cycles()
            name, parent = rng.choice(COHORT_NAMES), rng.choice((*COHORT_NAMES, "", None))
            reported = watched.set_parents(revision, **{name: parent})
            changed = {queue for queue, cycle in watched.cycles().items() if cycle != before[queue]}
            assert changed <= reported, (seed, revision, name, parent)
            changes += bool(changed)
        return changes

    assert run_virtual(scenario()) >= 3

"""Crowds of short Workloads under random policies, beside a slow API server: many preemptors wait at the same time.

While victims stop, preemptors take quota from each other. Cycles must end nevertheless, and in the end all have run.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from job_controller.json_tree import Json
from queue_manager.queueing import queue_set
from queue_manager.scheduler.admission_loop import ENDLESS_TRIES
from tests.benchmarks.bench_queue_replay import replay
from tests.benchmarks.queue_shape import Queue, Shape, WorkloadClass

ENDLESS = (74, 80, 81, 134, 168)  # seeds of crowds whose cycles did not end when preemptors were tried by rank alone
MANY_TRIES = 81  # seed of a crowd in which preemptors are often tried again although nothing has changed
OFTEN = (*ENDLESS, 0, 1)  # in `make test`
RARELY = range(2, 40)
MOST_CPUS = 8  # of one Workload; whatever the limits, it may use as many


@dataclass(frozen=True)
class Crowd(Shape):
    """A cohort whose ClusterQueues have policies, limits and quotas of their own."""

    seed: int = 0

    @property
    def quota_of_cohort(self) -> int:
        return sum(self._nominal(queue) for queue in self.queues)

    def _nominal(self, queue: Queue) -> int:
        """At least MOST_CPUS in the first ClusterQueue, which lends all of it."""
        quotas = [8, 12, 20] if queue == self.queues[0] else [0, 2, 4, 8, 12, 20]
        return self._random(queue).choice(quotas)

    def _random(self, queue: Queue) -> Random:
        return Random(f"{self.seed} {queue.name}")

    def _cluster_queue(self, queue: Queue) -> Json:
        rng, spec, nominal = self._random(queue), super()._cluster_queue(queue), self._nominal(queue)
        quota = {"name": "cpu", "nominalQuota": nominal}
        if rng.random() < 0.2:
            quota["borrowingLimit"] = rng.choice([MOST_CPUS, 20])
        if rng.random() < 0.2 and nominal and queue != self.queues[0]:
            quota["lendingLimit"] = rng.randint(0, nominal)
        spec["resourceGroups"][0]["flavors"][0]["resources"] = [quota]
        policy: Json = {
            "withinClusterQueue": rng.choice(["LowerPriority", "LowerOrNewerEqualPriority", "Never"]),
            "reclaimWithinCohort": rng.choice(["Any", "Any", "LowerPriority", "Never"]),
        }
        if policy["reclaimWithinCohort"] != "Never" and rng.random() < 0.2:
            policy["borrowWithinCohort"] = {"policy": "LowerPriority"}
        strategy = rng.choice(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"])
        return {**spec, "preemption": policy, "queueingStrategy": strategy}


def crowd(seed: int) -> Crowd:
    rng = Random(seed)
    classes = tuple(
        WorkloadClass(
            name=f"kind{number}",
            count=rng.randint(10, 40),
            cpu=rng.choice([1, 1, 2, 3, 5, MOST_CPUS]),
            run_seconds=rng.choice([0.1, 0.2, 0.5, 1.0, 2.0]),
            priority=rng.choice([50, 100, 100, 200]),
            interval_seconds=rng.choice([0.02, 0.05, 0.1, 0.3]),
        )
        for number in range(rng.randint(2, 4))
    )
    return Crowd(cohorts=1, queues_per_cohort=rng.randint(2, 6), classes=classes, seed=seed)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [*OFTEN, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in RARELY)])
def test_all_of_a_crowd_run_in_the_end_within_the_quota(seed: int) -> None:
    """Cycles that do not end would stop the virtual time, and this test with it."""
    shape = crowd(seed)
    record = replay(shape).record
    assert record.finished == shape.total
    assert record.most_in_use <= shape.quota_of_cohort


def test_a_crowd_runs_though_preemptors_are_tried_once_between_changes(monkeypatch, caplog) -> None:
    """This bound ends cycles; here they would have ended without it, and those that it ends are repeated in time."""
    monkeypatch.setattr(queue_set, "MOST_TRIES", 1)
    shape = crowd(MANY_TRIES)
    record = replay(shape).record
    assert (record.finished, record.most_in_use <= shape.quota_of_cohort) == (shape.total, True)
    assert ENDLESS_TRIES in caplog.messages

"""Replays the log of a batch system through queue and scheduler, in virtual time.

Each job of the log is a Workload of one pod set with a pod per processor. It arrives at its submit time, declares the
user's estimate as its maximum execution time, and ends after its recorded run time or, if that is longer, at the
estimate. Only the decisions run here: no API server, no Jobs.

The log is that of the IBM SP2 at the Swedish Royal Institute of Technology (KTH), by Lars Malinowsky, from the Parallel
Workloads Archive of D. Feitelson and others, in Standard Workload Format.
"""

from __future__ import annotations

import gzip
import heapq
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from queue_manager.api.types import LocalQueue, Workload
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.backfill import Backfilling, BackfillRules
from queue_manager.scheduling.cycle import Admit, run_cycle
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.workload_info import Info, info
from tests.unit.queueing.builders import T0, at, cluster_queue, flavor, wire

LOG = Path(__file__).parent.parent / "golden" / "traces" / "kth-sp2.swf.gz"
PROCESSORS = 100
SHORT_RUN = 10  # seconds; shorter runs count as this long in the bounded slowdown


class LoggedJob(NamedTuple):
    """One line of the log; times in seconds."""

    number: int
    submitted: int
    processors: int
    run: int
    estimate: int


class Replay(NamedTuple):
    """The waits of a replay, in seconds, by number of the job."""

    waits: dict[int, int]
    mean_wait: float
    mean_bounded_slowdown: float

    @classmethod
    def of(cls, waits: list[tuple[int, LoggedJob]]) -> Replay:
        """The result of jobs that waited so many seconds each."""
        slowdowns = (max(1.0, (wait + job.run) / max(job.run, SHORT_RUN)) for wait, job in waits)
        by_job = {job.number: wait for wait, job in waits}
        return cls(by_job, sum(by_job.values()) / len(waits), sum(slowdowns) / len(waits))


def read_log(limit: int | None = None) -> list[LoggedJob]:
    """The jobs of the log in order of submission."""
    with gzip.open(LOG, "rt") as lines:
        rows = (line.split() for line in lines if line.strip() and not line.startswith(";"))
        return sorted(islice(_jobs(rows), limit), key=lambda job: job.submitted)


def _jobs(rows: Iterator[list[str]]) -> Iterator[LoggedJob]:
    for row in rows:
        number, submitted, _, run, allocated, *_ = map(int, row[:5])
        requested, estimate = int(row[7]), int(row[8])
        processors = requested if requested > 0 else allocated
        if processors > 0 and run >= 0:
            estimate = estimate if estimate > 0 else run
            yield LoggedJob(number, submitted, processors, min(run, estimate), estimate)


class BatchLogReplay:
    """One ClusterQueue of 100 cpus, and a clock that moves from arrival to end."""

    def __init__(self, strategy: str, rules: BackfillRules | None = None) -> None:
        self._state = SchedulerState()
        self._state.flavors["default"] = flavor("default")
        self._state.namespaces["ns"] = {}
        queue = cluster_queue(strategy=strategy, quotas={"default": {"cpu": str(PROCESSORS)}})
        self._state.set_queue(queue)
        self._queues = Queues()
        self._queues.set_cluster_queue(queue, T0)
        local = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
        self._queues.set_local_queue(msgspec.convert(local, LocalQueue), T0)
        self._backfilling = Backfilling(rules) if rules is not None else None
        self._ends: list[tuple[int, str]] = []
        self._jobs: dict[str, LoggedJob] = {}
        self._waits: list[tuple[int, LoggedJob]] = []

    def run(self, jobs: list[LoggedJob]) -> Replay:
        """Replay the whole log."""
        arrivals = iter(jobs)
        job = next(arrivals, None)
        while job is not None or self._ends:
            now = min(job.submitted if job else self._ends[0][0], self._ends[0][0] if self._ends else 1 << 62)
            while self._ends and self._ends[0][0] <= now:
                self._state.release(heapq.heappop(self._ends)[1])
                self._queues.requeue_inadmissible(["cq"], at(now))
            while job is not None and job.submitted <= now:
                self._arrive(job, now)
                job = next(arrivals, None)
            self._admit(now)
        return Replay.of(self._waits)

    def _arrive(self, job: LoggedJob, now: int) -> None:
        arrived = _workload(job)
        self._jobs[arrived.uid] = job
        self._queues.put(arrived, at(now))

    def _admit(self, now: int) -> None:
        while heads := self._queues.heads(lambda name: True, at(now)):
            waiting = self._queues.waiting_heads()
            for outcome in run_cycle(self._state, heads, at(now), self._backfilling, waiting):
                if isinstance(outcome, Admit):
                    self._start(outcome, now)
                else:
                    behind = (
                        self._backfilling.order_behind(outcome.info, "Never", at(now)) if self._backfilling else None
                    )
                    self._queues.refused(outcome, behind=behind)

    def _start(self, admitted: Admit, now: int) -> None:
        one = admitted.info
        job = self._jobs.pop(one.uid)
        self._queues.remove(one.key)
        usage = admitted.assignment.usage
        ends_by = at(now + job.estimate)
        self._state.hold(Holding(one.uid, one.key, "cq", one.queue, usage, admitted=True, ends_by=ends_by))
        heapq.heappush(self._ends, (now + job.run, one.uid))
        self._waits.append((now - job.submitted, job))


def _workload(job: LoggedJob) -> Info:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    tree = {
        "metadata": {
            "name": f"job-{job.number}",
            "namespace": "ns",
            "uid": f"{job.number:06}",
            "creationTimestamp": wire(job.submitted),
        },
        "spec": {
            "queueName": "lq",
            "maximumExecutionTimeSeconds": job.estimate,
            "podSets": [{"name": "main", "count": job.processors, "template": {"spec": {"containers": [container]}}}],
        },
    }
    return info(msgspec.convert(tree, Workload))

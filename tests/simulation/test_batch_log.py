"""Backfilling on the recorded year of a batch system, against figures of an independent simulation."""

from __future__ import annotations

import heapq
from datetime import timedelta

import pytest

from queue_manager.scheduling.backfill import BackfillRules
from tests.simulation.batch_log import PROCESSORS, BatchLogReplay, LoggedJob, Replay, read_log

AT_ONCE = timedelta(0)
EASY = BackfillRules(AT_ONCE)
SHORTEST_FIRST = BackfillRules(AT_ONCE, shortest_first=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("strategy", "rules", "published"),
    [
        pytest.param("StrictFIFO", None, 6822.3, id="first come first served"),
        pytest.param("BestEffortFIFO", EASY, 92.9, id="EASY"),
    ],
)
def test_the_mean_bounded_slowdown_of_the_year_is_the_published_one(strategy, rules, published):
    """28 489 jobs. The published figures are those of the Parallel Workloads Archive's literature for this log."""
    replay = BatchLogReplay(strategy, rules).run(read_log())
    assert len(replay.waits) == 28_489
    assert replay.mean_bounded_slowdown == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize("rules", [None, EASY, SHORTEST_FIRST], ids=["first come first served", "EASY", "shortest"])
def test_each_start_is_that_of_the_textbook(rules):
    """3 000 jobs: queue, quota tree and cycle start every job when sixty lines written for processors alone do."""
    jobs = read_log(3000)
    strategy = "StrictFIFO" if rules is None else "BestEffortFIFO"
    assert BatchLogReplay(strategy, rules).run(jobs).waits == _Textbook(jobs, rules).replay().waits


def test_without_backfilling_small_workloads_starve_a_large_one():
    """The stream of small ones holds half of the processors at any time, so the large one starts after the last."""
    large = LoggedJob(0, 1, PROCESSORS, 100, 100)
    stream = [LoggedJob(i, i * 50, PROCESSORS // 2, 100, 100) for i in range(1, 101)]
    jobs = sorted([LoggedJob(-1, 0, PROCESSORS // 2, 100, 100), large, *stream], key=lambda job: job.submitted)
    starved = BatchLogReplay("BestEffortFIFO").run(jobs)
    guaranteed = BatchLogReplay("BestEffortFIFO", EASY).run(jobs)
    assert starved.waits[large.number] > 4900
    assert guaranteed.waits[large.number] == 99  # when the first has ended


class _Textbook:
    """EASY backfilling on processors, after Mu'alem and Feitelson (2001), section 2."""

    def __init__(self, jobs: list[LoggedJob], rules: BackfillRules | None) -> None:
        self._jobs = jobs
        self._rules = rules
        self._free = PROCESSORS
        self._running: list[tuple[int, int, int]] = []  # end, end by the estimate, processors
        self._queue: list[LoggedJob] = []
        self._waits: list[tuple[int, LoggedJob]] = []

    def replay(self) -> Replay:
        """The result, as of BatchLogReplay."""
        arrivals = list(reversed(self._jobs))
        while arrivals or self._running:
            now = min([job.submitted for job in arrivals[-1:]] + [end for end, _, _ in self._running[:1]])
            while self._running and self._running[0][0] <= now:
                self._free += heapq.heappop(self._running)[2]
            while arrivals and arrivals[-1].submitted <= now:
                self._queue.append(arrivals.pop())
            while self._queue and self._queue[0].processors <= self._free:
                self._start(self._queue[0], now)
            if self._queue and self._rules is not None:
                self._backfill(now, self._rules.shortest_first)
        return Replay.of(self._waits)

    def _start(self, job: LoggedJob, now: int) -> None:
        self._queue.remove(job)
        self._free -= job.processors
        heapq.heappush(self._running, (now + job.run, now + job.estimate, job.processors))
        self._waits.append((now - job.submitted, job))

    def _backfill(self, now: int, shortest_first: bool) -> None:
        head, *behind = self._queue
        shadow = self._shadow(head.processors)
        extra = self._free + sum(n for _, end, n in self._running if end <= shadow) - head.processors
        for job in sorted(behind, key=lambda job: job.estimate) if shortest_first else behind:
            ends_before = now + job.estimate <= shadow
            if job.processors <= self._free and (ends_before or job.processors <= extra):
                extra -= 0 if ends_before else job.processors
                self._start(job, now)

    def _shadow(self, wanted: int) -> int:
        """When the head can start by the estimates."""
        free = self._free
        for _, end, processors in sorted(self._running, key=lambda one: one[1]):
            free += processors
            if free >= wanted:
                return end
        raise AssertionError("it never fits")

"""Backfilling on the recorded year of a batch system, against figures of an independent simulation."""

from __future__ import annotations

import heapq
from datetime import timedelta
from enum import Enum

import pytest

from queue_manager.scheduling.backfill import BackfillRules
from tests.simulation.batch_log import PROCESSORS, BatchLogReplay, LoggedJob, Replay, read_log

AT_ONCE = timedelta(0)
EASY = BackfillRules(AT_ONCE)
SHORTEST_FIRST = BackfillRules(AT_ONCE, shortest_first=True)


class Ends(Enum):
    """Which of the jobs that end by the start of the head count as ended in what is left beside the head."""

    ALL = "all"
    NEEDED = "those that the head needs, by their end and then the fewest processors first"


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


@pytest.mark.exhaustive
def test_each_start_of_the_year_is_that_of_the_textbook_with_the_shortest_first():
    jobs = read_log()
    replay = BatchLogReplay("BestEffortFIFO", SHORTEST_FIRST).run(jobs)
    assert replay.waits == _Textbook(jobs, SHORTEST_FIRST).replay().waits


@pytest.mark.parametrize(
    ("rules", "ends", "wait", "slowdown"),
    [
        pytest.param(EASY, Ends.ALL, 6834, 92.83, id="EASY"),
        pytest.param(EASY, Ends.NEEDED, 6886, 92.91, id="EASY as published"),
        pytest.param(SHORTEST_FIRST, Ends.ALL, 5904, 69.53, id="shortest first"),
        pytest.param(SHORTEST_FIRST, Ends.NEEDED, 5983, 71.25, id="shortest first as published"),
    ],
)
def test_the_published_figures_leave_out_ends_in_the_second_of_the_start(rules, ends, wait, slowdown):
    """If all ends count, more jobs may pass, and still each head starts when it is promised or before.

    The scheduler counts all: its starts are those of `Ends.ALL`, see `test_each_start_is_that_of_the_textbook`.
    """
    replay = _Textbook(read_log(), rules, ends).replay()
    assert replay.mean_wait == pytest.approx(wait, abs=0.5)
    assert replay.mean_bounded_slowdown == pytest.approx(slowdown, abs=0.005)


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

    def __init__(self, jobs: list[LoggedJob], rules: BackfillRules | None, ends: Ends = Ends.ALL) -> None:
        self._jobs = jobs
        self._rules = rules
        self._ends = ends
        self._free = PROCESSORS
        self._running: list[tuple[int, int, int]] = []  # end, end by the estimate, processors
        self._queue: list[LoggedJob] = []
        self._waits: list[tuple[int, LoggedJob]] = []
        self._promised: dict[int, int] = {}  # the latest start of a head, when it first waited

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
        assert now <= self._promised.get(job.number, now)
        self._queue.remove(job)
        self._free -= job.processors
        heapq.heappush(self._running, (now + job.run, now + job.estimate, job.processors))
        self._waits.append((now - job.submitted, job))

    def _backfill(self, now: int, shortest_first: bool) -> None:
        head, *behind = self._queue
        shadow, extra = self._shadow(head.processors)
        self._promised.setdefault(head.number, shadow)
        for job in sorted(behind, key=lambda job: job.estimate) if shortest_first else behind:
            ends_before = now + job.estimate <= shadow
            if job.processors <= self._free and (ends_before or job.processors <= extra):
                extra -= 0 if ends_before else job.processors
                self._start(job, now)

    def _shadow(self, wanted: int) -> tuple[int, int]:
        """When the head can start by the estimates, and how many processors are left beside it then."""
        free, shadow = self._free, None
        for end, processors in sorted((end, processors) for _, end, processors in self._running):
            if shadow is not None and (end > shadow or self._ends is Ends.NEEDED):
                break
            free += processors
            shadow = end if free >= wanted else None
        assert shadow is not None, "it never fits"
        return shadow, free - wanted

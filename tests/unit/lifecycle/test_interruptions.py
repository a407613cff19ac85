"""The annotation that says when the cluster of a Job was stopped, and what it leaves of a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.api import keys
from queue_manager.lifecycle.interruptions import (
    MAX_INTERRUPTIONS,
    Interruption,
    after_start,
    after_stop,
    interruptions,
    running_seconds,
)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def between(since: float, until: float | None) -> Interruption:
    return Interruption(at(since), at(until) if until is not None else None)


def job(annotation: str = "", *, suspend: bool = False, started: bool = True, ended: bool = False) -> Job:
    status: dict[str, object] = {"startTime": "2026-03-01T12:00:00Z"} if started else {}
    if ended:
        status["conditions"] = [{"type": "Complete", "status": "True"}]
    meta = {"name": "j", "annotations": {keys.INTERRUPTIONS: annotation} if annotation else {}}
    return msgspec.convert({"metadata": meta, "spec": {"suspend": suspend}, "status": status}, Job)


@pytest.mark.parametrize(
    ("stopped", "seconds"),
    [
        ((), 100),
        ((between(20, 50),), 70),
        ((between(20, 30), between(60, 70)), 80),
        ((between(20, 50), between(30, 60)), 60),
        ((between(-50, 10),), 90),
        ((between(90, 200),), 90),
        ((between(40, None),), 40),
        ((between(-50, 200),), 0),
        ((between(-50, -20), between(200, 300)), 100),
        ((between(50, 20),), 100),
    ],
)
def test_what_lies_in_an_interruption_does_not_count(stopped: tuple[Interruption, ...], seconds: float) -> None:
    assert running_seconds(at(0), at(100), stopped) == seconds
    assert running_seconds(at(100), at(0), stopped) == 0


def test_each_stop_of_a_running_job_has_its_start() -> None:
    stopped = after_stop(job(), at(10))
    assert stopped == "2026-03-01T12:00:10Z/"
    again = after_start(job(stopped), at(70))
    assert again == "2026-03-01T12:00:10Z/2026-03-01T12:01:10Z"
    assert after_stop(job(again), at(90)) == f"{again},2026-03-01T12:01:30Z/"
    assert interruptions(job(again).metadata) == [between(10, 70)]


@pytest.mark.parametrize("idle", [job(suspend=True), job(started=False), job(ended=True)])
def test_a_stop_does_not_interrupt_a_job_that_does_not_run(idle: Job) -> None:
    assert after_stop(idle, at(10)) is None


def test_a_start_writes_nothing_for_a_job_that_no_stop_interrupted() -> None:
    assert after_start(job(), at(10)) is None
    assert after_start(job("2026-03-01T12:00:10Z/2026-03-01T12:01:10Z"), at(99)) is None


def test_a_stop_whose_start_was_not_written_is_replaced_by_the_next() -> None:
    assert after_stop(job("2026-03-01T12:00:10Z/"), at(90)) == "2026-03-01T12:01:30Z/"


def test_what_is_no_interruption_is_left_out() -> None:
    assert interruptions(job(",x,/,2026-03-01T12:00:10Z,2026-13-01T12:00:00Z/,9/9").metadata) == [between(10, None)]


def test_a_job_keeps_a_bounded_number_of_them() -> None:
    many = ",".join("2026-03-01T12:00:10Z/2026-03-01T12:01:10Z" for _ in range(MAX_INTERRUPTIONS + 5))
    text = after_stop(job(many), at(90)) or ""
    assert len(interruptions(job(text).metadata)) == MAX_INTERRUPTIONS
    assert text.endswith(",2026-03-01T12:01:30Z/")

"""How long a Job waited and ran: the definition, and that the cluster and the history agree on generated lives."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_manager.accounting.job_summary import summary
from queue_manager.lifecycle.interruptions import Interruption
from queue_manager.lifecycle.requeue_history import MAX_ATTEMPTS
from queue_manager.lifecycle.state_space import CREATED
from queue_manager.visibility.job_states import job_row
from queue_manager.visibility.job_times import JobTimes, Life, Period, job_times
from queue_manager.visibility.predictions import PredictionContext
from queue_manager.visibility.show_record import job_view
from tests.examples import examples
from tests.unit.visibility.job_stories import MOVE, RECORD, Story


def at(seconds: float) -> datetime:
    return CREATED + timedelta(seconds=seconds)


def period(since: float, until: float | None = None) -> Period:
    return Period(at(since), at(until) if until is not None else None)


@pytest.mark.parametrize(
    ("life", "waited", "ran"),
    [
        ({}, 100, None),
        ({"ended": at(40)}, 40, None),
        ({"runs": [period(10)]}, 10, 90),
        ({"runs": [period(10, 30), period(50)], "ended": at(60)}, 30, 30),
        ({"runs": [period(10, 30)], "inactive": [period(20)]}, 10, 20),
        ({"inactive": [period(20, 50)], "runs": [period(70)]}, 40, 30),
        ({"runs": [period(10)], "stopped": [Interruption(at(20), at(80))]}, 10, 30),
        ({"runs": [period(50)], "earlier_ran": 20.0, "earlier_inactive": 5.0}, 25, 70),
        ({"earlier_ran": 20.0, "inactive": [period(60)]}, 40, 20),
        ({"runs": [period(50)], "earlier_ran": 30.0, "stopped": [Interruption(at(20), at(30))]}, 20, 70),
        ({"runs": [period(-5)]}, 0, 100),
        ({"runs": [period(150)]}, 100, 0),
    ],
    ids=[
        "pending",
        "ended without an attempt",
        "runs",
        "evicted once",
        "deactivated while it ran",
        "reactivated",
        "the cluster was stopped",
        "earlier attempts without dates",
        "deactivated after attempts without dates",
        "the cluster was stopped in an attempt without dates",
        "imported while it ran",
        "the clock was set back",
    ],
)
def test_a_job_waits_while_it_neither_holds_quota_nor_is_deactivated(life: dict, waited: float, ran: float) -> None:
    assert job_times(Life(**{"submitted": at(0), "ended": None, **life}), at(100)) == JobTimes(waited, ran)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(MOVE, max_size=40))
def test_ps_show_and_history_agree_how_long_a_job_waited_and_ran(moves: list[tuple[int, int]]) -> None:
    story, made = Story(), []
    for choice, seconds in moves:
        story.pass_time(seconds)
        made.append((seconds, story.move(choice)))
        row = job_row(story.job, story.life.workload, story.now)
        view = job_view(story.job, story.life.workload, [], [], PredictionContext(), story.now)
        entry = summary(RECORD, story.steps.values(), (), story.now)
        assert (row.waited_seconds, row.ran_seconds) == (entry.waited_seconds, entry.ran_seconds), made
        assert (view.waited_seconds, view.ran_seconds) == (entry.waited_seconds, entry.ran_seconds)
        assert entry.run_seconds == (entry.ran_seconds or 0)
        if entry.attempts <= MAX_ATTEMPTS:  # more are counted by evictions
            assert (view.retries.total_attempts, len(view.retries.attempts)) == (entry.attempts, entry.attempts), made
        assert row.budget_attempts == view.retries.budget_attempts <= view.retries.total_attempts

"""Which Jobs `sluice ps` lists, and what a list that is followed has to append."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from queue_manager.cli.arguments import parser
from queue_manager.cli.followed_list import AppendedList
from queue_manager.cli.job_filter import RECENT, JobFilter, hidden_text
from queue_manager.cli.machine_formats import ANY_JOB
from queue_manager.cli.ps import COLUMNS, filter_of
from queue_manager.cli.row_changes import aged, by_key, changed_rows
from queue_manager.engine.clock import SystemClock
from queue_manager.visibility.job_states import JobRow, JobState

DEFAULT = JobFilter()
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TEXTS = dict.fromkeys(("reason", "message", "equivalent"), "")
COUNTS = dict.fromkeys(("priority", "ready", "active", "succeeded", "failed", "requeues", "budget_attempts"), 0)


def row(name: str, state: JobState, ended: timedelta | None = None, **fields: Any) -> JobRow:
    values: dict[str, Any] = {
        **TEXTS,
        **COUNTS,
        "completions": 1,
        "waiting_seconds": 1.0,
        "running_seconds": None,
        "finished": NOW - ended if ended is not None else None,
        **fields,
    }
    return JobRow(namespace="default", name=name, queue="q", state=state, **values)


ROWS = [
    row("runs", JobState.RUNNING),
    row("waits", JobState.PENDING),
    row("new", JobState.SUCCEEDED, timedelta(hours=1)),
    row("night", JobState.FAILED, RECENT - timedelta(minutes=1)),
    row("old", JobState.FAILED, RECENT + timedelta(minutes=1)),
]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], "runs waits new night"),
        (["--all"], "runs waits new night old"),
        (["--since", "2026-02-28T22:00Z"], "runs waits new"),
        (["--state", "failed,RUNNING"], "runs night old"),
        (["--state", "Failed", "--since", "2026-02-28T00:00Z"], "night"),
    ],
)
def test_a_list_has_unfinished_jobs_and_those_that_ended_lately(arguments: list[str], names: str) -> None:
    chosen = filter_of(parser().parse_args(["ps", *arguments]))
    assert " ".join(each.name for each in chosen.chosen(ROWS, NOW)) == names


def test_an_unknown_state_is_refused_with_all_states(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["ps", "--state", "Failed,Done"])
    assert ended.value.code == 2
    assert "'Done' is not a state; choose from: Running, Starting" in capsys.readouterr().err


def test_since_and_all_exclude_each_other() -> None:
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        parser().parse_args(["ps", "--since", "2h", "--all"])


def test_jobs_left_out_for_their_age_are_counted() -> None:
    assert hidden_text(0) == ""
    assert hidden_text(1) == "1 Job that ended more than 24h ago: sluice ps --all"
    assert hidden_text(2) == "2 Jobs that ended more than 24h ago: sluice ps --all"


def changes(before: list[JobRow], after: list[JobRow], chosen: JobFilter = DEFAULT) -> list[tuple[str, str]]:
    """What a list of chosen Jobs appends."""
    printed = by_key(each for each in before if chosen.selects(each, NOW))
    found = changed_rows(printed, by_key(after), lambda each: chosen.selects(each, NOW))
    return [(each.name, each.state) for each in found]


def test_a_row_is_appended_when_more_than_its_times_changes() -> None:
    later = [msgspec.structs.replace(each, waiting_seconds=9.0) for each in ROWS]
    assert changes(ROWS, later) == []
    assert changes(ROWS, [msgspec.structs.replace(ROWS[0], ready=1), *later[1:]]) == [("runs", "Running")]
    assert changes([], ROWS[:2]) == [("runs", "Running"), ("waits", "Pending")]


def test_a_job_that_leaves_the_list_is_appended_with_its_new_state() -> None:
    running = JobFilter(states=frozenset({JobState.RUNNING}))
    ended = [row("runs", JobState.SUCCEEDED, timedelta()), *ROWS[1:]]
    assert changes(ROWS, ended, running) == [("runs", "Succeeded")]
    assert changes(ended, ended, running) == []


def test_a_deleted_job_is_appended_once_as_deleting() -> None:
    assert changes(ROWS, ROWS[1:]) == [("runs", "Deleting")]
    assert changes([row("runs", JobState.DELETING), *ROWS[1:]], ROWS[1:]) == []


def test_time_passes_for_jobs_that_have_not_ended() -> None:
    ended = row("ended", JobState.SUCCEEDED, timedelta(), running_seconds=5.0)
    runs = row("runs", JobState.RUNNING, running_seconds=5.0)
    assert aged(ended, 3) == ended
    assert (aged(runs, 3).running_seconds, aged(runs, 3).waiting_seconds) == (8.0, 1.0)
    assert aged(ROWS[1], 3).waiting_seconds == 4.0


def test_times_in_a_row_s_text_append_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text says "in 3m" of a backoff, and less each time it is printed."""
    appended = AppendedList("table", COLUMNS, lambda _: True, ANY_JOB)
    backoff = {"reason": "PodsReadyTimeout", "retry_at": datetime.now(UTC) + timedelta(minutes=3)}
    appended.show([row("waits", JobState.BACKOFF, waiting_seconds=1.0, **backoff)], "")
    assert "in 2m59s" in capsys.readouterr().out
    later = datetime.now(UTC) + timedelta(minutes=1)
    monkeypatch.setattr(SystemClock, "now", lambda _: later)
    appended.show([row("waits", JobState.BACKOFF, waiting_seconds=61.0, **backoff)], "")
    assert capsys.readouterr().out == ""
    appended.show([row("waits", JobState.PENDING, waiting_seconds=62.0)], "")
    assert "Pending" in capsys.readouterr().out

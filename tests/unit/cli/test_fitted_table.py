"""No table is wider than the terminal, and no value in it is torn, whatever the names and messages are."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from queue_manager.cli import deactivated, explain, output, ps, queues, show
from queue_manager.cli.fitted_table import FittedTable, TableColumn
from queue_manager.visibility.attempt_rows import AttemptRow
from queue_manager.visibility.deactivated_jobs import DeactivatedJob
from queue_manager.visibility.explanation_rows import FlavorRow, HolderRow, PreemptionRow
from queue_manager.visibility.index_map import IndexRow
from queue_manager.visibility.job_history import Step
from queue_manager.visibility.job_states import JobRow, JobState
from queue_manager.visibility.pod_attempts import PodRow
from queue_manager.visibility.queue_rows import QueueRow, QuotaRow
from queue_manager.visibility.requested_resources import DemandRow
from queue_manager.visibility.show_record import EventRow

WIDTH = 80
PS_COLUMNS = output.columns_of("table", ps.COLUMNS)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=63)
SENTENCES = st.lists(NAMES, max_size=12).map(" ".join)
QUANTITIES = st.sampled_from(["0", "4", "1500m", "123456Gi"])
TEXTS = {"message", "reason", "why", "action", "last_error", "text", "note", "cause", "obstacle", "verdict", "policy"}
AMOUNTS = {"used", "nominal", "borrowed", "borrowing_limit", "lent_at_least", "lent_at_most", "lending_limit"}
BY_TYPE: dict[object, st.SearchStrategy[Any]] = {
    str: NAMES,
    int: st.integers(0, 10**6),
    float: st.floats(0, 10**7),
    bool: st.booleans(),
    datetime: st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    JobState: st.sampled_from(JobState),
    list[str]: st.lists(NAMES, max_size=3),
    list[int]: st.lists(st.integers(0, 255), max_size=10),
    dict[str, str]: st.dictionaries(NAMES, QUANTITIES, max_size=3),
}


def rows_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[list[Any]]:
    fields = {name: field(name, hint) for name, hint in get_type_hints(kind).items()}
    return st.lists(st.builds(kind, **fields), min_size=1, max_size=3)


def field(name: str, hint: Any) -> st.SearchStrategy[Any]:
    if name in TEXTS:
        return SENTENCES
    if hint == list[QuotaRow]:
        return rows_of(QuotaRow)
    optional = [part for part in getattr(hint, "__args__", ()) if part is not type(None)]
    if type(None) in getattr(hint, "__args__", ()):
        return st.none() | field(name, optional[0])
    return QUANTITIES if name in AMOUNTS else BY_TYPE[hint]


TABLES: dict[str, tuple[Sequence[TableColumn], type[msgspec.Struct]]] = {
    "ps": (ps.COLUMNS, JobRow),
    "queues": (queues.COLUMNS, QueueRow),
    "deactivated": (deactivated.COLUMNS, DeactivatedJob),
    "show, demand": (show.DEMAND, DemandRow),
    "show, indexes": (show.columns(NOW, 3)["indexes"], IndexRow),
    "show, pods": (show.columns(NOW, 3)["pods"], PodRow),
    "show, attempts": (show.columns(NOW, 3)["attempts"], AttemptRow),
    "show, history": (show.columns(NOW, 3)["history"], Step),
    "show, events": (show.columns(NOW, 3)["events"], EventRow),
    "explain, flavors": (explain.flavor_columns([]), FlavorRow),
    "explain, holders": (explain.HOLDERS, HolderRow),
    "explain, preemptions": (explain.preemption_columns(NOW), PreemptionRow),
}


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=40)
@given(data=st.data())
def test_no_line_is_wider_than_the_terminal_and_no_value_torn(name: str, data: st.DataObject) -> None:
    columns, kind = TABLES[name]
    rows = data.draw(rows_of(kind))
    lines = [line.rstrip("\n") for line in FittedTable(columns, rows).lines(WIDTH)]
    assert max(map(cell_len, lines)) <= WIDTH, lines
    words = {word for line in lines for word in line.split()}
    for column in columns:
        for text in (column.heading, *(column.cell(row) for row in rows)):
            values = text.split() if column.wrap else text.splitlines()
            for value in values:
                if len(value) <= WIDTH - 2:
                    assert value in words or any(value in line for line in lines), (column.heading, value, lines)


def job(**values: Any) -> JobRow:
    known = {"namespace": "default", "name": "train", "queue": "user-queue", "state": JobState.PENDING, "priority": 0}
    counts = {
        "ready": 0,
        "active": 0,
        "succeeded": 0,
        "failed": 0,
        "completions": 1,
        "requeues": 0,
        "budget_attempts": 0,
    }
    times = {
        "waiting_seconds": 63.0,
        "waited_seconds": 63.0,
        "running_seconds": None,
        "reason": "",
        "message": "",
        "equivalent": "",
    }
    return JobRow(**{**known, **counts, **times, **values})


def test_what_has_no_room_continues_on_an_indented_line() -> None:
    why = "waits for quota: insufficient unused quota for cpu in flavor default-flavor, 2 more needed"
    rows = [job(obstacle=why), job(name="a-job-with-a-rather-long-name", state=JobState.SUCCEEDED)]
    assert "".join(FittedTable(PS_COLUMNS, rows).lines(WIDTH)) == (
        "NAMESPACE  NAME                           QUEUE       PRIO  STATE      PODS\n"
        "        TIME  REASON\n"
        "default    train                          user-queue     0  Pending    0/1\n"
        "  1m03s wait  waits for quota: insufficient unused quota for cpu in flavor\n"
        "              default-flavor, 2 more needed\n"
        "default    a-job-with-a-rather-long-name  user-queue     0  Succeeded  0/1\n"
        "  1m03s wait\n"
    )


def test_a_terminal_gets_the_same_lines_with_styles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "xterm")  # the width of a dumb terminal is ignored
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    rows = [job(obstacle="word " * 40, name="n" * 40), job()]
    for some in (rows, rows * output.MAX_STYLED_ROWS):
        output.show("table", ps.COLUMNS, some, "none")
        printed = capsys.readouterr().out
        assert ("\x1b[" in printed) == (some is rows)
        plain = [line.rstrip() for line in re.sub("\x1b.*?m", "", printed).splitlines()]
        assert plain == [line.rstrip("\n") for line in FittedTable(PS_COLUMNS, some).lines(WIDTH)]

"""Sentences that are longer than the terminal is wide."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from queue_manager.cli.text_wrapping import fold

HELD = (
    "LocalQueue default/user-queue held: no more Jobs start (4 pending, 1 running); running Jobs continue; "
    "undo: sluice release user-queue"
)
GROUP = "reactivate a group: sluice reactivate --why 'exit 3: boom: cannot open /data/x.csv' --stagger 10s"


def test_a_sentence_continues_on_indented_lines() -> None:
    assert fold(HELD, 80).splitlines() == [
        "LocalQueue default/user-queue held: no more Jobs start (4 pending, 1 running);",
        "  running Jobs continue; undo: sluice release user-queue",
    ]


def test_a_sentence_that_fits_is_left_alone() -> None:
    assert fold(HELD, len(HELD)) == HELD


def test_each_line_of_a_message_keeps_its_indentation() -> None:
    assert fold("nothing was submitted:\n  a.yaml:3: one two", 16).splitlines() == [
        "nothing was",
        "  submitted:",
        "  a.yaml:3: one",
        "    two",
    ]


def test_a_command_is_not_torn_where_it_fits_on_a_line() -> None:
    assert fold(HELD, 45).splitlines()[-1] == "  sluice release user-queue"
    text = "running as process 7, which serves https://127.0.0.1:4 (export KUBECONFIG=/a/b); it keeps them"
    assert "  (export KUBECONFIG=/a/b); it keeps them" in fold(text, 60).splitlines()
    assert "  `sluice up` continues" in fold("all of the Jobs stopped; `sluice up` continues", 32).splitlines()


def test_a_command_longer_than_a_line_continues_after_a_backslash() -> None:
    lines = fold(GROUP, 60).splitlines()
    assert lines == [
        "reactivate a group:",
        "  sluice reactivate --why \\",
        "    'exit 3: boom: cannot open /data/x.csv' --stagger 10s",
    ]
    assert shlex.split("\n".join(lines[1:]).replace("\\\n", "")) == shlex.split(GROUP.partition("group: ")[2])


def test_the_command_that_reports_is_folded_as_a_sentence() -> None:
    text = "sluice logs: no pod of default/never has started, or none that did is kept: Pending"
    assert fold(text, 60).startswith("sluice logs: no pod of default/never has started, or none\n")


def test_a_path_is_not_split() -> None:
    path = "/a" * 50
    assert fold(f"its log: {path}", 40).splitlines() == ["its log:", f"  {path}"]


@pytest.mark.parametrize("width", [20, 40, 80])
@given(st.lists(st.text("ab1:;(),.漢", min_size=1, max_size=8)))
def test_no_word_is_lost_and_no_line_too_wide(width: int, words: list[str]) -> None:
    text = " ".join(words)
    lines = fold(text, width).splitlines()
    assert " ".join(lines).split() == words
    assert all(cell_len(line) <= width for line in lines)

"""Tables for people and JSON for programs."""

from __future__ import annotations

import json

import msgspec
import pytest

from queue_manager.cli import output
from queue_manager.cli.machine_formats import SCHEMA_VERSION


class Row(msgspec.Struct, rename="camel"):
    name: str
    long_text: str = ""


COLUMNS = (
    output.TableColumn("NAME", lambda row: row.name),
    output.TableColumn("TEXT", lambda row: row.long_text, wrap=True),
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (200, "3m20s"),
        (3599, "59m59s"),
        (7500, "2h05m"),
        (86399, "23h59m"),
        (86400 * 4 + 3600 * 3, "4d3h"),
    ],
)
def test_a_duration_has_two_units(seconds: float, text: str) -> None:
    assert output.duration(seconds) == text


def test_a_pipe_gets_every_word_and_no_padding(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("table", COLUMNS, [Row("a" * 200, "b" * 300), Row("c")], "none")
    assert capsys.readouterr().out == f"NAME{' ' * 198}TEXT\n{'a' * 200}  {'b' * 300}\nc\n"


def test_a_pipe_gets_the_text_of_a_drawn_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Wide letters, several lines in a cell, right-aligned numbers."""
    columns = (*COLUMNS[:1], output.TableColumn("", lambda row: f"{len(row.name)}\n!", right=True), *COLUMNS[1:])
    rows = [Row("漢字", "b"), Row("[red]c[/red]", "d\ne\n\nf"), Row(""), Row("a\tb", "  g ")]
    output.show("table", columns, rows, "none")
    printed = capsys.readouterr().out
    output.show_table(output.FittedTable(columns, rows))
    assert printed == capsys.readouterr().out
    assert printed.splitlines()[:3] == ["NAME              TEXT", "漢字           2  b", "               !"]


def test_json_has_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("json", COLUMNS, [Row("a", "b")], "none")
    assert json.loads(capsys.readouterr().out) == [{"schemaVersion": SCHEMA_VERSION, "name": "a", "longText": "b"}]


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("table", "none\n"),
        ("wide", "none\n"),
        ("json", "[]\n"),
        ("yaml", "[]\n"),
        ("csv", "schemaVersion,name,longText\r\n"),
        ("name", ""),
    ],
)
def test_no_rows_are_a_sentence_or_an_empty_list(form: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.show(form, COLUMNS, [], "none", row_type=Row)
    assert capsys.readouterr().out == says


def test_a_wide_column_is_only_in_the_wide_table(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (*COLUMNS, output.TableColumn("MORE", lambda row: "more", wide=True))
    for form, has in (("table", False), ("wide", True)):
        output.show(form, columns, [Row("a")], "none")
        assert ("MORE" in capsys.readouterr().out) == has


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x1b]0;title\x07", "\r", "\x9b31m", "\u202e", "\x00"])
def test_control_characters_of_foreign_text_are_escaped(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.show("table", COLUMNS, [Row("a", f"before{evil}after")], "none")
    printed = capsys.readouterr().out
    assert not set(evil) & set("\x1b\x07\r\x9b\u202e\x00") & set(printed)
    assert "before" in printed
    assert "after" in printed


def test_a_cell_is_text_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("table", COLUMNS, [Row("a", "[red]x[/red] [1/2]")], "none")
    assert "[red]x[/red] [1/2]" in capsys.readouterr().out

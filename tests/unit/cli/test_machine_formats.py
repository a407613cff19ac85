"""Records as JSON, YAML, CSV and names."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
import yaml

from queue_manager.cli import machine_formats
from queue_manager.cli.arguments.shared_options import FORMS
from queue_manager.cli.machine_formats import MACHINE_FORMS, job_names, text_of_change, text_of_record, text_of_rows

AWKWARD = 'a "quoted", word\nand a second line'


class Part(msgspec.Struct, rename="camel"):
    exit_code: int


class Row(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    last_error: str = ""
    parts: list[Part] = []
    ended: float | None = None
    dry_run: bool = False


ROWS = [Row("default", "sort", AWKWARD, [Part(1)], 0.5, True), Row("team", "train")]


def test_every_form_of_the_command_line_is_a_table_or_a_machine_format() -> None:
    assert set(FORMS) == {"table", "wide", *MACHINE_FORMS}


def test_json_and_yaml_are_the_same_records() -> None:
    found = json.loads(text_of_rows("json", ROWS, Row, job_names()))
    assert found == yaml.safe_load(text_of_rows("yaml", ROWS, Row, job_names()))
    assert [list(record)[:3] for record in found] == [["schemaVersion", "namespace", "name"]] * 2


def test_csv_has_a_header_and_survives_a_reader_of_rfc_4180() -> None:
    text = text_of_rows("csv", ROWS, Row, job_names())
    assert text.startswith("schemaVersion,namespace,name,lastError,parts,ended,dryRun\r\n")
    first, second = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    assert (first["lastError"], json.loads(first["parts"]), first["ended"]) == (AWKWARD, [{"exitCode": 1}], "0.5")
    assert (first["dryRun"], second["dryRun"], second["ended"]) == ("true", "false", "")


def test_one_record_is_not_a_list() -> None:
    assert json.loads(text_of_record("json", ROWS[0], job_names()))["name"] == "sort"
    assert yaml.safe_load(text_of_record("yaml", ROWS[0], job_names()))["name"] == "sort"
    assert text_of_record("csv", ROWS[0], job_names()).count("schemaVersion") == 1


def test_a_name_has_its_namespace_unless_the_next_command_acts_there() -> None:
    assert text_of_rows("name", ROWS, Row, job_names("default")) == "job/sort\njob/team/train\n"
    assert text_of_rows("name", ROWS, Row, job_names()) == "job/sort\njob/train\n"


@pytest.mark.parametrize("form", MACHINE_FORMS)
def test_appended_records_are_what_the_whole_list_is(form: str) -> None:
    text = "".join(text_of_change(form, [row], job_names()) for row in ROWS)
    whole = text_of_rows(form, ROWS, Row, job_names())
    if form == "json":
        assert [json.loads(line) for line in text.splitlines()] == json.loads(whole)
    elif form == "yaml":
        assert list(yaml.safe_load_all(text)) == yaml.safe_load(whole)
    else:
        assert whole.endswith(text)
        assert whole.removesuffix(text) == (machine_formats.csv_header(Row) if form == "csv" else "")

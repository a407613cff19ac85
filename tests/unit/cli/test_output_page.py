"""config/OUTPUT.md says what the machine formats have: if a test fails, run `make crds`."""

from __future__ import annotations

import pytest

from queue_manager import assets
from queue_manager.cli.machine_formats import csv_header
from queue_manager.cli.output_keys import MEANINGS
from queue_manager.cli.output_page import RECORDS, fields_of, records_within, render
from queue_manager.notifications.notices import Notice

ALL_RECORDS = {inner for row in RECORDS.values() for inner in (row, *records_within(row))} | {Notice}
KEYS = {(row.__name__, field.encode_name) for row in ALL_RECORDS for field in fields_of(row)}


def test_the_committed_page_is_what_the_types_of_the_records_say() -> None:
    assert (assets.config() / "OUTPUT.md").read_text() == render()


def test_every_key_has_a_meaning() -> None:
    """A new key gets its line in queue_manager/cli/output_keys.py."""
    assert {f"{row}.{key}" for row, key in KEYS if not {key, f"{row}.{key}"} & MEANINGS.keys()} == set()


def test_every_meaning_is_of_a_key() -> None:
    assert MEANINGS.keys() - {key for _, key in KEYS} - {f"{row}.{key}" for row, key in KEYS} == set()


@pytest.mark.parametrize("row", RECORDS.values(), ids=lambda row: row.__name__)
def test_the_header_of_csv_has_the_documented_keys(row: type[object]) -> None:
    documented = [field.encode_name for field in fields_of(row)]
    assert csv_header(row) == ",".join(["schemaVersion", *documented]) + "\r\n"

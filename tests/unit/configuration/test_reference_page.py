"""config/CONFIGURATION.md has a row for every field, with its default and what holds when it is omitted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_manager.configuration import KueueConfig, loads
from queue_manager.configuration.config_as_yaml import as_tree
from queue_manager.configuration.config_field_types import V1BETA2
from queue_manager.configuration.json_schema import document
from queue_manager.configuration.reference_page import FieldRow, render, rows

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "config/CONFIGURATION.md"
ROWS = {row.path: row for row in rows(KueueConfig, document(V1BETA2))}
VALUES = [row for row in ROWS.values() if row.values not in ("section", "label selector") and not row.no_effect]
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def test_the_page_is_up_to_date() -> None:
    """`make crds` writes it."""
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_field_of_an_effective_configuration_has_a_row() -> None:
    def paths(tree: object, around: str = "") -> Iterator[str]:
        for name, value in tree.items() if isinstance(tree, dict) else ():
            yield f"{around}{name}"
            within = ROWS.get(f"{around}{name}")
            if within is not None and within.values == "section" and not within.no_effect:
                yield from paths(value, f"{around}{name}.")

    assert {*paths(as_tree(KueueConfig()))} - {"apiVersion", "kind"} <= {*ROWS}


# The fields without which a section is refused.
REQUIRED = {
    "fairSharing": ["preemptionStrategies: [LessThanInitialShare]"],
    "notifications": ["command: [notify]"],
    "notifications.webhook": ["url: https://hooks.example.com", "secretEnv: SECRET"],
}


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row.path)
def test_a_row_says_what_holds_when_the_field_is_omitted(row: FieldRow) -> None:
    assert row.omitted
    assert row.text
    assert row.values


@pytest.mark.parametrize(
    "row",
    [row for row in VALUES if re.fullmatch(r"`.*`", row.omitted) and "[]" not in row.path],
    ids=lambda row: row.path,
)
def test_a_default_of_the_page_written_into_a_file_changes_nothing(row: FieldRow) -> None:
    """The loader reads each default as the page prints it, in the section that has it."""
    text = f'"{row.omitted[1:-1]}"' if row.values == "text" else row.omitted[1:-1]
    *sections, name = row.path.split(".")
    around = "\n".join([*(f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)), ""])
    indent = "  " * len(sections)
    needed = "".join(f"{indent}{line}\n" for line in REQUIRED.get(".".join(sections), ()))
    omitted = f"{HEAD}{around}{indent}{{}}\n" if sections and not needed else f"{HEAD}{around}{needed}"
    assert loads(f"{HEAD}{around}{indent}{name}: {text}\n{needed}") == loads(omitted)


def test_a_field_that_needs_a_restart_is_marked() -> None:
    assert ROWS["jobController.podFailureBackoffBase"].restart
    assert not ROWS["waitForPodsReady.timeout"].restart
    assert "| `podFailureBackoffBase` ↻ |" in render()


def test_a_required_field_has_no_default() -> None:
    assert ROWS["fairSharing.preemptionStrategies"].omitted == "refused: the field is required"


def test_bounds_and_units_are_shown() -> None:
    assert ROWS["jobController.concurrentSyncs"].values == "integer, 1 to 10000"
    assert ROWS["leaderElection.leaseDuration"].values == "duration, more than 0s"
    assert ROWS["waitForPodsReady.requeuingStrategy.timestamp"].values == "`Creation` or `Eviction`"


def test_each_annotation_of_the_page_is_a_key_of_the_product() -> None:
    named = re.findall(r"`(sluice/[\w-]+):", render())
    source = "".join((ROOT / file).read_text() for file in ("queue_manager/api/keys.py", "job_controller/labels.py"))
    assert len(named) == 6
    assert [key for key in named if f'"{key}"' not in source] == []

"""How `sluice import` reads its rules, and what it prints."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.adoption.job_imports import Import, ImportStep
from queue_manager.adoption.queue_mapping import Match, QueueRule
from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_OK, EXIT_UNEXPECTED, CommandRefused
from queue_manager.cli.import_jobs import describe, read_rules, report
from queue_manager.cli.import_steps import row_of


def rules(*arguments: str) -> list[QueueRule]:
    return read_rules(parser().parse_args(["import", "-n", "ns", *arguments]))


def test_rules_come_from_a_queue_a_label_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("- {match: {labels: {team: a}}, toLocalQueue: q}")
    of_team = [QueueRule(Match({"team": "a"}), "q")]
    assert rules("--to-queue", "q") == [QueueRule(to_local_queue="q")]
    assert rules("--queuelabel", "team", "--queuemapping", "a=q") == of_team
    assert rules("--queuemapping-file", str(file)) == of_team


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say which queue: --to-queue, --queuelabel with --queuemapping, or --queuemapping-file"),
        (["--queuelabel", "team"], "say which queue"),
        (["--queuelabel", "team", "--queuemapping", "a"], "--queuemapping: 'a' names no queue; write VALUE=QUEUE,..."),
        (["--queuemapping-file", "/does/not/exist"], "/does/not/exist: No such file or directory"),
        (["--queuemapping-file", "FILE"], "rules.yaml: rule 1 needs either toLocalQueue or skip: true"),
    ],
)
def test_a_mistake_is_named(arguments: list[str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("- {}")
    with pytest.raises(CommandRefused) as caught:
        rules(*(str(file) if each == "FILE" else each for each in arguments))
    assert message in str(caught.value)


JOB = msgspec.convert({"metadata": {"name": "j", "namespace": "ns"}, "spec": {}}, Job)


@pytest.mark.parametrize(
    ("item", "refusal", "text"),
    [
        (Import(JOB, ImportStep.CREATE, "q"), "", "imported"),
        (Import(JOB, ImportStep.LABEL, "q"), "", "imported"),
        (Import(JOB, ImportStep.CREATE, "q"), "no quota", "stays outside: no quota"),
        (Import(JOB, ImportStep.REFUSE, "q", "why"), "", "refused: why"),
        (Import(JOB, ImportStep.SKIP, "q", "why"), "", "skipped: why"),
        (Import(JOB, ImportStep.DONE, "q"), "", "in a queue"),
    ],
)
def test_what_happens_to_a_job_is_one_clause(item: Import, refusal: str, text: str) -> None:
    row = describe(item, refusal)
    assert (row.namespace, row.name, row.queue, row.text) == ("ns", "j", "q", text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("imported", EXIT_OK),
        ("in a queue", EXIT_OK),
        ("skipped: why", EXIT_OK),
        ("refused: why", EXIT_UNEXPECTED),
        ("stays outside: why", EXIT_UNEXPECTED),
    ],
)
def test_the_exit_code_says_whether_a_job_stays_outside_against_a_rule(
    text: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report([row_of(Import(JOB, ImportStep.CREATE, "q"), text)]) == code
    assert ("Jobs that stay outside of the queue: 1 of 1" in capsys.readouterr().out) is (code == EXIT_UNEXPECTED)

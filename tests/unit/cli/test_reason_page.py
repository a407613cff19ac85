"""`sluice explain --reason WORD` prints the page of a reason without a cluster; `sluice explain JOB` names it."""

from __future__ import annotations

import json

import pytest

from queue_manager.cli import reason_page
from queue_manager.cli.main import main
from queue_manager.visibility.reason_codes import CODES


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns, and no cluster."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")


SHARED = {"HOLD/DeactivatedDueToUnschedulable": "WAIT/Unschedulable"}  # codes with the page of another one


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_command_that_explain_names_prints_the_page(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *arguments = reason_page.hint(code).split()
    assert program == "sluice"
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    title = SHARED.get(code, code)
    assert lines[0] == title
    labels = [line.split("  ")[0] for line in lines if line[:1].strip()]
    assert [label for label in labels if label != "also"] == [title, "means", "look at", "do", "commands"]
    assert max(map(len, lines)) <= 80


def test_a_reason_that_show_prints_has_the_page_of_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--reason", "DeactivatedDueToRequeuingLimitExceeded"]) == 0
    assert capsys.readouterr().out.startswith("RequeuingLimitExceeded\nmeans ")


def test_a_page_names_the_other_words_that_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--reason", "NotQueued"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["FAULT/ControllerStale", "also      NotQueued"]


def test_a_code_of_another_queue_manager_has_no_page() -> None:
    assert reason_page.hint("WAIT/SomethingElse") == ""


def test_a_mistyped_word_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--reason", "WAIT/waitingforqouta"]) == 2
    assert capsys.readouterr().err == (
        'sluice explain: "WAIT/waitingforqouta" is not a reason; did you mean WaitingForQuota?\n'
    )


def test_an_unknown_word_is_answered_with_all_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--reason", "x"]) == 2
    printed = capsys.readouterr().err
    assert all(code.partition("/")[2] in printed for code in CODES - set(SHARED))


def test_a_page_as_json_has_the_same_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--reason", "Deactivated", "-o", "json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert set(page) == {"schemaVersion", "reason", "also", "means", "lookAt", "do", "commands"}
    assert "sluice reactivate JOB" in page["commands"]


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "a", "--reason", "Backoff"]])
def test_either_a_job_or_a_reason_is_needed(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (("exit 3: boom", "BackoffLimitExceeded: Job has reached the specified backoff limit"), "BackoffLimitExceeded"),
        (("OOMKilled", "It has failed."), "OOMKilled"),
        (("It is in ClusterQueue cq.", "It has succeeded."), ""),
    ],
)
def test_a_job_without_a_code_has_the_page_of_the_first_reason_that_is_named(texts: tuple[str, ...], word: str) -> None:
    assert reason_page.hint("", *texts) == (f"sluice explain --reason {word}" if word else "")

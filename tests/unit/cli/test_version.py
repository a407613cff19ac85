from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from queue_manager.cli import version_line
from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_REFUSED
from queue_manager.cli.main import main
from queue_manager.cli.man_page import commands_of


def test_the_version_is_printed_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"sluice \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\))?, Python 3[.\w+]+\n", capsys.readouterr().out)


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == EXIT_NEVER
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", parser().format_help())


@pytest.mark.parametrize(("command", "code"), [("history", EXIT_NEVER), ("hold", EXIT_NEVER), ("submit", EXIT_REFUSED)])
def test_a_usage_error_has_the_usage_of_its_command(
    command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"history": ["sort"], "hold": ["q"], "submit": ["-f", "-"]}
    with pytest.raises(SystemExit) as ended:
        main([command, *given[command], "--no-such-option"])
    assert ended.value.code == code
    usage = commands_of(parser())[command].format_usage()
    error = f"sluice {command}: error: unrecognized arguments: --no-such-option\n"
    assert capsys.readouterr().err == usage + error


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--relpace", "--relpace; did you mean --replace?"),
        ("--relpace=a", "--relpace=a; did you mean --replace?"),
        ("--timeout", "--timeout; the time is that of --wait: --wait 5m"),
        ("--retries", "--retries"),
        ("relpace", "relpace"),
    ],
)
def test_an_unknown_option_names_the_one_that_may_be_meant(
    argument: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["submit", "-f", "-", argument])
    assert capsys.readouterr().err.endswith(f"sluice submit: error: unrecognized arguments: {says}\n")


def test_a_checkout_names_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        return subprocess.run(
            ["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True, text=True
        ).stdout

    monkeypatch.setattr(version_line, "CHECKOUT", tmp_path)
    assert version_line.checked_out_commit() == ""
    git("init", "-q")
    assert version_line.checked_out_commit() == ""  # no commit yet
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert version_line.checked_out_commit() == git("rev-parse", "HEAD").strip()

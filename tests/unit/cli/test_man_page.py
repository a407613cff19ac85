"""Man pages of the parser, checked by the programs that show them."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from datetime import date

import pytest

from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import CREATING
from queue_manager.cli.main import main
from queue_manager.cli.man_page import commands_of, man_page
from queue_manager.cli.man_text import plain_text

COMMANDS = ["", *commands_of(parser())]
CHECKERS = (("groff", "-man", "-Tutf8", "-ww", "-z"), ("mandoc", "-T", "lint", "-W", "warning"))


def page(command: str) -> str:
    return man_page(parser(), command, "1.2.3", date(2026, 3, 1))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_names_every_argument_of_its_command(command: str) -> None:
    text = page(command).replace("\\-", "-")
    chosen = commands_of(parser())[command] if command else parser()
    for action in chosen._actions:
        if action.help != argparse.SUPPRESS:
            assert all(option in text for option in action.option_strings)


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: checker[0])
def test_a_program_that_shows_pages_has_no_warning(checker: tuple[str, ...]) -> None:
    if shutil.which(checker[0]) is None:
        pytest.skip(f"{checker[0]} is not installed: make test-tools")
    for command in COMMANDS:
        done = subprocess.run(checker, input=page(command), text=True, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_creates_jobs_tells_two_refusals_apart(command: str) -> None:
    status = page(command).partition(".SH EXIT STATUS")[2].partition(".SH")[0]
    creates = command in CREATING
    assert ("\\fB4\\fR\nrefused, and nothing was created\n" in status) == creates
    assert ("\\fB2\\fR\na Job was created" in status) == creates
    if creates:
        short = " ".join(commands_of(parser())[command].format_help().split())
        assert "2: a Job was created, and can never start" in short
        assert "4: refused, and nothing was created" in short


@pytest.mark.parametrize("command", COMMANDS)
def test_the_text_of_a_page_has_the_words_of_the_viewed_page(command: str) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed: make test-tools")
    viewed = subprocess.run(
        ("mandoc", "-T", "utf8", "-O", "width=200"), input=page(command), text=True, capture_output=True, check=True
    )
    words = re.sub(".\b", "", viewed.stdout).split()
    text = plain_text(page(command))
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    assert "\\" not in text
    # The viewer adds the header and the footer of a page.
    assert " ".join(text.split()[1:]) in " ".join(words)


def test_a_line_that_begins_like_a_macro_is_text() -> None:
    other = parser()
    other.epilog = ".SH is no heading"
    assert "\n\\&.SH is no heading\n" in man_page(other, "", "1.2.3", date(2026, 3, 1))


def test_a_page_goes_to_a_pipe_as_text_and_as_roff_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man", "--roff", "ps"]) == 0
    assert capsys.readouterr().out.startswith(".TH SLUICE-PS 1 ")
    assert main(["man", "ps"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "sluice-ps(1)",
        "",
        "NAME",
        "       sluice-ps - one line per Job: queue, priority, state, pods, time, reason",
    ]
    assert main(["man", "pss"]) == 2
    assert "no command pss" in capsys.readouterr().err


def test_the_help_of_ps_says_that_a_run_includes_earlier_attempts() -> None:
    """Else TIME of a Job that was evicted and runs again is read as the time since its last start."""
    text = " ".join(commands_of(parser())["ps"].format_help().split())
    assert "with run, how long the Job held quota in all its attempts together" in text

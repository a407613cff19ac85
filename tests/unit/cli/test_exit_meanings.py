"""One text for each exit code, wherever it is printed."""

from __future__ import annotations

import pytest

from queue_manager.cli import exit_codes
from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.exit_meanings import GENERAL, OF_COMMANDS, OTHERS, exit_sentence, exit_status
from queue_manager.cli.explain import CODES
from queue_manager.cli.man_page import commands_of
from queue_manager.visibility.reason_codes import ReasonClass
from tests.local.readme import README
from tests.unit.cli.test_man_page import page

COMMANDS = commands_of(parser())


def status(command: str) -> str:
    return page(command).partition(".SH EXIT STATUS\n")[2].partition(".SH")[0]


def test_every_exit_code_has_a_meaning() -> None:
    assert {value for name, value in vars(exit_codes).items() if name.startswith("EXIT_")} == GENERAL.keys() - {OTHERS}
    assert OF_COMMANDS.keys() <= COMMANDS.keys()


def test_the_readme_has_the_codes_of_the_man_page() -> None:
    assert exit_sentence() in README.read_text()
    for code, text in exit_status(""):
        assert f"\\fB{code}\\fR\n{text}\n".replace("-", "\\-") in status("")


@pytest.mark.parametrize("command", OF_COMMANDS)
def test_the_man_page_of_a_command_has_its_own_meanings(command: str) -> None:
    for code, text in OF_COMMANDS[command].items():
        assert f"\\fB{code}\\fR\n{text}\n".replace("-", "\\-") in status(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_says_of_its_codes_what_its_man_page_says(command: str) -> None:
    printed = " ".join(COMMANDS[command].format_help().split())
    _, names_codes, said = printed.partition("Exit code ")
    assert not names_codes or f"Exit code {said}".endswith(exit_sentence(command))


def test_explain_ends_with_a_documented_code_for_each_class() -> None:
    documented = {text.rpartition("(")[2].partition(")")[0]: code for code, text in OF_COMMANDS["explain"].items()}
    assert {kind: documented.get(str(kind), EXIT_OK) for kind in ReasonClass} == {
        kind: CODES.get(kind, EXIT_OK) for kind in ReasonClass
    }

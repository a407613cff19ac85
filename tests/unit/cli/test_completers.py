"""What completes an argument without a cluster."""

from __future__ import annotations

import pytest
from argcomplete.finders import CompletionFinder

from queue_manager.cli.arguments import parser
from queue_manager.cli.completers import attach
from queue_manager.cli.man_page import commands_of
from queue_manager.visibility.job_states import LISTED_STATES


def completed(line: str) -> list[str]:
    whole = parser()
    attach(whole)
    *words, prefix = line.split(" ")
    return CompletionFinder(whole, always_complete_options=False)._get_completions(words, prefix, "", None)


def test_a_reason_is_completed_by_its_word_or_its_code() -> None:
    assert [word.strip() for word in completed("sluice explain --reason ExceedsM")] == ["ExceedsMaxQuota"]
    assert "NEVER/Refused" in [word.strip() for word in completed("sluice explain --reason NEVER/")]


def test_a_further_state_is_one_that_the_list_does_not_have() -> None:
    found = [word.strip() for word in completed("sluice ps --state Running,")]
    assert found == [f"Running,{state}" for state in LISTED_STATES if state != "Running"]
    assert [word.strip() for word in completed("sluice ps --state running,Failed,Pe")] == ["running,Failed,Pending"]


def described(line: str) -> dict[str, str]:
    whole = parser()
    attach(whole)
    *words, prefix = line.split(" ")
    finder = CompletionFinder(whole, always_complete_options=False)
    finder._get_completions(words, prefix, "", None)
    return {word.strip(): text for word, text in finder.get_display_completions().items()}


def test_each_choice_is_described_by_what_it_means() -> None:
    """Not by the help of its option, which is the same for all."""
    assert described("sluice wait j --for ") == {
        "finished": "all must succeed (default)",
        "admitted": "all are unsuspended",
        "started": "a pod of each is ready",
    }
    forms = described("sluice ps -o ")
    assert list(forms) == ["table", "wide", "json", "yaml", "csv", "name"]
    assert all(forms.values())
    assert described("sluice completion ") == {"bash": "", "zsh": "", "fish": ""}


def test_a_command_of_man_has_its_summary() -> None:
    assert described("sluice man upg") == {"upgrade": "compare the installation on a cluster with that of this version"}


def test_a_list_of_words_is_completed_without_those_that_it_has() -> None:
    assert [word.strip() for word in completed("sluice report --by queue,")] == [
        *("queue,user", "queue,flavor", "queue,namespace")
    ]
    assert [word.strip() for word in completed("sluice up --log-level d")] == ["debug"]


@pytest.mark.parametrize("command", sorted(commands_of(parser())))
def test_each_option_of_a_command_has_a_description(command: str) -> None:
    options = described(f"sluice {command} -")
    assert [option for option, text in options.items() if not text] == []

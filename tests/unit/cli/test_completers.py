"""What completes an argument without a cluster."""

from __future__ import annotations

from argcomplete.finders import CompletionFinder

from queue_manager.cli.arguments import parser
from queue_manager.cli.completers import attach
from queue_manager.visibility.job_states import LISTED_STATES


def completed(line: str) -> list[str]:
    whole = parser()
    attach(whole)
    *words, prefix = line.split(" ")
    return CompletionFinder(whole, always_complete_options=False)._get_completions(words, prefix, "", None)


def test_a_reason_is_completed_by_its_word_or_its_code() -> None:
    assert [word.strip() for word in completed("sluice explain --reason Ex")] == ["ExceedsMaxQuota"]
    assert "NEVER/Refused" in [word.strip() for word in completed("sluice explain --reason NEVER/")]


def test_a_further_state_is_one_that_the_list_does_not_have() -> None:
    found = [word.strip() for word in completed("sluice ps --state Running,")]
    assert found == [f"Running,{state}" for state in LISTED_STATES if state != "Running"]
    assert [word.strip() for word in completed("sluice ps --state running,Failed,Pe")] == ["running,Failed,Pending"]

"""The commands of the README print what the README shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.readme import README, Session, form, matches, steps


@pytest.mark.kubectl
@pytest.mark.timeout(170)
def test_the_commands_of_the_readme_print_what_it_shows(tmp_path: Path) -> None:
    session = Session(tmp_path)
    try:
        for block in steps(README.read_text()):
            for step in block:
                actual = session.run(step)
                expected = [form(line) for line in step.output]
                assert matches(step.output, actual), f"README.md:{step.line}: $ {step.command}\n" + "\n".join(
                    ["expected:", *expected, "printed:", *(form(line) for line in actual)]
                )
    finally:
        code = session.close()
    assert code == 0


def test_a_changed_word_is_a_difference_and_a_changed_time_is_not() -> None:
    """The comparison can fail, and fails for the right reason."""
    assert matches(["hello-x7k2q  1/1  Running  3s"], ["hello-b9dfz  1/1  Running  12s"])
    assert not matches(["hello-x7k2q  1/1  Running  3s"], ["hello-b9dfz  0/1  Running  12s"])
    assert matches(["Workload 'job-flaky-175e8'"], ["Workload 'job-flaky-24bcd'"])
    assert matches(["a", "...", "z"], ["a", "b", "c", "z"])
    assert not matches(["a", "...", "z"], ["a", "b", "c"])

"""The commands of the README print what the README shows, and its other commands run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.readme import NOT_RUN, README, Session, difference, matches, other_commands, runnable, steps

TEXT = README.read_text()


@pytest.mark.kubectl
@pytest.mark.timeout(400)
def test_the_commands_of_the_readme_print_what_it_shows(tmp_path: Path) -> None:
    """First the console blocks, in order, then on the same cluster all other commands, which have to succeed."""
    session = Session(tmp_path)
    try:
        found = difference(session, steps(TEXT))
        failed = [] if found else failures(session)
    finally:
        code = session.close()
    assert not found, found
    assert not failed, "\n".join(failed)
    assert code == 0


def failures(session: Session) -> list[str]:
    """The other commands of the README that fail, with what they print."""
    sample = (README.parent / "config/samples/hello.yaml").read_text()
    new = session.folder / "new.yaml"
    new.write_text(sample.replace("name: hello", "name: new"))
    failed = []
    for command in other_commands(TEXT):
        if command not in NOT_RUN:
            printed = session.execute(runnable(command).replace("new.yaml", str(new)))
            failed += [f"{command} → exit code {session.code}:", *printed] if session.code else []
    return failed


def test_the_test_of_a_project_that_the_readme_shows_passes(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (tmp_path / "test_report.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_each_command_that_is_not_run_is_in_the_readme_and_has_a_reason() -> None:
    assert set(NOT_RUN) <= set(other_commands(TEXT))
    assert all(len(reason) > 20 for reason in NOT_RUN.values())
    named = [path for reason in NOT_RUN.values() for path in re.findall(r"tests/[\w/.]+", reason)]
    assert [path for path in named if not (README.parent / path).exists()] == []


def test_commands_in_tables_text_and_indented_lines_are_found() -> None:
    table = "| a | `sluice ps -q QUEUE`, `sluice ps` |"
    text = f"    make x    # why\n\n{table}\n\n```console\n$ sluice no\n```\nsee `kubectl` and `x`\n"
    assert other_commands(text) == ["make x", "sluice ps -q QUEUE", "sluice ps"]
    assert runnable("sluice ps -q cq/QUEUE") == "sluice ps -q cq/research"
    assert runnable("make x") == "make --dry-run x"


def test_a_changed_word_is_a_difference_and_a_changed_time_is_not() -> None:
    """The comparison can fail, and fails for the right reason."""
    assert matches(["hello-x7k2q  1/1  Running  3s"], ["hello-b9dfz  1/1  Running  12s"])
    assert not matches(["hello-x7k2q  1/1  Running  3s"], ["hello-b9dfz  0/1  Running  12s"])
    assert matches(["Workload 'job-flaky-175e8'"], ["Workload 'job-flaky-24bcd'"])
    assert matches(["a", "...", "z"], ["a", "b", "c", "z"])
    assert not matches(["a", "...", "z"], ["a", "b", "c"])

"""`sluice run` before it creates a Job: its command line, queue and variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.cli import main
from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_REFUSED, CommandRefused
from queue_manager.cli.run import command_of, variables
from tests.unit.cli.test_submit import client

__all__ = ["client"]  # a fixture


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("run -- python -c x", ["python", "-c", "x"]),
        ("run python -c x", ["python", "-c", "x"]),
        ("run -q q --cpu 2 -- git log -- file", ["git", "log", "--", "file"]),
        ("run --rm a -q b", ["a", "-q", "b"]),
        ("run", []),
    ],
)
def test_the_command_begins_at_the_first_word_that_is_no_option(line: str, command: list[str]) -> None:
    assert command_of(parser().parse_args(line.split())) == command


def test_variables_come_from_the_option_or_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/my/bin")
    monkeypatch.setenv("HERE", "yes")
    given = [("HERE", None), ("A", "1"), ("A", "2")]
    assert variables(given, local=False) == [("HERE", "yes"), ("A", "2")]
    assert variables(given, local=True)[0] == ("PATH", "/my/bin")
    assert variables([("PATH", "/other")], local=True) == [("PATH", "/other")]
    with pytest.raises(CommandRefused, match="this shell exports no such variable"):
        variables([("NOT_EXPORTED", None)], local=True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run", "name a command"),
        ("run --detach --rm true", "--rm deletes the Job at its end"),
        ("run -o json true", "needs --detach"),
        ("run --env =x true", "is not NAME=VALUE"),
        ("run --retries -1 true", "--retries"),
        ("submit", "-f/--file"),
    ],
)
def test_a_wrong_command_line_ends_with_the_code_of_nothing_created(
    line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main.main(line.split())
    except SystemExit as ended:
        code = ended.code
    assert code == EXIT_REFUSED
    assert says in capsys.readouterr().err


def test_a_real_cluster_needs_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster is one of `sluice up` if its certificate is beside its kubeconfig."""
    (tmp_path / "config").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: http://127.0.0.1:1}}]\n"
        "users: [{name: c, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: c}}]\n"
    )
    assert main.main(["run", "--kubeconfig", str(tmp_path / "config"), "true"]) == EXIT_REFUSED
    assert "name the container image with --image" in capsys.readouterr().err

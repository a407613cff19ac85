"""`sluice run` before it creates a Job: its command line, queue and variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.api.resources import LOCAL_QUEUES
from queue_manager.cli import main
from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_REFUSED, CommandRefused
from queue_manager.cli.run import choose_queue, command_of, variables
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport import Request, Response
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


async def add_queues(client: RestClient, *names: str) -> None:
    for name in names:
        await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": name}, "spec": {"clusterQueue": "cq"}})


async def test_the_only_queue_is_the_default_and_so_is_the_one_of_that_name(client: RestClient) -> None:
    await add_queues(client, "b")
    assert await choose_queue(client, "default", None) == "b"
    await add_queues(client, "a")
    with pytest.raises(CommandRefused, match="namespace default has 2 LocalQueues: choose one with -q: a, b"):
        await choose_queue(client, "default", None)
    assert await choose_queue(client, "default", "a") == "a"
    await add_queues(client, "default")
    assert await choose_queue(client, "default", None) == "default"
    with pytest.raises(CommandRefused, match="namespace empty has no LocalQueue"):
        await choose_queue(client, "empty", None)


async def test_a_message_names_ten_queues_and_counts_the_rest(client: RestClient) -> None:
    await add_queues(client, *(f"q{number:02}" for number in range(12)))
    with pytest.raises(CommandRefused, match="q08, q09 and 2 more, which `sluice queues` lists"):
        await choose_queue(client, "default", None)


async def test_a_user_who_may_not_list_queues_is_asked_for_one() -> None:
    class Forbidding:
        async def request(self, request: Request) -> Response:
            return Response(403, {}, b'{"kind": "Status", "reason": "Forbidden", "message": "forbidden"}')

    with pytest.raises(CommandRefused, match="you may not list the LocalQueues of namespace default: name one with -q"):
        await choose_queue(RestClient(Forbidding()), "default", None)


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

"""Reports of commands that are interrupted between their changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from job_controller.model import Key
from queue_manager.api.api_resources import LOCAL_QUEUES
from queue_manager.cli import polling
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import NoResponse, connect
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.machine_formats import SCHEMA_VERSION, object_names
from queue_manager.cli.named_targets import JobTarget, QueueTarget, key_of, queue_of
from queue_manager.cli.reactivate import Reactivation, VisibleQueues, reactivate
from tests.unit.visibility.build import job, workload


async def change(error: BaseException | None = None) -> None:
    if error is not None:
        raise error


async def reactivate_two(form: str, error: BaseException) -> None:
    """The second change is interrupted."""
    with ChangeReport(form, dry_run=False) as report:
        if await report.perform("Job", Key("default", "one"), change()):
            report.add("Job", "default", "one", "reactivated", "requeued")
        await report.perform("Job", Key("default", "two"), change(error))


@pytest.mark.parametrize("error", [asyncio.CancelledError(), NoResponse("gone")])
async def test_an_interrupted_command_reports_done_and_uncertain_changes(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(error)):
        await reactivate_two("json", error)
    said = capsys.readouterr()
    rows = [(row["name"], row["result"]) for row in json.loads(said.out)]
    assert (rows, said.err) == ([("one", "reactivated"), ("two", "failed")], "")


async def test_a_table_is_not_followed_by_its_lines_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoResponse):
        await reactivate_two("table", NoResponse("gone"))
    assert capsys.readouterr() == (
        "default/one reactivated: requeued\n",
        "default/two failed: no response (gone): the change may or may not have been made\n",
    )


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
"""
LEFT = "not done: 2: default/one, default/two; to do the rest, repeat the command"


async def reactivate_both(folder: Path, port: int, form: str = "table") -> None:
    """Reactivate two Jobs of a server at this port, which answers none of the requests."""
    path = folder / "config"
    path.write_text(KUBECONFIG.replace("PORT", str(port)))
    targets = [JobTarget(job(name), workload(name, active=False)) for name in ("one", "two")]
    async with connect(str(path), None) as client:
        with ChangeReport(form, dry_run=False) as report:
            how = Reactivation(client, VisibleQueues([], None), report, "default", "anna", dry_run=False)
            await reactivate(how, targets, stagger=0)


async def test_a_refused_connection_has_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(polling, "PATIENCE_SECONDS", 0.0)
    why = "no response (connection refused)"
    with pytest.raises(CommandRefused, match=r"at http://127\.0\.0\.1:1 \(connection refused\)"):
        await reactivate_both(tmp_path, 1)
    assert capsys.readouterr() == ("", f"default/one not done: {why}\n{why}: 0 done, {LEFT}\n")
    with pytest.raises(CommandRefused):
        await reactivate_both(tmp_path, 1, "json")
    rows = [(row["name"], row["result"], row["note"]) for row in json.loads(capsys.readouterr().out)]
    assert rows == [("one", "not done", why), ("two", "not done", f"{why} before it")]
    with pytest.raises(CommandRefused):
        await reactivate_both(tmp_path, 1, "name")
    assert capsys.readouterr().out == ""


async def test_ctrl_c_between_refused_connections_has_changed_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = asyncio.create_task(reactivate_both(tmp_path, 1))
    said = ""
    while polling.NOTICE not in said and not command.done():
        await asyncio.sleep(0.01)
        said += capsys.readouterr().err
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    assert capsys.readouterr() == ("", f"default/one not done: interrupted\ninterrupted: 0 done, {LEFT}\n")


async def test_a_change_may_have_been_made_if_its_first_connection_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server ends after it has got the first request, and refuses further connections."""
    monkeypatch.setattr(polling, "PATIENCE_SECONDS", 0.3)

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}}")
        server.close()
        writer.close()

    server = await asyncio.start_server(end, "127.0.0.1", 0)
    with pytest.raises(CommandRefused, match="connection refused"):
        await reactivate_both(tmp_path, server.sockets[0].getsockname()[1])
    uncertain = "default/one failed: no response (connection refused): the change may or may not have been made"
    assert uncertain in capsys.readouterr().err.splitlines()


def test_names_are_those_of_the_objects_that_are_as_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    report = ChangeReport("name", dry_run=False)
    report.add("Job", "default", "one", "reactivated", "requeued")
    report.add("LocalQueue", "default", "q", "unchanged", "it is held already")
    report.add("Job", "default", "two", "refused", "it has ended")
    assert report.end("") == 2
    assert capsys.readouterr() == ("job/one\nlocalqueue/q\n", "default/two refused: it has ended\n")


def test_names_have_the_namespace_where_the_next_command_would_miss_them(capsys: pytest.CaptureFixture[str]) -> None:
    report = ChangeReport("name", dry_run=False, name=object_names("default"))
    report.add("Job", "default", "one", "reactivated", "requeued")
    report.add("Job", "team", "one", "reactivated", "requeued")
    report.add("LocalQueue", "team", "q", "held", "no more Jobs start")
    report.add("ClusterQueue", "", "cq", "held", "no more Jobs start")
    report.end("")
    assert capsys.readouterr().out == "job/one\njob/team/one\nlocalqueue/team/q\nclusterqueue/cq\n"
    assert key_of("job/team/one", "default") == Key("team", "one")
    assert queue_of("localqueue/team/q", "default") == QueueTarget(LOCAL_QUEUES, Key("team", "q"))


def test_csv_of_changes_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    report = ChangeReport("csv", dry_run=True)
    report.add("Job", "default", "one", "reactivated", "requeued, behind others")
    assert report.end("") == 0
    assert capsys.readouterr().out.splitlines() == [
        "schemaVersion,kind,namespace,name,result,note,dryRun",
        f'{SCHEMA_VERSION},Job,default,one,reactivated,"requeued, behind others",true',
    ]

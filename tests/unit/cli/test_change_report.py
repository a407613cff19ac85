"""Reports of commands that are interrupted between their changes."""

from __future__ import annotations

import asyncio
import json

import pytest

from job_controller.model import Key
from queue_manager.api.api_resources import LOCAL_QUEUES
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import NoResponse
from queue_manager.cli.machine_formats import SCHEMA_VERSION, object_names
from queue_manager.cli.named_targets import QueueTarget, key_of, queue_of


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
        "default/two failed: interrupted: the change may or may not have been made\n",
    )


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

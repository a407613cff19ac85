"""What a command that changes something reports when it is cut short."""

from __future__ import annotations

import asyncio
import json

import pytest

from job_controller.model import Key
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import NoResponse


async def change(error: BaseException | None = None) -> None:
    if error is not None:
        raise error


async def reactivate_two(form: str, error: BaseException) -> None:
    """The second change is cut short."""
    with ChangeReport(form, dry_run=False) as report:
        if await report.perform("Job", Key("default", "one"), change()):
            report.add("Job", "default", "one", "reactivated", "requeued")
        await report.perform("Job", Key("default", "two"), change(error))


@pytest.mark.parametrize("error", [asyncio.CancelledError(), NoResponse("gone")])
async def test_a_command_that_is_cut_short_says_what_it_has_done_and_what_it_may_have_done(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(error)):
        await reactivate_two("json", error)
    said = capsys.readouterr()
    rows = [(row["name"], row["result"]) for row in json.loads(said.out)]
    assert (rows, said.err) == ([("one", "reactivated"), ("two", "failed")], "")


async def test_a_table_has_no_second_copy_of_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoResponse):
        await reactivate_two("table", NoResponse("gone"))
    assert capsys.readouterr() == (
        "default/one reactivated: requeued\n",
        "default/two failed: interrupted: the change may or may not have been made\n",
    )

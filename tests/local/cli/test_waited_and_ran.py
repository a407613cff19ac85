"""How long a Job waited and ran, as processes print it: `sluice ps`, `show`, `history` and `report`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.local.cli.conftest import User
from tests.local.cluster.conftest import EMBEDDED, Up
from tests.local.cluster.test_stories import until_workload
from tests.waiting import until


def row_of(me: User, name: str) -> Any:
    return next(row for row in me.json("ps") if row["name"] == name)


async def passed(seconds: float) -> None:
    begun = time.time()
    await until(lambda: time.time() > begun + seconds, f"{seconds} seconds have passed")


async def deactivated(me: User, name: str) -> Any:
    """Deactivate a Job; return what `sluice show` says once its quota is free."""
    me.says("deactivate", name)
    async with me.up.client() as client:
        await until_workload(client, name, lambda w: w.status.admission is None, "its quota is free")
    return await me.until_state(name, "Deactivated")


@EMBEDDED
async def test_all_commands_agree_how_long_a_deactivated_job_waited_and_ran(user: Callable[..., User]) -> None:
    """The attempts count together, the time in which the Job is deactivated does not count."""
    me = user()
    me.submit("twice")
    for attempt in (1, 2):
        await me.until_state("twice", "Running")
        await passed(2)
        stopped = await deactivated(me, "twice")
        await passed(3)
        shown, row = me.json("show", "twice"), row_of(me, "twice")
        times = stopped["waitedSeconds"], stopped["ranSeconds"]
        assert (shown["waitedSeconds"], shown["ranSeconds"]) == (row["waitedSeconds"], row["ranSeconds"]) == times
        assert times[1] >= attempt  # conditions have whole seconds
        assert f"{times[1]:.0f}s run" in me.says("ps")
        if attempt == 1:
            me.says("reactivate", "twice")
    assert times[0] <= 3, "it was deactivated for as long before its second attempt"
    if not isinstance(me.up, Up):  # the history of another cluster is read from its own store
        return

    def in_history() -> bool:
        [entry] = me.json("history")
        return (entry["waitedSeconds"], entry["ranSeconds"]) == times

    await until(in_history, "the history says the same")
    done = me.run("logs", "twice")
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "no log of default/twice is left: its pods" in said
    assert "were deleted when attempt 2 ended" in said
    [group] = me.json("report")
    assert (group["waitedP50Seconds"], group["deactivated"], group["failed"]) == (times[0], 1, 0)

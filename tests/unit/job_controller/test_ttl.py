"""When a finished Job is deleted (BEHAVIOUR.md#b35-ttl)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from job_controller.model import Job
from job_controller.ttl import remaining, start
from queue_manager.api.api_resources import JOBS
from tests.unit.job_controller.build import at, job, wire
from tests.unit.job_controller.test_on_the_api_server import Cluster, always, virtually


def ended(type: str = "Complete", status: str = "True", second: float | None = 10) -> dict[str, Any]:
    time = {} if second is None else {"lastTransitionTime": wire(at(second))}
    return {"conditions": [{"type": type, "status": status, "reason": "R", "message": "m", **time}]}


def finished(ttl: int | None, status: dict[str, Any], *, deleted: bool = False) -> Job:
    return job(ttl_seconds_after_finished=ttl, status=status, deleted=deleted)


@pytest.mark.parametrize(
    ("its_job", "left"),
    [
        (finished(100, ended()), 90),
        (finished(100, ended("Failed")), 90),
        (finished(0, ended()), -10),
        (finished(None, ended()), None),
        (finished(100, ended(status="False")), None),
        (finished(100, ended("FailureTarget")), None),
        (finished(100, ended(second=None)), None),
        (finished(100, {}), None),
        (finished(100, ended(), deleted=True), None),
    ],
)
def test_the_time_to_live_runs_from_the_terminal_condition(its_job: Job, left: float | None) -> None:
    assert remaining(its_job, at(20)) == left


def test_a_clock_that_is_set_back_does_not_prolong_the_time_to_live() -> None:
    """Observed first at second 20: the Job ended a month ahead, and is deleted 100 s later."""
    month_ahead = finished(100, ended(second=31 * 86400))
    begins = start(month_ahead, at(20))
    assert remaining(month_ahead, at(20), begins) == 100
    assert remaining(month_ahead, at(90), begins) == 30
    assert remaining(month_ahead, at(90), start(month_ahead, at(90), begins)) == 30


@virtually
async def test_a_time_to_live_that_is_changed_while_it_runs_counts_as_it_is_then() -> None:
    cluster = Cluster()
    async with cluster.controllers(always()):
        for name in ("longer", "shorter", "never"):
            await cluster.submit(name=name, ttlSecondsAfterFinished=100)
            await cluster.finished(name)
        await asyncio.sleep(20)
        for name, seconds in (("longer", 300), ("shorter", 30), ("never", None)):
            await cluster.user.patch(JOBS, "default", name, {"spec": {"ttlSecondsAfterFinished": seconds}})
        await asyncio.sleep(20)
        assert await names(cluster) == ["longer", "never"]
        await asyncio.sleep(200)
        assert await names(cluster) == ["longer", "never"]
        await asyncio.sleep(80)
        assert await names(cluster) == ["never"]
        await asyncio.sleep(86400)
        assert await names(cluster) == ["never"]


@virtually
async def test_job_that_finished_while_the_controller_was_down_is_deleted() -> None:
    cluster = Cluster()
    async with cluster.controllers(always()):
        await cluster.submit(ttlSecondsAfterFinished=100)
        await cluster.finished()
    await asyncio.sleep(500)
    assert await names(cluster) == ["j"]
    async with cluster.controllers(always()):
        await asyncio.sleep(5)
        assert await names(cluster) == []


async def names(cluster: Cluster) -> list[str]:
    return sorted(found["metadata"]["name"] for found in await cluster.user.list(JOBS, "default"))

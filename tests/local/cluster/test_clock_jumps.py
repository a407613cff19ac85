"""A machine that sleeps for hours: its clock goes on, timers do not."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from queue_manager.configuration import KueueConfig
from queue_manager.engine import clock_jumps
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.resources import JOBS
from queue_manager.engine.transport import ApiError
from queue_manager.local.cluster import ClusterOptions, LocalCluster
from tests.local.cluster.conftest import until
from tests.local.cluster.work import ended, job, running


class JumpingClock:
    """The time of this machine, and what it slept."""

    slept = timedelta(0)

    def now(self) -> datetime:
        return SystemClock().now() + self.slept


async def test_deadlines_that_passed_while_the_machine_slept_are_met_when_it_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_manager.local.cluster.SystemClock", JumpingClock)
    monkeypatch.setattr(clock_jumps, "LOOK_SECONDS", 0.05)
    async with LocalCluster(ClusterOptions(data_dir=tmp_path), KueueConfig()) as cluster:
        client = cluster.client
        for_pod = job("pod", "sleep 600", backoffLimit=0)
        for_pod["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 3600  # type: ignore[index]
        await client.create(JOBS, "default", job("whole", "sleep 600", activeDeadlineSeconds=3600))
        await client.create(JOBS, "default", for_pod)
        await client.create(JOBS, "default", job("leaves", "true", ttlSecondsAfterFinished=3600))
        await running(client, "whole")
        await running(client, "pod")
        await ended(client, "leaves")

        monkeypatch.setattr(JumpingClock, "slept", timedelta(hours=2))
        await ended(client, "whole", "Failed")
        await ended(client, "pod", "Failed")

        async def gone() -> bool:
            try:
                await client.get(JOBS, "default", "leaves")
            except ApiError as error:
                return error.status == 404
            return False

        await until(gone, "the Job of which an hour is to be kept is gone")

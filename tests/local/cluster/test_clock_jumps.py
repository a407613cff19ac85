"""A machine that sleeps for hours, whose clock advances while timers do not; and one whose clock is set back."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.configuration import KueueConfig, loads
from queue_manager.engine import clock_jumps
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.local.local_cluster import ClusterOptions, LocalCluster
from tests.local.cluster.work import ended, job, job_named, running
from tests.waiting import until


class JumpingClock:
    """The machine's time plus `slept`, which is negative if the clock was set back."""

    slept = timedelta(0)

    def now(self) -> datetime:
        return SystemClock().now() + self.slept


async def test_deadlines_that_passed_in_a_sleep_take_effect_at_the_wake_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_manager.local.local_cluster.SystemClock", JumpingClock)
    monkeypatch.setattr(clock_jumps, "CHECK_SECONDS", 0.05)
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


async def test_backoffs_keep_their_length_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a month, while one Job backs off with its pods and another one with its Workload."""
    monkeypatch.setattr("queue_manager.local.local_cluster.SystemClock", JumpingClock)
    monkeypatch.setattr(clock_jumps, "CHECK_SECONDS", 0.05)
    kind = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    config = loads(f"{kind}waitForPodsReady: {{timeout: 2s, requeuingStrategy: {{backoffBaseSeconds: 3}}}}\n")
    async with LocalCluster(ClusterOptions(data_dir=tmp_path), config) as cluster:
        client = cluster.client
        fails = job("fails", "false", backoffLimit=1)
        fails["metadata"] = {"name": "fails", "annotations": {"sluice/backoff-seconds": "3"}}
        fails["spec"]["suspend"] = False  # type: ignore[index]
        hangs = job("hangs", "sleep 600")
        (container,) = hangs["spec"]["template"]["spec"]["containers"]  # type: ignore[index]
        container["readinessProbe"] = {"exec": {"command": ["false"]}}
        await client.create(JOBS, "default", fails)
        await client.create(JOBS, "default", hangs)

        async def failed_once() -> bool:
            return (await job_named(client, "fails")).status.failed == 1

        async def evicted(times: int) -> bool:
            (workload,) = await client.list(WORKLOADS, "default", type=Workload)
            stats = workload.status.scheduling_stats
            return stats is not None and sum(row.count or 0 for row in stats.evictions) == times

        await until(failed_once, "the first pod of the one has failed")
        await until(lambda: evicted(1), "the other one is evicted")
        monkeypatch.setattr(JumpingClock, "slept", timedelta(days=-31))
        await ended(client, "fails", "Failed")
        await until(lambda: evicted(2), "the other one was tried again")


async def test_a_pod_ends_at_its_deadline_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_manager.local.local_cluster.SystemClock", JumpingClock)
    monkeypatch.setattr(clock_jumps, "CHECK_SECONDS", 0.05)
    async with LocalCluster(ClusterOptions(data_dir=tmp_path), KueueConfig()) as cluster:
        limited = job("limited", "sleep 600", backoffLimit=0)
        limited["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 4  # type: ignore[index]
        await cluster.client.create(JOBS, "default", limited)
        await running(cluster.client, "limited")
        monkeypatch.setattr(JumpingClock, "slept", timedelta(days=-31))
        await ended(cluster.client, "limited", "Failed")

"""From which change the decisions of admission cycles and the writes after them follow."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from queue_manager.api.api_resources import PODS
from queue_manager.engine.log import JsonFormatter
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import NS, Cluster, cluster

Line = dict[str, Any]


class Log:
    """The lines at level debug so far."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def lines(self, message: str) -> list[Line]:
        found = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in found if line["msg"] == message]


@pytest.fixture
def log() -> Iterator[Log]:
    log, logger = Log(), logging.getLogger("queue_manager")
    handler = logging.StreamHandler(log.stream)
    handler.setFormatter(JsonFormatter())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield log
    logger.removeHandler(handler)
    logger.setLevel(level)


async def workload_uid(c: Cluster, job: str) -> str:
    return str((await c.workload(job))["metadata"]["uid"])


async def job_uid(c: Cluster, job: str) -> str:
    return str((await c.job(job))["metadata"]["uid"])


def cause_of(lines: list[Line], uid: str) -> str:
    """The UID of the object whose change the only line about `uid` follows from."""
    (cause,) = [line["cause"] for line in lines if line["uid"] == uid]
    return str(cause).partition("@")[0]


def test_an_admission_follows_from_the_change_that_makes_room(log: Log) -> None:
    """The refusal of b follows from the creation of its Job; its admission from the pod of a, whose end freed quota."""

    async def scenario() -> None:
        async with cluster(a=PodScript(ready_after=0.2, ends_after=5.0)) as c:
            await c.queues(cpu="1")
            await c.submit("a")
            await c.submit("b")
            await c.until(c.running, ["b"])
            a, b = await job_uid(c, "a"), await job_uid(c, "b")
            first, second = await workload_uid(c, "a"), await workload_uid(c, "b")
            assert cause_of(log.lines("admitted"), first) == a
            assert cause_of(log.lines("refused"), second) == b
            (pod,) = [p for p in await c.client.list(PODS, NS) if p["metadata"]["name"].startswith("a-")]
            assert cause_of(log.lines("admitted"), second) == pod["metadata"]["uid"]

    run_virtual(scenario())


def test_decisions_of_one_cycle_follow_each_from_its_own_change(log: Log) -> None:
    """Jobs of a crowd that come at once: each is admitted for its own creation, not for that of the first."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="3")
            for name in ("a", "b", "c"):
                await c.submit(name)
            await c.until(c.running, ["a", "b", "c"])
            for name in ("a", "b", "c"):
                assert cause_of(log.lines("admitted"), await workload_uid(c, name)) == await job_uid(c, name)

    run_virtual(scenario())


def test_a_preemption_follows_from_its_preemptor(log: Log) -> None:
    """With all writes that stop the victim and start the preemptor."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
            await c.apply_class("high", 10)
            await c.submit("victim")
            await c.until(c.running, ["victim"])
            victim = await workload_uid(c, "victim")
            before = len(log.lines("wrote"))
            await c.submit("urgent", labels={"kueue.x-k8s.io/priority-class": "high"})
            await c.until(c.running, ["urgent"])
            cause = await job_uid(c, "urgent")
            assert {line["cause"].partition("@")[0] for line in log.lines("preempting")} == {cause}
            writes = [line for line in log.lines("wrote")[before:] if line["uid"] == victim]
            assert {line["cause"].partition("@")[0] for line in writes} == {cause}

    run_virtual(scenario())

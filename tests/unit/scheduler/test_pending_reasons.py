"""Which findings about a pending Workload are drafted, and which one is written."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from queue_manager.api import reasons
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.keys import API_VERSION
from queue_manager.api.types import Workload
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.scheduler.pending_reasons import PendingReasons
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.rejection_delays import Rejections
from queue_manager.scheduler.workload_writer import WorkloadWriter
from queue_manager.scheduling.workload_info import info
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock
from tests.simulation.stores import NoServer
from tests.unit.queueing.builders import workload

OTHERS = [f"other{number}" for number in range(6)]


def _version(of: Workload, revision: str) -> Workload:
    return replace(of, metadata=replace(of.metadata, resource_version=revision))


class _Statuses(NoServer):
    """Takes status patches of Workloads."""

    def __init__(self) -> None:
        self.messages: list[str] = []  # of QuotaReserved, one per patch of that
        self.patches = 0
        self.seconds = 0.0  # that a patch takes

    async def request(self, request: Request) -> Response:
        assert request.method == "PATCH", request.path
        patch = msgspec.json.decode(request.body or b"")
        conditions = patch["status"]["conditions"]
        self.messages += [c["message"] for c in conditions if c["type"] == "QuotaReserved"]
        await asyncio.sleep(self.seconds)
        self.patches += 1
        name = request.path.removesuffix("/status").rpartition("/")[2]
        tree = msgspec.to_builtins(_version(workload(name, conditions=conditions), str(1 + self.patches)))
        return Response(200, {}, msgspec.json.encode({**tree, "apiVersion": API_VERSION, "kind": WORKLOADS.kind}))


class _Recorded(PendingReasons):
    """Records the message of each finding that is applied to a draft."""

    drafts: list[str]

    def _apply(self, finding, draft) -> None:
        self.drafts.append(finding.why.message)
        super()._apply(finding, draft)


@dataclass
class _Refused:
    """A pending Workload, and how often a refusal of it was applied to a draft."""

    reasons: _Recorded
    workload: Workload
    server: _Statuses
    writer: WorkloadWriter

    @property
    def drafts(self) -> list[str]:
        return self.reasons.drafts

    def refuse(self, message: str, reason: str = reasons.WAITING_FOR_QUOTA) -> None:
        found = info(self.workload)
        self.reasons.report(found, PendingReason(reason, message), requests=found.requests)


@asynccontextmanager
async def pending(period: float = 30.0) -> AsyncIterator[_Refused]:
    settings, server = WorkloadSettings(pending_reason_period=period), _Statuses()
    runtime = Runtime(server, virtual_clock(), Random(0))
    workloads = runtime.cache(WORKLOADS, Workload)
    writer = WorkloadWriter(runtime, settings, workloads)
    found = _Recorded(runtime, settings, QuotaCache(runtime, settings), writer, Rejections(runtime))
    found.drafts = []
    waiting = _version(workload(), "1")
    workloads.reset([waiting, *(_version(workload(name), "1") for name in OTHERS)], 1)
    yield _Refused(found, waiting, server, writer)
    found.close()


@asynccontextmanager
async def urgent_writes(writer: WorkloadWriter) -> AsyncIterator[None]:
    """The OTHERS are written without a pause, and explanations are paced as in a manager."""

    async def write(name: str) -> None:
        for number in itertools.count():
            change = partial(_set_ready, message=str(number))
            await writer.write(workload(name), change, "c", Cause.ADMISSION)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in (writer._pace_explanations(), *map(write, OTHERS))]
        yield
        for task in tasks:
            task.cancel()


def _set_ready(draft: Draft, *, message: str) -> None:
    draft.set("PodsReady", "False", "WaitForStart", message)


def test_a_repeated_refusal_replaces_the_queued_reason_without_a_draft() -> None:
    """Each repetition has other numbers, and only the last ones are written, in the one turn that is queued."""

    async def scenario() -> None:
        async with pending() as w:
            for missing in (5, 4, 3):
                w.refuse(f"{missing} more needed")
            assert w.drafts == ["5 more needed"]
            await asyncio.sleep(1)
            assert w.drafts == ["5 more needed", "3 more needed"]
            assert w.server.messages == ["3 more needed"]

    run_virtual(scenario())


def test_a_refusal_for_another_reason_is_drafted_anew() -> None:
    async def scenario() -> None:
        async with pending() as w:
            w.refuse("5 more needed")
            w.refuse("6 more than the quota", reasons.EXCEEDS_MAX_QUOTA)
            assert w.drafts == ["5 more needed", "6 more than the quota"]
            await asyncio.sleep(1)
            assert w.server.messages == ["6 more than the quota"]

    run_virtual(scenario())


def test_a_refusal_after_the_write_has_begun_needs_a_write_of_its_own() -> None:
    """Numbers alone wait for the Workload's turn in the period."""

    async def scenario() -> None:
        async with pending() as w:
            w.refuse("5 more needed")
            await asyncio.sleep(1)
            w.refuse("4 more needed")
            await asyncio.sleep(WorkloadSettings().pending_reason_period)
            assert w.server.messages == ["5 more needed", "4 more needed"]

    run_virtual(scenario())


def test_without_a_period_what_is_found_again_during_another_write_is_written() -> None:
    async def scenario() -> None:
        async with pending(period=0.0) as w:
            w.refuse("5 more needed")
            await asyncio.sleep(1)
            w.server.seconds = 0.5
            w.refuse("4 more needed")
            await asyncio.sleep(0.2)
            w.refuse("5 more needed")
            await asyncio.sleep(2)
            assert w.server.messages == ["5 more needed", "4 more needed", "5 more needed"]

    run_virtual(scenario())


@pytest.mark.parametrize("message", ["5 more needed", "4 more needed"])
def test_what_is_found_while_another_reason_is_being_written_is_written_next(message: str) -> None:
    """The cache has the reason before that one, which may be just what is found now."""

    async def scenario() -> None:
        async with pending() as w:
            w.refuse("5 more needed")
            await asyncio.sleep(1)
            w.server.seconds = 0.5
            w.refuse("6 more than the quota", reasons.EXCEEDS_MAX_QUOTA)
            await asyncio.sleep(0.2)
            w.refuse(message)
            await asyncio.sleep(1)
            assert w.server.messages == ["5 more needed", "6 more than the quota", message]

    run_virtual(scenario())


def test_beside_urgent_writes_the_newest_numbers_are_written_once_in_a_period() -> None:
    """A refusal while the write is queued replaces its numbers. Refusals come faster than the queue has room."""

    async def scenario() -> None:
        async with pending() as w, urgent_writes(w.writer):
            w.server.seconds = 0.05
            for missing in range(300):
                w.refuse(f"{missing} more needed")
                await asyncio.sleep(0.5)
            period = 2 * round(WorkloadSettings().pending_reason_period)  # refusals
            written = [int(message.partition(" ")[0]) for message in w.server.messages]
            assert len(written) >= 300 // period
            assert all(later - earlier <= period + 10 for earlier, later in itertools.pairwise([*written, 300]))

    run_virtual(scenario())

"""Commands whose two requests see different states of the store."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from freezegun.api import FrozenDateTimeFactory

from job_controller.model import Key
from queue_manager.api import keys
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.cli.named_targets import find
from queue_manager.cli.ps import job_table
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.visibility.job_states import WORKLOAD_CREATION_TIMEOUT, job_state
from tests.frozen_time import freeze_time

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STAMP = "2026-01-01T00:00:00Z"


class ChangeAfterFirst:
    """A transport that calls `change` after its first request."""

    def __init__(self, inner: LocalTransport, change: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._change: Callable[[], Awaitable[None]] | None = change

    async def request(self, request: Request) -> Response:
        answer = await self._inner.request(request)
        change, self._change = self._change, None
        if change is not None:
            await change()
        return answer

    def stream(self, path: str, *, query: Any = None) -> Any:
        return self._inner.stream(path, query=query)

    async def close(self) -> None:
        await self._inner.close()


@pytest.fixture
def clock() -> Iterator[FrozenDateTimeFactory]:
    """The time that the store and the command read."""
    with freeze_time(NOW, real_asyncio=True) as frozen:
        yield frozen


@pytest.fixture
async def admin(clock: FrozenDateTimeFactory) -> RestClient:
    time = SystemClock()
    client = RestClient(LocalTransport(ApiServer(Store(time, random.Random(1)), KindRegistry.builtin(), time)))
    await install_crds(client)
    return client


def seen_while(admin: RestClient, change: Callable[[], Awaitable[None]]) -> RestClient:
    """A client for which `change` happens before its second request."""
    assert isinstance(admin.transport, LocalTransport)
    return RestClient(ChangeAfterFirst(admin.transport, change))


TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


async def create(admin: RestClient, *, suspend: bool = False) -> None:
    """A Job and its Workload; unless suspended, the Job has started."""
    meta = {"name": "sort", "labels": {keys.QUEUE_NAME: "q"}}
    job = await admin.create(JOBS, "default", {"metadata": meta, "spec": {"suspend": suspend, "template": TEMPLATE}})
    uid = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sort", "uid": uid, "controller": True}
    meta = {"name": "job-sort", "labels": {keys.JOB_UID: uid}, "ownerReferences": [owner]}
    sets = [{"name": "main", "count": 1, "template": TEMPLATE}]
    await admin.create(WORKLOADS, "default", {"metadata": meta, "spec": {"queueName": "q", "podSets": sets}})
    if not suspend:
        started = {"status": {"startTime": STAMP, "active": 1}}
        await admin.patch(JOBS, "default", "sort", started, subresource="status")


def condition(type: str, reason: str) -> dict[str, Any]:
    return {"type": type, "status": "True", "reason": reason, "message": "", "lastTransitionTime": STAMP}


async def end(admin: RestClient) -> None:
    """The Job completes; then its Workload is finished."""
    ends = [condition("SuccessCriteriaMet", "CompletionsReached"), condition("Complete", "CompletionsReached")]
    status = {"conditions": ends, "active": 0, "succeeded": 1, "completionTime": STAMP}
    await admin.patch(JOBS, "default", "sort", {"status": status}, subresource="status")
    finished = {"status": {"conditions": [condition("Finished", "Succeeded")]}}
    await admin.patch(WORKLOADS, "default", "job-sort", finished, subresource="status")


async def test_ps_never_shows_a_job_refused_that_ends_between_its_two_lists(admin: RestClient) -> None:
    await create(admin)
    (row,) = await job_table(seen_while(admin, lambda: end(admin)), "default")
    assert row.state == "Succeeded"


async def test_ps_never_shows_a_job_as_left_alone_that_is_created_between_its_two_lists(
    admin: RestClient, clock: FrozenDateTimeFactory
) -> None:
    """The second list takes longer than a queue needs to notice a new Job."""

    async def create_and_wait() -> None:
        await create(admin, suspend=True)
        clock.tick(2 * WORKLOAD_CREATION_TIMEOUT)

    (row,) = await job_table(seen_while(admin, create_and_wait), "default")
    assert (row.state, row.reason) == ("Pending", "")


async def test_show_never_shows_a_job_refused_that_ends_between_its_two_reads(admin: RestClient) -> None:
    await create(admin)
    target = await find(seen_while(admin, lambda: end(admin)), Key("default", "sort"))
    assert target.job is not None
    assert job_state(target.job, target.workload, NOW) == "Succeeded"


async def test_a_new_job_of_the_same_name_is_not_shown_with_the_workload_of_the_old_one(admin: RestClient) -> None:
    await create(admin)
    await replace(admin)
    target = await find(admin, Key("default", "job-sort"))
    assert (target.job, target.workload is not None) == (None, True)


async def test_a_job_that_is_replaced_between_the_two_reads_of_show_is_not_shown_as_two(admin: RestClient) -> None:
    await create(admin)
    target = await find(seen_while(admin, lambda: replace(admin)), Key("default", "sort"))
    assert (target.job, target.workload is not None) == (None, True)


async def replace(admin: RestClient) -> None:
    """Delete the Job, not its Workload; create another Job of its name."""
    await admin.delete(JOBS, "default", "sort", propagation="Orphan")
    await admin.patch(JOBS, "default", "sort", {"metadata": {"finalizers": []}})
    await admin.create(JOBS, "default", {"metadata": {"name": "sort"}, "spec": {"template": TEMPLATE}})

"""Lists from caches that watches keep current."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from job_controller.labels import CONTROLLER_UID
from job_controller.model import Job, Pod
from queue_manager.api.api_resources import JOBS, NAMESPACES, PODS, WORKLOADS
from queue_manager.cli.ps_watch import readable_kinds
from queue_manager.cli.watched_client import WatchingTransport, watching
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from tests.waiting import until

JOB: dict[str, Any] = {
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    }
}


class Counting(Relay):
    """Counts requests; streams fail while `broken`; one path is `forbidden`."""

    requests = 0
    broken = ""
    forbidden = ""

    async def request(self, request: Request) -> Response:
        self.requests += 1
        if request.path == self.forbidden:
            return Response(403, {}, b"{}")
        return await super().request(request)

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._failing() if self.broken else super().stream(path, query=query)

    @asynccontextmanager
    async def _failing(self) -> AsyncIterator[AsyncIterator[bytes]]:
        if self.broken == "401":
            raise ApiError(401, "Unauthorized", "Unauthorized")
        raise ConnectionError(self.broken)
        yield


@pytest.fixture
def transport() -> Counting:
    clock = SystemClock()
    return Counting(LocalTransport(ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock)))


async def create(client: RestClient, name: str) -> None:
    job: dict[str, Any] = {"metadata": {"name": name}, **JOB}
    await client.create(JOBS, "default", job)


async def test_lists_of_watched_kinds_send_no_request(transport: Counting) -> None:
    client, changed = RestClient(transport), asyncio.Event()
    await create(client, "one")
    async with watching(client, {JOBS: Job}, "", changed) as watched:
        changed.clear()
        before = transport.requests
        assert [job.metadata.name for job in await watched.list(JOBS, type=Job)] == ["one"]
        assert transport.requests == before
        await create(client, "two")
        await changed.wait()
        assert len(await watched.list(JOBS, type=Job)) == 2
        assert transport.requests == before + 1  # the creation


async def test_other_lists_go_to_the_api_server(transport: Counting) -> None:
    client = RestClient(transport)
    async with watching(client, {JOBS: Job}, "", asyncio.Event()) as watched:
        before = transport.requests
        await watched.list(NAMESPACES)
        await watched.list(JOBS, "default", type=Job)
        await watched.list(JOBS, field_selector="metadata.name=x", type=Job)
        await watched.list(JOBS)  # as JSON trees
        assert transport.requests == before + 4


async def test_a_cache_answers_selectors_as_the_api_server_does(transport: Counting) -> None:
    client = RestClient(transport)
    for name, owner in (("mine", "j1"), ("other", "j2"), ("plain", "")):
        labels = {CONTROLLER_UID: owner} if owner else {}
        pod = {"metadata": {"name": name, "labels": labels}, "spec": JOB["spec"]["template"]["spec"]}
        await client.create(PODS, "default", pod)
    await client.patch(PODS, "default", "other", {"status": {"phase": "Succeeded"}}, subresource="status")
    selectors = [(f"{CONTROLLER_UID} in (j1,j2)", "status.phase!=Succeeded"), (CONTROLLER_UID, ""), ("", "")]
    async with watching(client, {PODS: Pod}, "", asyncio.Event()) as watched:
        before = transport.requests
        cached = [await watched.list(PODS, label_selector=a, field_selector=b, type=Pod) for a, b in selectors]
        assert transport.requests == before
    served = [await client.list(PODS, label_selector=a, field_selector=b, type=Pod) for a, b in selectors]
    assert [[pod.metadata.name for pod in pods] for pods in served] == [["mine"], ["mine", "other"], [*ALL]]
    assert [sorted(pod.metadata.name for pod in pods) for pods in cached] == [["mine"], ["mine", "other"], [*ALL]]


ALL = ("mine", "other", "plain")


async def test_a_user_who_may_not_read_pods_follows_the_rest(transport: Counting) -> None:
    assert list(await readable_kinds(RestClient(transport), "")) == [WORKLOADS, JOBS, PODS]
    transport.forbidden = PODS.path("")
    assert list(await readable_kinds(RestClient(transport), "")) == [WORKLOADS, JOBS]


async def test_a_watch_that_fails_is_reported_until_one_is_established(transport: Counting) -> None:
    client, changed = RestClient(transport), asyncio.Event()
    transport.broken = "no route"
    async with watching(client, {JOBS: Job}, "", changed) as watched:
        await until(lambda: watched.failure == "no route")
        transport.broken = "ClientConnectorError: Cannot connect to host 127.0.0.1:1 ssl:default [Connect call failed]"
        await until(lambda: watched.failure == "connection refused")
        assert changed.is_set()
        transport.broken = ""
        await until(lambda: not watched.failure)


async def test_a_watch_that_is_refused_is_reported(transport: Counting) -> None:
    watches, query = WatchingTransport(transport, asyncio.Event()), {"watch": "1", "resourceVersion": "none"}
    with pytest.raises(ApiError):
        async with watches.stream(JOBS.path(""), query=query):
            pass
    assert "Invalid value" in watches.failure


async def test_rejected_credentials_end_the_command(transport: Counting) -> None:
    async with watching(RestClient(transport), {JOBS: Job}, "", asyncio.Event()) as watched:
        watched.check_credentials()
        transport.broken = "401"
        with pytest.raises(ApiError):
            async with watched._watches.stream(JOBS.path("")):
                pass
        with pytest.raises(ApiError) as refused:
            watched.check_credentials()
        assert refused.value.status == 401

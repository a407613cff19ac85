"""Rows of `sluice ps` for Jobs whose queue is stopped, or that no queue has noticed."""

from __future__ import annotations

import argparse
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_manager.api import keys, messages
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from queue_manager.cli import output, ps
from queue_manager.cli.named_targets import of_queue
from queue_manager.cli.ps import job_table
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store

STAMP = "2026-01-01T00:00:00Z"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
TOO_LARGE = messages.insufficient_capacity("cpu", "f", "0", "6", "1")
HELD = "LocalQueue q is held (sluice release q)"
WAITS = "waits for its turn in q"


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def bare(monkeypatch: pytest.MonkeyPatch) -> RestClient:
    """A client of a cluster without the queue's kinds."""
    clock = Clock()
    monkeypatch.setattr(ps, "SystemClock", lambda: clock)
    return RestClient(LocalTransport(ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock)))


@pytest.fixture
async def client(bare: RestClient) -> RestClient:
    """A client of a cluster with the held LocalQueue q."""
    await install_crds(bare)
    await bare.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}}})
    queue = {"clusterQueue": "cq", "stopPolicy": "Hold"}
    await bare.create(LOCAL_QUEUES, "default", {"metadata": {"name": "q"}, "spec": queue})
    return bare


async def submit(client: RestClient, name: str, status: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    """Create a queued Job; with a status, it has started."""
    meta = {"name": name, "labels": {keys.QUEUE_NAME: "q", **labels}}
    spec = {"suspend": status is None, "template": TEMPLATE}
    job = await client.create(JOBS, "default", {"metadata": meta, "spec": spec})
    if status is not None:
        status = {"startTime": STAMP, **status}
        await client.patch(JOBS, "default", name, {"status": status}, subresource="status")
    return job


async def take_up(client: RestClient, job: dict[str, Any], reason: str = "", message: str = "") -> None:
    """Create its Workload; with a reason, the scheduler has written its condition."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    own = {"name": meta["name"], "labels": {keys.JOB_UID: meta["uid"]}, "ownerReferences": [owner]}
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}]}
    await client.create(WORKLOADS, "default", {"metadata": own, "spec": spec})
    if reason:
        waits = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
        status = {"conditions": [{**waits, "lastTransitionTime": STAMP}]}
        await client.patch(WORKLOADS, "default", meta["name"], {"status": status}, subresource="status")


async def reasons(client: RestClient) -> dict[str, str]:
    return {row.name: ps.reason(row) for row in await job_table(client)}


async def test_a_held_queue_is_the_reason_of_pending_jobs_only(client: RestClient) -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "gone"}
    ends = [{**failed, "lastTransitionTime": STAMP}, {**failed, "type": "FailureTarget", "lastTransitionTime": STAMP}]
    await take_up(client, await submit(client, "held"), "Suspended", "LocalQueue q is inactive")
    await take_up(client, await submit(client, "untried"))
    await take_up(client, await submit(client, "huge"), "ExceedsMaxQuota", TOO_LARGE)
    await take_up(client, await submit(client, "runs", {"active": 1, "ready": 1}))
    await take_up(client, await submit(client, "failed", {"failed": 1, "conditions": ends}))
    assert await reasons(client) == {
        "held": HELD,
        "untried": HELD,
        "huge": "can never start: asks 6 cpu, queue limit 1",
        "runs": "",
        "failed": "BackoffLimitExceeded: gone",
    }


async def test_a_job_that_no_queue_takes_up_says_why_at_once(client: RestClient) -> None:
    """Before it is old enough to be reported as left alone."""
    await client.patch(LOCAL_QUEUES, "default", "q", {"spec": {"stopPolicy": "None"}})
    await submit(client, "mistyped", **{keys.PRIORITY_CLASS: "urgnt"})
    await submit(client, "new")
    await take_up(client, await submit(client, "waits", **{keys.PRIORITY_CLASS: "deleted"}))
    assert await reasons(client) == {
        "mistyped": "cannot start: WorkloadPriorityClass urgnt does not exist",
        "new": "",
        "waits": WAITS,
    }


async def test_a_terminal_gets_the_command_that_explains_a_job_that_waits(
    client: RestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await submit(client, "runs", {"ready": 1, "active": 1})
    rows = await job_table(client)
    assert ps.hint(rows, "default") == ""
    await submit(client, "waits")
    rows = await job_table(client)
    assert ps.hint(rows, "default") == "why a Job waits: sluice explain waits"
    assert ps.hint(rows, "other") == "why a Job waits: sluice explain default/waits"
    for form, terminal in (("table", True), ("table", False), ("json", True)):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        output.show(form, ps.COLUMNS, rows, "no Jobs", ps.hint(rows, "default"))
        assert ("sluice explain" in capsys.readouterr().out) == (form == "table" and terminal)


async def test_a_job_that_somebody_stopped_gets_no_command_that_explains_it(client: RestClient) -> None:
    """REASON of a held or deactivated Job says already what stopped it."""
    await take_up(client, await submit(client, "held"), "Suspended", "LocalQueue q is inactive")
    await take_up(client, await submit(client, "stopped"))
    await client.patch(WORKLOADS, "default", "stopped", {"spec": {"active": False}})
    rows = await job_table(client)
    assert sorted(row.state for row in rows) == ["Deactivated", "Pending"]
    assert ps.hint(rows, "default") == ""


async def test_a_cluster_without_the_kinds_is_no_empty_one(bare: RestClient) -> None:
    """`connect` explains this error."""
    await submit(bare, "lost")
    with pytest.raises(ApiError) as refused:
        await job_table(bare)
    assert (refused.value.status, refused.value.reason) == (404, "")


async def test_a_cluster_queue_that_exists_without_a_local_queue_is_not_unknown(client: RestClient) -> None:
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": "unused"}, "spec": {}})
    args = argparse.Namespace(queue="cq/unused", namespace="default", kubeconfig=None, context=None)
    assert await of_queue(client, await job_table(client), args, "default") == []

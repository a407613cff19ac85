"""`sluice explain` on the embedded server: for an admin, and for a user with a RoleBinding in one namespace."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
import yaml
from rich.console import Console

from job_controller.model import Key
from queue_manager import visibility_api
from queue_manager.api import keys
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from queue_manager.cli import explain, explanation_reading
from queue_manager.cli.arguments import parser
from queue_manager.configuration import KueueConfig
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.workload_info import info
from queue_manager.visibility import pending_summary
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.pending_summary import PendingSummaries
from queue_manager.visibility.served_explanation import NAMES_NOT_SEEN, WORKLOAD
from queue_manager.visibility_api import MAX_WAITING, VisibilityApi
from queue_manager.wiring import attach_visibility
from tests.unit.queueing.builders import T0, cluster_queue, local_queue, workload

STAMP = "2026-01-01T00:00:00Z"
TRUE = {"status": "True", "reason": "r", "message": "m", "lastTransitionTime": STAMP}
WAITS = {
    "type": "QuotaReserved",
    "status": "False",
    "reason": "WaitingForQuota",
    "message": "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 1 more needed",
    "lastTransitionTime": STAMP,
}
EXPLAIN_TRAIN = Request("GET", pending_summary.explanation_path(Key("mine", "q")), {WORKLOAD: "job-train"})
FORBIDDEN = Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden","code":403}')


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def registry() -> KindRegistry:
    return KindRegistry.builtin()


@pytest.fixture
def server(registry: KindRegistry) -> ApiServer:
    return ApiServer(Store(Clock(), random.Random(1)), registry, Clock())


@pytest.fixture
async def admin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, registry: KindRegistry, server: ApiServer
) -> RestClient:
    """A cluster with 4 cpu: `secret` of namespace theirs holds 3, `train` of namespace mine requests 2, `big` 9.

    Its visibility API is that of Kueue, without explanations.
    """
    admin = RestClient(LocalTransport(server))
    registry.mount(VisibilityApi(PendingSummaries(pending(), lambda key: None)))
    await install_crds(admin)
    quota = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}]}
    await admin.create(RESOURCE_FLAVORS, "", {"metadata": {"name": "f"}})
    await admin.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": spec})
    for namespace in ("mine", "theirs"):
        await admin.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await admin.create(LOCAL_QUEUES, namespace, {"metadata": {"name": "q"}, "spec": {"clusterQueue": "cq"}})
    assigned = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}, "count": 1}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assigned]}
    held = {"admission": admission, "conditions": [{"type": t, **TRUE} for t in ("QuotaReserved", "Admitted")]}
    await queued(admin, "theirs", "secret", "3", held)
    await queued(admin, "mine", "train", "2", {"conditions": [WAITS]})
    await queued(admin, "mine", "big", "9", {})

    @contextlib.asynccontextmanager
    async def connect(*_: Any) -> AsyncIterator[RestClient]:
        yield admin

    (tmp_path / "config").write_text("{current-context: c, contexts: [{name: c}]}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(explain, "connect", connect)
    return admin


def pending() -> Queues:
    """As the queue manager has them: another Workload of the ClusterQueue is first, `train` is second."""
    queues = Queues()
    queues.set_cluster_queue(cluster_queue(), T0)
    for namespace in ("mine", "theirs"):
        queues.set_local_queue(local_queue("q", namespace=namespace), T0)
    queues.put(info(workload("job-first", queue="q", namespace="theirs", priority=1)), T0)
    queues.put(info(workload("job-train", queue="q", namespace="mine")), T0)
    return queues


async def queued(client: RestClient, namespace: str, name: str, cpu: str, status: dict[str, Any]) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    meta = {"name": name, "labels": {keys.QUEUE_NAME: "q"}}
    job = {"metadata": meta, "spec": {"suspend": True, "template": template}}
    uid = (await client.create(JOBS, namespace, job))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    meta = {"name": f"job-{name}", "labels": {keys.JOB_UID: uid}, "ownerReferences": [owner]}
    sets = [{"name": "main", "count": 1, "template": template}]
    await client.create(WORKLOADS, namespace, {"metadata": meta, "spec": {"queueName": "q", "podSets": sets}})
    if status:
        await client.patch(WORKLOADS, namespace, f"job-{name}", {"status": status}, subresource="status")


def bounded(client: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the user may only act in namespace mine."""
    honest = client.transport.request

    async def request(request: Request) -> Response:
        return await honest(request) if "/namespaces/mine/" in request.path + "/" else FORBIDDEN

    monkeypatch.setattr(client.transport, "request", request)


async def explained(*arguments: str) -> dict[str, Any]:
    found = await explain.explanation(parser().parse_args(["explain", *arguments]))
    return dict(json.loads(explain.output.as_json(found)))


async def test_an_admin_sees_who_holds_the_quota(admin: RestClient) -> None:
    found = await explained("train", "-n", "mine")
    assert (found["code"], found["position"]["of"]) == ("WAIT/WaitingForQuota", 2)
    assert [(h["namespace"], h["jobs"]) for h in found["holders"]] == [("theirs", ["theirs/secret"])]
    assert found["notSeen"] == [explanation_reading.DEFAULTS_ASSUMED]


async def test_a_user_of_one_namespace_sees_no_name_of_another(
    admin: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded(admin, monkeypatch)
    found = await explained("mine/train")
    assert (found["code"], found["message"]) == ("WAIT/WaitingForQuota", WAITS["message"])
    assert found["flavors"][0]["requested"] == "2"
    assert found["position"] == {"clusterQueue": 2, "of": None, "localQueue": 1, "ahead": None}
    assert found["notSeen"][0].startswith("workloads of all namespaces")
    assert "secret" not in json.dumps(found)
    assert "theirs" not in json.dumps(found)


@pytest.fixture
async def manager(admin: RestClient, registry: KindRegistry, server: ApiServer) -> AsyncIterator[RestClient]:
    """From now on a manager serves the visibility API. Yields its client."""
    runtime = Runtime(LocalTransport(server), Clock(), random.Random(1), silence=None)
    visibility, _ = attach_visibility(runtime, KueueConfig())
    registry.mount(visibility)
    async with runtime:
        yield runtime.client


async def test_a_user_of_one_namespace_sees_the_numbers_that_the_manager_serves(
    admin: RestClient, manager: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await explained("mine/train")
    bounded(admin, monkeypatch)
    found = await explained("mine/train")
    for key in ("state", "code", "sentence", "message", "flavors", "preemptions", "changes"):
        assert found[key] == whole[key], key
    holder = {"clusterQueue": "cq", "workloads": 1, "holds": {"f/cpu": "3"}, "stopping": 0}
    assert found["holders"] == [{**holder, "namespace": "", "queue": "", "jobs": []}]
    assert whole["holders"] == [{**holder, "namespace": "theirs", "queue": "q", "jobs": ["theirs/secret"]}]
    assert found["position"] == whole["position"]
    assert found["notSeen"][0] == NAMES_NOT_SEEN
    assert "secret" not in json.dumps(found)
    assert "theirs" not in json.dumps(found)
    printed = drawn(await explain.explanation(parser().parse_args(["explain", "mine/train"])))
    assert "other namespaces" in printed


async def test_the_state_that_the_user_reads_is_explained_if_the_manager_has_another(
    admin: RestClient, manager: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the caches of the manager lag behind: it has the Workload as deactivated."""
    await manager.patch(WORKLOADS, "mine", "job-train", {"spec": {"active": False}})
    honest = admin.transport.request

    async def request(request: Request) -> Response:
        answer = await honest(request)
        old = b'"active":false' in answer.body and "/workloads" in request.path
        return answer._replace(body=answer.body.replace(b'"active":false', b'"active":true')) if old else answer

    monkeypatch.setattr(admin.transport, "request", request)
    bounded(admin, monkeypatch)
    found = await explained("mine/train")
    assert (found["state"], found["code"], found["holders"]) == ("Pending", "WAIT/WaitingForQuota", [])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/namespaces/mine/localqueues/q/explanation?workload=job-train", 200),
        ("/namespaces/theirs/localqueues/q/explanation?workload=job-secret", 200),
        ("/namespaces/mine/localqueues/q/explanation", 400),
        ("/namespaces/mine/localqueues/q/explanation?workload=job-secret", 404),
        ("/namespaces/mine/localqueues/second/explanation?workload=job-train", 404),
        ("/namespaces/mine/localqueues/missing/explanation?workload=job-train", 404),
        ("/clusterqueues/cq/explanation?workload=job-train", 404),
    ],
)
async def test_an_explanation_is_that_of_a_workload_of_the_queue(manager: RestClient, path: str, status: int) -> None:
    spec = {"clusterQueue": "cq"}
    await manager.create(LOCAL_QUEUES, "mine", {"metadata": {"name": "second"}, "spec": spec})
    path, _, query = path.partition("?")
    root = f"/apis/{pending_summary.GROUP}/v1beta2"
    answer = await manager.transport.request(Request("GET", root + path, dict(parse_qsl(query))))
    assert answer.status == status, answer.body


async def test_the_event_loop_runs_while_an_explanation_is_computed(
    manager: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, awaited = threading.Event(), threading.Event()
    honest = visibility_api.explained_to_namespace

    def compute(*given: Any) -> Explanation:
        begun.set()
        assert awaited.wait(30), "the event loop is blocked"
        return honest(*given)

    monkeypatch.setattr(visibility_api, "explained_to_namespace", compute)
    asked = asyncio.create_task(manager.transport.request(EXPLAIN_TRAIN))
    while not begun.is_set():
        await asyncio.sleep(0)
    awaited.set()
    assert (await asked).status == 200


async def test_the_next_explanation_starts_after_a_pause(manager: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[tuple[float, float]] = []
    honest = visibility_api.explained_to_namespace

    def compute(*given: Any) -> Explanation:
        begin = time.monotonic()
        found = honest(*given)
        times.append((begin, time.monotonic()))
        return found

    monkeypatch.setattr(visibility_api, "explained_to_namespace", compute)
    await asyncio.gather(*(manager.transport.request(EXPLAIN_TRAIN) for _ in range(3)))
    for (begin, end), (following, _) in itertools.pairwise(times):
        assert following - end >= end - begin


async def test_a_crowd_of_requests_is_refused(manager: RestClient) -> None:
    asked = [manager.transport.request(EXPLAIN_TRAIN) for _ in range(MAX_WAITING + 2)]
    statuses = Counter(answer.status for answer in await asyncio.gather(*asked))
    assert statuses == {200: MAX_WAITING, 429: 2}


@pytest.mark.parametrize(("job", "code"), [("mine/train", 0), ("mine/big", 2), ("theirs/secret", 1)])
async def test_the_exit_code_distinguishes_never_from_an_error(admin: RestClient, job: str, code: int) -> None:
    """`secret` was admitted a long time ago, and its Job is still suspended."""
    found = await explain.explanation(parser().parse_args(["explain", job]))
    assert explain.exit_code(found) == code, found.code


async def test_yaml_has_the_fields_of_json(admin: RestClient) -> None:
    found = await explain.explanation(parser().parse_args(["explain", "mine/big"]))
    assert yaml.safe_load(explain.output.as_yaml(found)) == json.loads(explain.output.as_json(found))


async def test_quota_that_is_not_known_has_no_row(admin: RestClient) -> None:
    """The table of a Job outside of the queue would have question marks alone; what it requests is a fact."""
    await admin.patch(WORKLOADS, "mine", "job-train", {"spec": {"active": False}})
    found = await explain.explanation(parser().parse_args(["explain", "mine/train", "-o", "wide"]))
    printed = drawn(found)
    assert ("requests", ["2 cpu"]) in explain.lines(found, T0)
    assert "FLAVOR" not in printed
    assert "?" not in printed


async def test_known_quota_is_a_table_and_no_fact(admin: RestClient) -> None:
    found = await explain.explanation(parser().parse_args(["explain", "mine/train"]))
    assert ("requests", []) in explain.lines(found, T0)
    assert "FLAVOR" in drawn(found)


def drawn(found: Explanation) -> str:
    console = Console(file=StringIO(), width=80)
    console.print(explain.render(found, T0))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


async def test_the_page_of_the_reason_is_named(admin: RestClient) -> None:
    found = await explain.explanation(parser().parse_args(["explain", "mine/big"]))
    assert ("more", ["sluice explain --reason ExceedsMaxQuota"]) in explain.lines(found, T0)
    invented = msgspec.structs.replace(found, code="WAIT/Invented")
    assert ("more", []) in explain.lines(invented, T0)


async def test_the_cause_of_an_attempt_that_is_over_is_marked(admin: RestClient) -> None:
    """Of a Job that waits in its queue, or backs off, but not between two tries of its pods, which keep the quota."""
    found = await explain.explanation(parser().parse_args(["explain", "mine/train"]))
    for state, code, mark in (
        (JobState.PENDING, "WAIT/WaitingForQuota", "last attempt: "),
        (JobState.BACKOFF, "WAIT/Backoff", "last attempt: "),
        (JobState.BACKOFF, "", ""),
        (JobState.STARTING, "", ""),
    ):
        after = msgspec.structs.replace(found, cause="exit 3: boom", state=state, code=code)
        assert drawn(after).splitlines()[1] == f"{mark}exit 3: boom"

"""`sluice submit` on the embedded API server, in process: all or nothing, and a verdict on each Job."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from job_controller.model import Key
from queue_manager.api import keys
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, WORKLOADS
from queue_manager.api.component_names import PUBLIC_NAMESPACE
from queue_manager.cli import job_deletion, main, manifests
from queue_manager.cli import submit as submit_module
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER, EXIT_REFUSED, CommandRefused
from queue_manager.cli.interrupted_creations import Creations
from queue_manager.cli.named_targets import check_local_queue
from queue_manager.cli.submit import Submitted, _namespaces, deletion_advice, prepare, remove_old, submit
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.kueue_config import Resources
from queue_manager.configuration.published_form import published_data
from queue_manager.engine.api_warnings import warnings
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request, Response
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.operator.config_publication import publish

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {labels}}}
spec:
  suspend: true
  parallelism: {parallelism}
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: x, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
"""


STAMP = "2026-01-01T00:00:00Z"


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def client() -> RestClient:
    clock, rng = Clock(), random.Random(1)
    user = RestClient(LocalTransport(ApiServer(Store(clock, rng), KindRegistry.builtin(), clock), "user"))
    await install_crds(user)
    return user


async def queues(client: RestClient, **spec: Any) -> None:
    quota = {"name": "cpu", "nominalQuota": "4"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}]
    await client.create(RESOURCE_FLAVORS, "", {"metadata": {"name": "f"}, "spec": {}})
    spec = {"resourceGroups": groups, "namespaceSelector": {}, **spec}
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": spec})
    await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "q"}, "spec": {"clusterQueue": "cq"}})


def job(name: str, *, cpu: str = "1", queue: str = "q", parallelism: int = 1) -> str:
    labels = f"{{kueue.x-k8s.io/queue-name: {queue}}}" if queue else "{}"
    return JOB.format(name=name, cpu=cpu, labels=labels, parallelism=parallelism)


async def send(client: RestClient, tmp_path: Path, *texts: str) -> list[Submitted]:
    file = tmp_path / "jobs.yaml"
    file.write_text("---\n".join(texts))
    found = manifests.read(str(file))
    return await submit(client, [(manifest, prepare(manifest, None)) for manifest in found])


async def names(client: RestClient) -> list[str]:
    return [tree["metadata"]["name"] for tree in await client.list(JOBS)]


async def test_an_invalid_job_stops_all_and_every_mistake_has_its_line(client: RestClient, tmp_path: Path) -> None:
    bad = job("b", parallelism=-1)
    worse = job("c").replace("restartPolicy: Never", "restartPolicy: Always").replace("suspend: true", "suspent: true")
    with pytest.raises(CommandRefused) as refused:
        await send(client, tmp_path, job("a"), bad, worse)
    text = str(refused.value)
    assert refused.value.code == EXIT_NEVER
    assert "nothing was submitted" in text
    assert f"{tmp_path}/jobs.yaml:17: spec.parallelism: Invalid value: -1" in text
    assert "suspent" in text
    assert await names(client) == []


async def test_every_warning_of_the_server_is_printed_once_at_the_line_of_its_job(
    client: RestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await queues(client)
    await send(client, tmp_path, job("a"), job("b.c"))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Warning: {tmp_path}/jobs.yaml:14: metadata.name: this is used in Pod names and hostnames")


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        ([("Content-Type", "x")], []),
        ([("Warning", '299 - "one"'), ("warning", '299 - "two"'), ("Warning", '299 - "one"')], ["one", "two"]),
        (
            [("Warning", '299 - "a \\"b\\" c, 299", 299 kube "d" "Sat, 25 Aug 2012 23:34:45 GMT"')],
            ['a "b" c, 299', "d"],
        ),
        ([("Warning", '199 - "not ours"')], []),
    ],
)
def test_warnings_are_read_from_all_headers(headers: list[tuple[str, str]], texts: list[str]) -> None:
    assert warnings(CIMultiDict(headers)) == texts


async def test_a_name_in_use_stops_all(client: RestClient, tmp_path: Path) -> None:
    await send(client, tmp_path, job("a"))
    with pytest.raises(CommandRefused, match=r"jobs.yaml:14: .*already exists"):
        await send(client, tmp_path, job("b"), job("a"))
    assert await names(client) == ["a"]


async def test_a_repeated_name_stops_all(client: RestClient, tmp_path: Path) -> None:
    with pytest.raises(
        CommandRefused, match=r"nothing was submitted:\n  .*jobs.yaml:25: a is named by .*jobs.yaml:3 already"
    ):
        await send(client, tmp_path, job("a"), job("b"), job("a"))
    assert await names(client) == []


async def test_a_refusal_after_the_dry_run_reports_the_created_jobs(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = client.transport.request

    async def fails_for_b(request: Request) -> Response:
        real = request.method == "POST" and "dryRun" not in (request.query or {})
        if real and b'"name":"b"' in (request.body or b""):
            return Response(500, {}, b'{"kind":"Status","message":"disk full","reason":"InternalError"}')
        return await honest(request)

    monkeypatch.setattr(client.transport, "request", fails_for_b)
    with pytest.raises(CommandRefused, match=r"already submitted: a") as refused:
        await send(client, tmp_path, job("a"), job("b"), job("c"))
    assert "disk full" in str(refused.value)
    assert refused.value.code == EXIT_ERROR
    assert await names(client) == ["a"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (job("fits"), "created; starts when its queue admits it"),
        (job("big", cpu="64"), "can never start: asks 64 cpu, queue limit 4"),
        (job("wide", cpu="1500m", parallelism=3), "can never start: asks 4500m cpu, queue limit 4"),
        (job("lost", queue="nope"), "cannot start: LocalQueue nope does not exist in namespace default"),
        (job("free", queue=""), "has no queue and is suspended: starts when spec.suspend is set to false"),
        (job("now", queue="").replace("suspend: true", "suspend: false"), "has no queue: starts immediately"),
        (
            job("urgent").replace("labels: {", "labels: {kueue.x-k8s.io/priority-class: urgnt, "),
            "cannot start: WorkloadPriorityClass urgnt does not exist",
        ),
    ],
    ids=lambda value: "" if "\n" in value else value[:30],
)
async def test_each_job_gets_a_verdict_at_once(client: RestClient, tmp_path: Path, text: str, note: str) -> None:
    await queues(client)
    (row,) = await send(client, tmp_path, text)
    assert (row.note, row.never) == (note, note.startswith("can"))


@pytest.mark.parametrize(
    ("judged", "note"),
    [
        ("NoMatchingFlavor", "cannot start: ClusterQueue cq has no quota for memory"),
        ("WaitingForQuota", "created; starts when its queue admits it"),
        ("", "cannot start: ClusterQueue cq has no quota for memory, unless the configuration excludes it"),
    ],
    ids=["the scheduler refuses", "the scheduler leaves it out", "no scheduler answers"],
)
async def test_the_scheduler_decides_about_a_resource_without_quota(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: str, note: str
) -> None:
    """Its configuration may exclude the resource. A Workload that is created late plays the scheduler."""
    monkeypatch.setattr(submit_module, "SCHEDULER_SECONDS", 10.0 if judged else 0.05)
    monkeypatch.setattr(submit_module, "POLL_SECONDS", 0.01)
    await queues(client)
    sent = asyncio.create_task(send(client, tmp_path, job("other").replace("cpu: ", "memory: ")))
    if judged:
        await judge(client, "other", judged)
    (row,) = await sent
    assert (row.note, row.never) == (note, judged == "NoMatchingFlavor")


async def test_a_published_configuration_decides_about_a_resource_without_quota(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No scheduler answers, as for the second Job of a shape."""
    monkeypatch.setattr(submit_module, "SCHEDULER_SECONDS", 0.0)
    await queues(client)
    await publish(client, PUBLIC_NAMESPACE, published_data(KueueConfig()))
    (row,) = await send(client, tmp_path, job("other").replace("cpu: ", "memory: "))
    assert (row.note, row.never) == ("cannot start: ClusterQueue cq has no quota for memory", True)
    excluding = KueueConfig(resources=Resources(exclude_resource_prefixes=("memory",)))
    await publish(client, PUBLIC_NAMESPACE, published_data(excluding))
    (row,) = await send(client, tmp_path, job("excluded").replace("cpu: ", "memory: "))
    assert (row.note, row.never) == ("created; starts when its queue admits it", False)


async def test_what_the_scheduler_says_of_one_job_holds_for_the_next_of_its_shape(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler tries one Workload of each shape and writes no condition to the others."""
    monkeypatch.setattr(submit_module, "SCHEDULER_SECONDS", 10.0)
    monkeypatch.setattr(submit_module, "POLL_SECONDS", 0.01)
    await queues(client)
    for name, reason in (("first", "NoMatchingFlavor"), ("second", "")):
        sent = asyncio.create_task(send(client, tmp_path, job(name).replace("cpu: ", "memory: ")))
        await judge(client, name, reason)
        (row,) = await sent
        assert (row.note, row.never) == ("cannot start: ClusterQueue cq has no quota for memory", True)


async def judge(client: RestClient, name: str, reason: str) -> None:
    """Create the Workload of the Job; with a reason, write the scheduler's condition."""
    while name not in await names(client):
        await asyncio.sleep(0)
    uid = (await client.get(JOBS, "default", name))["metadata"]["uid"]
    container = {"name": "c", "image": "i", "resources": {"requests": {"memory": "1"}}}
    template = {"metadata": {"labels": {"job-name": name}}, "spec": {"containers": [container]}}
    sets = [{"name": "main", "count": 1, "template": template}]
    meta = {"name": name, "labels": {keys.JOB_UID: uid}}
    await client.create(WORKLOADS, "default", {"metadata": meta, "spec": {"queueName": "q", "podSets": sets}})
    if not reason:
        return
    waits = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": "", "lastTransitionTime": STAMP}
    await client.patch(WORKLOADS, "default", name, {"status": {"conditions": [waits]}}, subresource="status")


async def test_a_namespace_that_is_not_selected_is_not_reported_as_missing_quota(
    client: RestClient, tmp_path: Path
) -> None:
    await queues(client, namespaceSelector={"matchLabels": {"team": "a"}})
    (row,) = await send(client, tmp_path, job("a").replace("cpu: ", "memory: "))
    assert (row.note, row.never) == (
        "cannot start: ClusterQueue cq admits no Jobs of namespace default (namespaceSelector)",
        True,
    )
    await client.patch(NAMESPACES, "", "default", {"metadata": {"labels": {"team": "a"}}})
    (row,) = await send(client, tmp_path, job("b"))
    assert row.note == "created; starts when its queue admits it"


NOT_TRIED = "not tried within 0.05 s, so whether it can start is not known"


async def test_a_held_queue_is_reported_with_the_command_that_releases_it(client: RestClient, tmp_path: Path) -> None:
    await queues(client, stopPolicy="Hold")
    (row,) = await send(client, tmp_path, job("a"))
    assert row.note == "waits: ClusterQueue cq is held (sluice release cq/cq)"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (job("a"), "waits: LocalQueue q is held (sluice release q)"),
        (job("a", queue="absent"), "cannot start: LocalQueue absent does not exist in namespace default"),
        (job("a", queue="open", cpu="64"), f"created; {NOT_TRIED}"),
        (
            job("a", queue="open").replace("labels: {", "labels: {kueue.x-k8s.io/priority-class: urgnt, "),
            f"created; {NOT_TRIED}; you may not read whether WorkloadPriorityClass urgnt exists",
        ),
    ],
    ids=["held", "missing", "open", "of a class"],
)
async def test_a_user_of_one_namespace_gets_a_verdict_from_its_objects(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, note: str
) -> None:
    monkeypatch.setattr(submit_module, "SCHEDULER_SECONDS", 0.05)
    honest = client.transport.request

    async def bounded(request: Request) -> Response:
        if "/namespaces/" not in request.path:
            return Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden"}')
        return await honest(request)

    await queues(client)
    await client.patch(LOCAL_QUEUES, "default", "q", {"spec": {"stopPolicy": "Hold"}})
    await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "open"}, "spec": {"clusterQueue": "cq"}})
    monkeypatch.setattr(client.transport, "request", bounded)
    (row,) = await send(client, tmp_path, text)
    assert row.note == note


async def test_where_queues_may_not_be_read_the_verdict_is_left_out(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = client.transport.request

    async def forbidden(request: Request) -> Response:
        if "queues" in request.path:
            return Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden"}')
        return await honest(request)

    await queues(client)
    monkeypatch.setattr(client.transport, "request", forbidden)
    (row,) = await send(client, tmp_path, job("a", cpu="64"))
    assert row.note == "created; starts when its queue admits it"


@pytest.mark.parametrize(
    ("status", "code"), [(422, EXIT_NEVER), (403, EXIT_NEVER), (429, EXIT_ERROR), (500, EXIT_ERROR), (503, EXIT_ERROR)]
)
async def test_a_server_error_is_not_reported_as_a_refusal(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    """Scripts repeat failures, and not refusals."""

    async def says(request: Request) -> Response:
        return Response(status, {}, b'{"kind":"Status","message":"no","reason":"x"}')

    monkeypatch.setattr(client.transport, "request", says)
    with pytest.raises(CommandRefused, match="nothing was submitted") as refused:
        await send(client, tmp_path, job("a"), job("b"))
    assert refused.value.code == code


async def test_rejected_credentials_are_reported_once(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unauthorized(request: Request) -> Response:
        return Response(401, {}, b'{"kind":"Status","message":"Unauthorized","reason":"Unauthorized"}')

    monkeypatch.setattr(client.transport, "request", unauthorized)
    with pytest.raises(ApiError, match="Unauthorized"):
        await send(client, tmp_path, job("a"), job("b"))


async def test_the_command_line_fills_in_queue_and_namespace_and_overrides_neither(
    client: RestClient, tmp_path: Path
) -> None:
    for name in ("here", "own"):
        await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    own, none = (job("b").replace("name: b,", f"name: b, namespace: {name},") for name in ("own", ""))
    file = tmp_path / "f.yaml"
    file.write_text("---\n".join((job("a", queue=""), own, none)))
    jobs = [(manifest, prepare(manifest, "given")) for manifest in manifests.read(str(file))]
    rows = await submit(client, jobs, "here")
    assert [(row.namespace, row.queue) for row in rows] == [("here", "given"), ("own", "q"), ("here", "q")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("apiVersion: v1\nkind: Pod\n", r"f.yaml:2: only batch/v1 Jobs can be submitted, this is v1/Pod"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: a\n", r"f.yaml:3: metadata is a mapping"),
        ("a: 1\n", r"f.yaml:1: only batch/v1 Jobs can be submitted, this has no apiVersion and kind"),
        ("kind: Pod\n", r"f.yaml:1: only batch/v1 Jobs can be submitted, this has no apiVersion"),
    ],
)
def test_an_object_that_is_not_a_job_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    (manifest,) = manifests.read(str(file))
    with pytest.raises(CommandRefused, match=says):
        prepare(manifest, None)


def test_every_given_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the last was."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("no mapping\n")
    second.write_text(job("second"))
    assert main.main(["submit", "-f", str(first), "-f", str(second)]) == EXIT_REFUSED
    assert f"{first}:1: a manifest is a mapping" in capsys.readouterr().err


async def test_an_unknown_queue_of_the_command_line_is_refused_with_a_suggestion(
    client: RestClient,
) -> None:
    await queues(client)
    await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "research"}, "spec": {"clusterQueue": "cq"}})
    await check_local_queue(client, Key("default", "research"))
    with pytest.raises(CommandRefused) as refused:
        await check_local_queue(client, Key("default", "reserch"))
    assert refused.value.code == EXIT_NEVER
    assert str(refused.value) == "LocalQueue reserch does not exist in namespace default; did you mean research?"


@pytest.mark.parametrize("namespace", ["n", "12", "[a]"])
def test_a_namespace_that_is_no_string_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], namespace: str
) -> None:
    """`n` is a boolean in YAML: the Job must not go to the default namespace."""
    file = tmp_path / "job.yaml"
    file.write_text(job("a").replace("{name: a", f"{{namespace: {namespace}, name: a"))
    assert main.main(["submit", "-f", str(file)]) == EXIT_REFUSED
    assert f"{file}:3: metadata.namespace is not a string; put it in quotes" in capsys.readouterr().err


def test_the_queue_of_the_command_line_must_exist_only_if_it_is_used(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    own, none = job("own", queue="mine"), job("none", queue="").replace("{name: none", "{namespace: team, name: none")
    file.write_text(f"{own}---\n{none}")
    jobs = [(manifest, prepare(manifest, "typed")) for manifest in manifests.read(str(file))]
    assert _namespaces(jobs, "typed", "default") == {"team"}
    assert _namespaces(jobs, None, "default") == set()


def test_jobs_that_can_never_start_are_named_with_the_command_that_deletes_them() -> None:
    one, other = Key("default", "a"), Key("team", "b")
    assert (
        deletion_advice([one], "default")
        == "1 Job was created that can never start as it is; to delete it: sluice cancel a"
    )
    assert (
        deletion_advice([one, other], "default")
        == "2 Jobs were created that can never start as they are; to delete them: sluice cancel a team/b"
    )


@pytest.mark.parametrize(
    ("refuses", "says"),
    [
        (
            "b",
            "created, and still there: default/a (to delete them: sluice cancel default/a); "
            "Job default/b may have been created, which `sluice show default/b` says",
        ),
        ("a", "Job default/a may have been created, which `sluice show default/a` says"),
        ("dryRun", "nothing was created"),
    ],
)
async def test_an_interruption_says_what_was_created(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str, says: str
) -> None:
    honest, reached = client.transport.request, asyncio.Event()

    async def hangs(request: Request) -> Response:
        dry_run = "dryRun" in (request.query or {})
        real = request.method == "POST" and not dry_run and f'"name":"{refuses}"'.encode() in (request.body or b"")
        if real or (dry_run and refuses == "dryRun"):
            reached.set()
            await asyncio.Event().wait()
        return await honest(request)

    monkeypatch.setattr(client.transport, "request", hangs)
    file = tmp_path / "jobs.yaml"
    file.write_text("---\n".join((job("a"), job("b"))))
    jobs = [(manifest, prepare(manifest, None)) for manifest in manifests.read(str(file))]
    creations = Creations()
    under_way = asyncio.create_task(submit(client, jobs, creations=creations))
    await reached.wait()
    under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await under_way
    assert creations.interrupted() == f"interrupted: {says}"


async def test_a_replacement_says_that_the_new_job_comes_after_the_end_of_the_old_one(
    client: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job_deletion, "SILENT_SECONDS", 0.0)
    await queues(client)
    await send(client, tmp_path, job("a"))
    await client.patch(JOBS, "default", "a", {"metadata": {"finalizers": ["example.com/keeps"]}})
    removal = asyncio.create_task(remove_old(client, Key("default", "a")))
    said = ""
    while not said:
        await asyncio.sleep(0.01)
        said = capsys.readouterr().err
    assert "waiting for a manager to release its Workload" in said
    assert said.endswith("; the new Job is created after that; Ctrl-C leaves the deletion to the cluster\n")
    await client.patch(JOBS, "default", "a", {"metadata": {"finalizers": []}})
    await removal

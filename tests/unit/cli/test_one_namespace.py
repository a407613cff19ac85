"""Commands of a user with a RoleBinding in one namespace, on the embedded server."""

from __future__ import annotations

import argparse
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api import keys, policy_values
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli import deactivated, doctor, ps, queues, reactivate, stop_policy
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.queue_reading import read_queues
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.installation.user_roles import user_role_templates
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.visibility.obstacles import Obstacle, obstacle

MINE = "/namespaces/mine/"


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RestClient:
    """A user who may do everything in one namespace, which has a deactivated Workload; other namespaces have the same
    names.
    """
    clock, rng = Clock(), random.Random(1)
    server = ApiServer(Store(clock, rng), KindRegistry.builtin(), clock)
    admin, user = RestClient(LocalTransport(server)), RestClient(LocalTransport(server))
    await install_crds(admin)
    await admin.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": {}})
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for namespace in ("mine", "theirs"):
        await admin.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await admin.create(LOCAL_QUEUES, namespace, {"metadata": {"name": "q"}, "spec": {"clusterQueue": "cq"}})
        named = {"name": "train", "labels": {keys.QUEUE_NAME: "q"}}
        job = {"metadata": named, "spec": {"suspend": True, "template": template}}
        uid = (await admin.create(JOBS, namespace, job))["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
        meta = {"name": "job-train", "labels": {keys.JOB_UID: uid}, "ownerReferences": [owner]}
        sets = [{"name": "main", "count": 1, "template": template}]
        spec = {"active": False, "queueName": "q", "podSets": sets}
        await admin.create(WORKLOADS, namespace, {"metadata": meta, "spec": spec})
    await admin.create(
        JOBS, "theirs", {"metadata": {"name": "secret"}, "spec": {"suspend": True, "template": template}}
    )
    honest = user.transport.request

    async def bounded(request: Request) -> Response:
        if MINE in request.path + "/":
            return await honest(request)
        return Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden","code":403}')

    @contextlib.asynccontextmanager
    async def connect(*_: Any, **__: Any) -> AsyncIterator[RestClient]:
        yield user

    (tmp_path / "config").write_text("{current-context: c, contexts: [{name: c}]}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(user.transport, "request", bounded)
    for module in (deactivated, doctor, ps, queues, reactivate, stop_policy):
        monkeypatch.setattr(module, "connect", connect)
    return user


def asked(**more: Any) -> argparse.Namespace:
    common = {"kubeconfig": None, "context": None, "namespace": "mine", "output": "table", "dry_run": False}
    return argparse.Namespace(
        **{
            **common,
            "jobs": [],
            "all": False,
            "all_namespaces": False,
            "queue": None,
            "why": None,
            "stagger": 0.0,
            **more,
        }
    )


@pytest.mark.parametrize("more", [{"jobs": ["train"]}, {"all": True, "queue": "q"}], ids=["named", "all of a queue"])
async def test_jobs_of_the_own_namespace_are_reactivated(
    user: RestClient, more: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await reactivate._run(asked(**more)) == EXIT_OK
    assert capsys.readouterr().out.startswith("mine/train reactivated: requeued in q")
    assert (await user.get(WORKLOADS, "mine", "job-train"))["spec"]["active"] is True


async def test_suggested_commands_are_valid_in_the_namespace_of_the_context(
    user: RestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text("{current-context: c, contexts: [{name: c, context: {namespace: mine}}]}")
    await user.patch(LOCAL_QUEUES, "mine", "q", {"spec": {"stopPolicy": policy_values.HOLD}})
    assert await reactivate._run(asked(namespace=None, jobs=["train"])) == EXIT_OK
    assert capsys.readouterr().out == ("mine/train reactivated: waits: LocalQueue q is held (sluice release q)\n")


async def test_a_queue_of_the_own_namespace_is_held(user: RestClient, capsys: pytest.CaptureFixture[str]) -> None:
    queue = stop_policy.queue_of("q", "mine")
    assert await stop_policy._run(asked(), queue, policy_values.HOLD) == EXIT_OK
    assert (await user.get(LOCAL_QUEUES, "mine", "q"))["spec"]["stopPolicy"] == policy_values.HOLD
    assert capsys.readouterr().out.startswith("LocalQueue mine/q held")


async def test_a_held_queue_is_shown_without_access_to_its_cluster_queue(user: RestClient) -> None:
    """Its ClusterQueue may not be."""
    await user.patch(LOCAL_QUEUES, "mine", "q", {"spec": {"stopPolicy": policy_values.HOLD}})
    workload = await user.get(WORKLOADS, "mine", "job-train", type=Workload)
    assert obstacle(None, workload, await read_queues(user, ["mine"])) == Obstacle(
        "waits: LocalQueue q is held (sluice release mine/q)"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("trian", "no Job trian in namespace mine; did you mean train?"),
        ("secret", "no Job secret in namespace mine; `"),
    ],
)
async def test_an_unknown_job_is_reported_with_the_visible_namespaces(user: RestClient, name: str, says: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        await reactivate._run(asked(jobs=[name]))
    assert str(refused.value).startswith(says)
    assert refused.value.code == EXIT_NEVER


async def test_an_unknown_queue_is_reported(user: RestClient) -> None:
    with pytest.raises(CommandRefused) as refused:
        await reactivate._run(asked(all=True, queue="cqq"))
    assert str(refused.value) == "LocalQueue cqq does not exist in namespace mine; `sluice queues` lists them all"


async def listed(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return namespace and name of the rows of `sluice ps`, and check that `sluice deactivated` has the same."""
    args.state, args.since, args.all = (), None, True
    rows, _ = await ps.rows_and_notice(args, datetime(2026, 1, 1, tzinfo=UTC))
    assert {(row.namespace, row.name) for row in await deactivated._rows(args)} == {(r.namespace, r.name) for r in rows}
    return [(row.namespace, row.name) for row in rows]


@pytest.mark.parametrize("namespace", ["mine", None], ids=["named", "of the context"])
async def test_jobs_of_a_cluster_queue_are_listed_with_rights_in_one_namespace(
    user: RestClient, namespace: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which Jobs it has follows from the LocalQueues of the namespace; the ClusterQueue may not be read."""
    (tmp_path / "config").write_text("{current-context: c, contexts: [{name: c, context: {namespace: mine}}]}")
    assert await listed(asked(namespace=namespace, queue="cq/cq")) == [("mine", "train")]
    assert await listed(asked(namespace=namespace, queue="cq/other")) == []
    assert ("only namespace mine is listed" in capsys.readouterr().err) == (namespace is None)


def test_an_empty_list_names_the_kind_of_the_queue() -> None:
    assert ps.empty_message(asked(state=(), queue="cq/a")) == "no Jobs of ClusterQueue a in namespace mine"
    assert ps.empty_message(asked(state=(), queue="a")) == "no Jobs of LocalQueue a in namespace mine"


CONTEXT = """\
current-context: c
contexts: [{name: c, context: {namespace: NAMESPACE, cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


async def test_queues_says_whose_workloads_are_counted_and_what_may_not_be_read(
    user: RestClient, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(CONTEXT.replace("NAMESPACE", "mine"))
    (rows, notes, _), _ = await queues._table_and_notice(asked(namespace=None))
    assert [(row.name, row.state, row.local_queues) for row in rows] == [("cq", "Unlisted", ["mine/q"])]
    assert notes == [
        "only Workloads and LocalQueues of namespace mine are counted, since not all may be read; -n names another one",
        "Unlisted: you may not read ClusterQueues, so their state and quotas are not known; an admin allows it by a "
        "ClusterRoleBinding to kueue-clusterqueue-viewer-role",
    ]
    assert queues.VIEWER_ROLE in str(user_role_templates())


@pytest.mark.parametrize("namespace", ["mine", None], ids=["named", "of the context"])
async def test_doctor_examines_the_namespace_of_the_context_where_others_may_not_be_read(
    user: RestClient, namespace: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text(CONTEXT.replace("NAMESPACE", "mine"))
    report, is_checked = await doctor.examined(asked(namespace=namespace))
    assert is_checked
    assert not {"workloads (forbidden)", "jobs (forbidden)"} & set(report.not_checked)
    narrowed = namespace is None
    assert ("namespaces other than mine (forbidden)" in report.not_checked) == narrowed
    said = "only namespace mine is examined, since not all may be read; -n names another one"
    assert (said in " ".join(capsys.readouterr().err.split())) == narrowed


async def test_doctor_reports_that_nothing_is_checked_if_no_namespace_may_be_read(
    user: RestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text(CONTEXT.replace("NAMESPACE", "theirs"))
    report, is_checked = await doctor.examined(asked(namespace=None))
    assert (is_checked, capsys.readouterr().err) == (False, "")
    assert {"workloads (forbidden)", "jobs (forbidden)"} <= set(report.not_checked)

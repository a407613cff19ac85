"""The webhooks of `sluice manager` on a real API server: rules, scope, outage, certificates, replicas."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    RESOURCE_FLAVORS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.api.component_names import WEBHOOK_SECRET
from queue_manager.api.webhook_table import MUTATING
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.installation.policy_settings import BREAK_GLASS_GROUP
from queue_manager.installation.webhook_configurations import WebhookScope
from queue_manager.operator.webhooks.ca_injection import OwnServices
from queue_manager.operator.webhooks.certificate_rotation import CertificateState, next_state
from queue_manager.operator.webhooks.certificate_secret import data, read
from queue_manager.operator.webhooks.webhook_startup import serving_names
from tests.control_plane.cleanup import clear
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.guarded import (
    certificate,
    config,
    installed,
    job,
    kubeconfig,
    let_another_lead,
    manager_account,
    webhook_url,
)
from tests.control_plane.manager.process import Manager, refusal
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.policies.users import ADMINS, Users
from tests.control_plane.server import ControlPlane
from tests.local.queue.validation_replay import RECORDS, check, replay
from tests.waiting import SECONDS, until

pytestmark = pytest.mark.control_plane

REVIEWS_OF_ONESELF = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)
ALL = "jobController: {manage: All}\n"


@pytest.fixture
async def team(api: RestClient) -> AsyncIterator[str]:
    """A namespace of users, beside that of the manager."""
    name = f"team-{uuid4().hex[:8]}"
    await api.create(NAMESPACES, "", {"metadata": {"name": name}})
    yield name
    await clear(api)
    await api.delete(NAMESPACES, "", name)


async def candidate(
    api: RestClient, namespace: str, plane: ControlPlane, start: Start, folder: Path, more: str = ""
) -> tuple[Manager, WebhookScope]:
    """A manager that does not lead, with webhooks, and the scope of its installation."""
    manager = await manager_account(api, namespace)
    await let_another_lead(api, namespace)
    path = await kubeconfig(plane, manager, folder)
    began = await start(path, "--webhook-port", "0", config=config(namespace, more), until="waiting: ")
    return began, WebhookScope(namespace, account=manager.name)


async def test_recorded_answers_are_those_of_a_real_server_with_webhooks(
    api: RestClient, namespace: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Of all records of Kueue's webhooks and CRDs, asked of a manager that does not lead."""
    manager, scope = await candidate(api, namespace, plane, start, tmp_path)
    async with installed(api, webhook_url(manager), scope):
        answers = await replay(api)
    failures = [f"{record['case']}: {error}" for record in RECORDS if (error := difference(record, answers))]
    assert failures == []


def difference(record: dict[str, Any], answers: dict[str, dict[str, Any]]) -> str:
    try:
        check(record, answers)
    except AssertionError as error:
        return str(error)
    return ""


async def test_a_job_without_queue_joins_the_default_queue_and_class(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    manager, scope = await candidate(api, namespace, plane, start, tmp_path)
    async with installed(api, webhook_url(manager), scope):
        plain = await api.create(JOBS, team, job("plain"))
        assert not plain["spec"]["suspend"]
        assert "kueue.x-k8s.io/queue-name" not in plain["metadata"].get("labels", {})
        await api.create(LOCAL_QUEUES, team, {"metadata": {"name": "default"}, "spec": {"clusterQueue": "cq"}})
        await api.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "default"}, "value": 7})

        async def is_queued() -> bool:
            made = await api.create(JOBS, team, job(f"j-{uuid4().hex[:6]}"))
            labels = made["metadata"].get("labels", {})
            return made["spec"]["suspend"] is True and labels.get("kueue.x-k8s.io/priority-class") == "default"

        await until(is_queued, "the manager knows the queue and the class")
        child = job("child")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "controller": True}
        parent = await api.create(JOBS, team, job("parent", queue="q"))
        child["metadata"]["ownerReferences"] = [{**owner, "uid": parent["metadata"]["uid"]}]
        assert not (await api.create(JOBS, team, child))["spec"]["suspend"]  # its parent is queued


async def test_a_queued_job_names_the_user_who_created_it(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Not the one whom that user wrote down; a Job outside of every queue is left as it is."""
    who = await api.create(REVIEWS_OF_ONESELF, "", {})
    manager, scope = await candidate(api, namespace, plane, start, tmp_path)
    async with installed(api, webhook_url(manager), scope):
        wanted = job("queued", queue="q")
        wanted["metadata"]["annotations"] = {keys.USER: "somebody-else"}
        made = await api.create(JOBS, team, wanted)
        assert made["metadata"]["annotations"][keys.USER] == who["status"]["userInfo"]["username"]
        plain = await api.create(JOBS, team, job("plain"))
        assert keys.USER not in plain["metadata"].get("annotations", {})


async def test_a_priority_class_is_asked_about_only_with_an_annotation_for_its_jobs(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    more = "preemption: {maxMinRuntime: 1h}\n"
    manager, scope = await candidate(api, namespace, plane, start, tmp_path, more)
    async with installed(api, webhook_url(manager), scope):

        async def create(name: str, **annotations: str) -> None:
            meta = {"name": f"{name}-{team}", "annotations": annotations}
            await api.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": meta, "value": 1})

        await create("bound", **{keys.MIN_RUNTIME: "1h"})
        with pytest.raises(ApiError, match=r'vworkloadpriorityclass\.kb\.io.*"2h": must be at most 1h0m0s') as refusal:
            await create("longer", **{keys.MIN_RUNTIME: "2h"})
        assert refusal.value.status == 403
        await manager.stop()
        await create("plain", other="x")
        with pytest.raises(ApiError, match="failed calling webhook"):
            await create("unanswered", **{keys.MIN_RUNTIME: "1h"})


async def test_an_outage_stops_no_unrelated_job(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    manager, scope = await candidate(api, namespace, plane, start, tmp_path)
    async with installed(api, webhook_url(manager), scope):
        queued = await api.create(JOBS, team, job("queued", queue="q"))
        await manager.stop()
        before = await unanswered(api)
        unrelated = await api.create(JOBS, team, job("unrelated"))
        await api.patch(JOBS, team, "unrelated", {"spec": {"suspend": True}})
        assert await unanswered(api) - before == Counter({"mjob-default.kb.io": 1})  # of the creation
        assert not unrelated["spec"]["suspend"]
        with pytest.raises(ApiError, match=r"failed calling webhook \"mjob.kb.io\""):
            await api.create(JOBS, team, job("refused", queue="q"))
        with pytest.raises(ApiError, match=r"failed calling webhook \"vjob.kb.io\""):
            await api.patch(JOBS, team, "queued", {"spec": {"suspend": False}})
        await api.patch(JOBS, team, "queued", {"status": {"active": 0}}, subresource="status")  # the Job controller
        assert queued["spec"]["suspend"]
        await api.delete(JOBS, team, "queued", propagation="Background")
        await api.create(JOBS, namespace, job("own", queue="q"))  # never in the manager's namespace


async def test_in_an_outage_the_break_glass_group_unsuspends_a_job(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    manager, scope = await candidate(api, namespace, plane, start, tmp_path)
    async with installed(api, webhook_url(manager), scope), Users(plane) as users:
        await api.create(JOBS, team, job("urgent", queue="q"))
        await manager.stop()
        with pytest.raises(ApiError, match=r"failed calling webhook \"vjob.kb.io\""):
            await users.admin.patch(JOBS, team, "urgent", {"spec": {"suspend": False}})
        on_call = users.client("jane", BREAK_GLASS_GROUP, ADMINS)
        started = await on_call.patch(JOBS, team, "urgent", {"spec": {"suspend": False}})
        assert not started["spec"]["suspend"]
        created = await on_call.create(JOBS, team, job("further", queue="q"))
        assert created["metadata"]["labels"][keys.QUEUE_NAME] == "q"


async def unanswered(api: RestClient) -> Counter[str]:
    """How often the API server has gone on without the answer of a webhook, by the name of that."""
    text = (await api.transport.request(Request("GET", "/metrics"))).body.decode()
    series = re.findall(r'^apiserver_admission_webhook_fail_open_count{name="([^"]+)",.*} (\d+)$', text, re.MULTILINE)
    return Counter({name: int(count) for name, count in series})


@pytest.mark.usefixtures("running_pods")
async def test_a_queued_job_runs_and_its_manager_is_not_reviewed(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """A leading manager answers as well. It stops while its objects are deleted, which needs no review."""
    account = await manager_account(api, namespace)
    path = await kubeconfig(plane, account, tmp_path)
    manager = await start(path, "--webhook-port", "0", config=config(namespace, ALL))
    scenario = Scenario(api, team, until)
    async with installed(api, webhook_url(manager), WebhookScope(namespace, account=account.name)):
        await scenario.queues()
        submitted = await scenario.submit("a", suspend=False, parallelism=2, completions=2)
        assert submitted["spec"]["suspend"] is True
        await scenario.until_finished("a")
        assert await reviews(manager, "/validate-batch-v1-job") > 0
        assert await reviews(manager, "/validate-kueue-x-k8s-io-v1beta2-workload") == 0
        name = (await scenario.workload("a"))["metadata"]["name"]
        wrong = {"status": {"reclaimablePods": [{"name": "main", "count": 5}]}}
        with pytest.raises(ApiError, match=r"(?s)vworkload.kb.io.*reclaimablePods"):
            await api.patch(WORKLOADS, team, name, wrong, subresource="status")
        await manager.stop()
        for resource, place in ((CLUSTER_QUEUES, ""), (RESOURCE_FLAVORS, "")):
            await api.delete(resource, place, team)
            await api.patch(resource, place, team, {"metadata": {"finalizers": None}})
            with pytest.raises(ApiError, match="not found"):
                await api.get(resource, place, team)


async def reviews(manager: Manager, path: str) -> float:
    return await manager.metric(f'controller_runtime_webhook_requests_total{{code="200",webhook="{path}"}}')


async def test_two_replicas_share_one_certificate(
    api: RestClient, namespace: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Both start at once with an empty Secret: one issues the certificate, and all servers of both present it."""
    account = await manager_account(api, namespace)
    await let_another_lead(api, namespace)
    files = [await kubeconfig(plane, account, tmp_path / name) for name in ("first", "second")]
    options = {"config": config(namespace), "until": "waiting: "}
    flags = ("--webhook-port", "0", "--visibility-port", "0")
    managers = await asyncio.gather(*(start(file, *flags, **options) for file in files))
    for manager in managers:
        manager.may_be_forbidden = True  # to read how the API server aggregates, for the visibility API
    urls = [url for manager in managers for url in (webhook_url(manager), visibility_url(manager))]
    presented = [await certificate(url) for url in urls]
    stored = await api.get(SECRETS, namespace, WEBHOOK_SECRET)
    state = read(stored)
    assert state.serving is not None
    assert presented == [ssl.PEM_cert_to_DER_cert(state.serving.certificate)] * 4


def visibility_url(manager: Manager) -> str:
    return next(line for line in manager.lines if "/apis/visibility" in line).split()[1].partition("/apis")[0]


@pytest.mark.usefixtures("running_pods")
async def test_a_candidate_answers_while_the_leader_ends(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """It goes on to lead with the same webhooks, and stops in order."""
    account = await manager_account(api, namespace)
    leader = await start(
        await kubeconfig(plane, account, tmp_path / "leader"), "--webhook-port", "0", config=config(namespace, ALL)
    )
    path = await kubeconfig(plane, account, tmp_path / "other")
    other = await start(path, "--webhook-port", "0", config=config(namespace, ALL), until="waiting: ")
    scenario = Scenario(api, team, until)
    async with installed(api, webhook_url(other), WebhookScope(namespace, account=account.name)):
        await scenario.queues()
        assert (await scenario.submit("a", suspend=False))["spec"]["suspend"] is True
        await leader.stop()
        assert (await scenario.submit("b", suspend=False))["spec"]["suspend"] is True
        await other.read_until("ready", SECONDS)
        await scenario.until_finished("a", "b")
        assert (await other.get("/readyz"))[0] == 200
    await other.stop()


async def test_a_renewed_certificate_is_trusted_before_it_is_presented(
    api: RestClient, namespace: str, team: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """The Secret has a certificate with 20 days left. A minute later the renewed one is in use; no write fails."""
    account = await manager_account(api, namespace)
    await let_another_lead(api, namespace)
    old = aged(namespace)
    await store(api, namespace, old)
    path = await kubeconfig(plane, account, tmp_path)
    manager = await start(path, "--webhook-port", "0", config=config(namespace), until="waiting: ")
    assert old.serving is not None
    async with installed(api, webhook_url(manager), WebhookScope(namespace, account=account.name)):
        announced = read(await api.get(SECRETS, namespace, WEBHOOK_SECRET))
        assert announced.serving == old.serving
        assert announced.successor is not None
        assert old.bundle in announced.bundle
        await until_injected(api, announced.bundle)

        async def is_renewed() -> bool:
            assert (await api.create(JOBS, team, job(f"j-{uuid4().hex[:8]}", queue="q")))["spec"]["suspend"]
            state = read(await api.get(SECRETS, namespace, WEBHOOK_SECRET))
            return state.serving == announced.successor and state.successor is None

        await until(is_renewed, "the successor is in use", seconds=120)
        assert announced.successor is not None
        wanted = ssl.PEM_cert_to_DER_cert(announced.successor.certificate)

        async def is_presented() -> bool:
            assert (await api.create(JOBS, team, job(f"j-{uuid4().hex[:8]}", queue="q")))["spec"]["suspend"]
            return await certificate(webhook_url(manager)) == wanted

        await until(is_presented, "the successor is presented")
        expires = await manager.metric('sluice_certificate_expiry_timestamp_seconds{certificate="webhook"}')
        assert expires > time.time() + timedelta(days=700).total_seconds()


def aged(namespace: str) -> CertificateState:
    """A certificate that is about to expire."""
    names = serving_names(OwnServices(namespace, "kueue-webhook-service"))
    return next_state(CertificateState(), names, datetime.now(UTC) - timedelta(days=710), trusted=True)


async def store(api: RestClient, namespace: str, state: CertificateState) -> None:
    await api.patch(SECRETS, namespace, WEBHOOK_SECRET, {"data": data(state)})


async def until_injected(api: RestClient, bundle: str) -> None:
    async def is_injected() -> bool:
        found: Json = await api.get(MUTATING_WEBHOOKS, "", MUTATING)
        return all(base64.b64decode(h["clientConfig"]["caBundle"]).decode() == bundle for h in found["webhooks"])

    await until(is_injected, "the API server has both CAs")


async def test_a_manager_that_may_not_read_its_secret_says_which(
    api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path
) -> None:
    account = await manager_account(api, namespace)
    path = await kubeconfig(plane, account, tmp_path)
    other = tmp_path / "config.yaml"
    other.write_text(config(namespace, "internalCertManagement: {webhookSecretName: another}\n"))
    message = await refusal("--webhook-port", "0", "--config", str(other), kubeconfig=path)
    assert message.startswith(f"missing permissions in namespace {namespace}: get, update secrets another; bind a Role")


async def test_certificates_of_another_controller_must_exist(
    api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path
) -> None:
    account = await manager_account(api, namespace)
    path = await kubeconfig(plane, account, tmp_path)
    other = tmp_path / "config.yaml"
    other.write_text(
        config(namespace, f"internalCertManagement: {{enable: false}}\nwebhook: {{certDir: {tmp_path}/certs}}\n")
    )
    message = await refusal("--webhook-port", "0", "--config", str(other), kubeconfig=path)
    assert message.startswith(f"webhook.certDir: {tmp_path}/certs/tls.key: No such file or directory")


async def test_the_webhooks_of_another_service_are_left_alone(
    api: RestClient, namespace: str, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Kueue's own webhooks have the same names; those of a Service that is not ours keep their caBundle."""
    bundle = base64.b64encode(aged("other").bundle.encode()).decode()
    service = {"namespace": "other", "name": "kueue-webhook-service", "path": "/validate-batch-v1-job"}
    hook = {
        "name": "vjob.kb.io",
        "clientConfig": {"service": service, "caBundle": bundle},
        "rules": [{"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    name = "kueue-validating-webhook-configuration"
    await api.create(VALIDATING_WEBHOOKS, "", {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        await candidate(api, namespace, plane, start, tmp_path)
        found = await api.get(VALIDATING_WEBHOOKS, "", name)
        assert found["webhooks"][0]["clientConfig"]["caBundle"] == bundle
    finally:
        await api.delete(VALIDATING_WEBHOOKS, "", name)

"""A cluster that asks a manager about writes: the installed configurations, with URLs in place of the Service."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from job_controller.json_tree import Json
from queue_manager.api.api_resources import JOBS, LEASES, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from queue_manager.api.component_names import WEBHOOK_SECRET
from queue_manager.api.webhook_table import MUTATING, VALIDATING
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.installation.webhook_configurations import WebhookScope, webhook_configurations
from queue_manager.operator.required_permissions import ALL, LEADER, rule, rules
from queue_manager.operator.webhooks.webhook_permissions import CA_INJECTION, certificate_secret
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.service_account import Account, account, write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import until

CONFIGURATIONS = ((MUTATING_WEBHOOKS, MUTATING), (VALIDATING_WEBHOOKS, VALIDATING))
LEASE = "c1f6bfd2.kueue.x-k8s.io"


def config(namespace: str, more: str = "") -> str:
    """A configuration of a manager whose own namespace this is."""
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    return f"{head}leaderElection: {{resourceNamespace: {namespace}}}\n{more}"


async def manager_account(api: RestClient, namespace: str) -> Account:
    """The rights of an installation, and the Secret that it creates empty."""
    await api.create(SECRETS, namespace, {"metadata": {"name": WEBHOOK_SECRET}})
    own = [*rules(ALL), rule(LEADER), rule(certificate_secret(WEBHOOK_SECRET)), *map(rule, CA_INJECTION)]
    return await account(api, namespace, own)


async def kubeconfig(plane: ControlPlane, manager: Account, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    token, _ = await manager.token()
    return write_kubeconfig(folder / "kubeconfig", plane.url, {"token": token}, plane)


async def let_another_lead(api: RestClient, namespace: str) -> None:
    """Managers of this namespace stay candidates: a holder that never writes has the Lease for an hour."""
    now = "2026-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    await api.create(LEASES, namespace, {"metadata": {"name": LEASE}, "spec": spec})


def webhook_url(manager: Manager) -> str:
    return next(line for line in manager.lines if line.endswith("(webhooks)")).split()[1]


@contextlib.asynccontextmanager
async def installed(api: RestClient, url: str, scope: WebhookScope) -> AsyncIterator[None]:
    """The configurations, in use once the manager has written its CA into them."""
    try:
        await install(api, url, scope)
        yield
    finally:
        for resource, name in CONFIGURATIONS:
            with contextlib.suppress(ApiError):
                await api.delete(resource, "", name)


async def install(api: RestClient, url: str, scope: WebhookScope) -> None:
    for (resource, _), configuration in zip(CONFIGURATIONS, webhook_configurations(scope), strict=True):
        await api.create(resource, "", with_url(configuration, url))
    await until(lambda: is_guarded(api), "both webhooks are asked")


def with_url(configuration: Json, url: str) -> Json:
    for hook in configuration["webhooks"]:
        hook["clientConfig"] = {"url": url + hook["clientConfig"]["service"]["path"]}
    return configuration


async def is_guarded(api: RestClient) -> bool:
    """Whether dry runs are answered by both webhooks of Jobs."""
    queued = await try_job(api, job("t", queue="q"))
    refused = await try_job(api, job("t", queue="not_a_name"))
    return queued["spec"]["suspend"] is True and refused.get("code") == 403


async def try_job(api: RestClient, tree: Json, namespace: str = "default") -> Json:
    """Create a Job as a dry run; the Job or the Status of the response."""
    request = Request("POST", JOBS.path(namespace), query={"dryRun": "All"}, body=msgspec.json.encode(tree))
    answer: Json = msgspec.json.decode((await api.transport.request(request)).body)
    return {"spec": {}, **answer}


def job(name: str, queue: str = "") -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}


async def certificate(url: str) -> bytes:
    """What the server on this machine presents, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found

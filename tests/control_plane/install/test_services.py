"""The webhooks of an installation, asked by a real API server through the installed Services.

They lead to this machine, where the manager runs as a process (`own_endpoints`); tests/control_plane/image has both
Services with pods of the image.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, NAMESPACES
from queue_manager.api.component_names import CONVERSION_SERVICE
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from tests.control_plane.conftest import kubectl
from tests.control_plane.install.installed_managers import SYSTEM, installed, start
from tests.control_plane.install.own_endpoints import lead_services_to, own_address
from tests.control_plane.manager.guarded import job, try_job
from tests.control_plane.manager.process import Manager
from tests.control_plane.server import ControlPlane, free_ports
from tests.waiting import until

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
JOBS_IN = "the webhooks are asked about Jobs of the listed namespace"
OLD_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {"name": "shared"},
    "spec": {"cohort": "research", "namespaceSelector": {}},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    if not own_address():
        pytest.skip("an EndpointSlice needs an address of this machine besides loopback")
    with ControlPlane.start("--enable-aggregator-routing=true") as plane:
        yield plane


@pytest.fixture
async def manager(cluster: ControlPlane, api: RestClient, tmp_path: Path) -> AsyncIterator[Manager]:
    """Of an installation for the namespace `listed`, with Roles there."""
    for name in ("listed", "unlisted"):
        await api.create(NAMESPACES, "", {"metadata": {"name": name}})
    [deployment] = installed(cluster, "namespaces=[listed]")
    webhook, visibility = free_ports(2)
    await lead_services_to(api, webhook)
    chosen = {
        "webhook": {"port": webhook},
        "visibilityServer": {"bindPort": visibility},
        "metrics": {"bindAddress": "127.0.0.1:0"},
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
    }
    manager = await start(cluster, deployment, tmp_path / deployment, chosen, ports=())
    yield manager
    await manager.stop()


async def test_services_lead_to_the_webhooks_of_listed_namespaces_and_to_the_conversion(
    manager: Manager, cluster: ControlPlane, api: RestClient
) -> None:
    """Admission, conversion both ways, and what an outage stops and does not stop."""

    async def is_guarded() -> bool:
        answer = await try_job_in(api, "listed")
        return answer["spec"].get("suspend") is True

    await until(is_guarded, JOBS_IN)
    assert (await try_job_in(api, "unlisted"))["spec"]["suspend"] is False
    refused = await try_job(api, job("t", queue="not_a_name"), "listed")
    assert refused["code"] == 403

    await until(lambda: is_converted(api), "the API server has the CA of the conversion")
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(OLD_QUEUE).encode())
    assert (await api.get(CLUSTER_QUEUES, "", "shared"))["spec"]["cohortName"] == "research"
    assert old_cohort(cluster) == "research"
    await api.patch(CLUSTER_QUEUES, "", "shared", {"spec": {"cohortName": "production"}})
    assert old_cohort(cluster) == "production"

    await manager.stop()
    with pytest.raises(AssertionError, match=f"conversion webhook.*{CONVERSION_SERVICE}.{SYSTEM}.svc"):
        old_cohort(cluster)
    assert (await api.get(CLUSTER_QUEUES, "", "shared"))["spec"]["cohortName"] == "production"
    assert "failed calling webhook" in (await try_job_in(api, "listed"))["message"]
    assert (await try_job_in(api, "unlisted"))["kind"] == "Job"
    with pytest.raises(ApiError, match="failed calling webhook"):
        await api.patch(CLUSTER_QUEUES, "", "shared", {"spec": {"cohortName": "research"}})


async def try_job_in(api: RestClient, namespace: str) -> Json:
    """The Job with a queue name, or the Status of its refusal."""
    return await try_job(api, job("t", queue="q"), namespace)


async def is_converted(api: RestClient) -> bool:
    """Whether an object of v1beta1 is accepted, in a dry run."""
    path = replace(CLUSTER_QUEUES, version="v1beta1").path()
    request = Request("POST", path, query={"dryRun": "All"}, body=json.dumps(OLD_QUEUE).encode())
    return (await api.transport.request(request)).is_success


def old_cohort(cluster: ControlPlane) -> str:
    """The cohort as a client of v1beta1 reads it, which the API server lets the manager convert."""
    return kubectl(cluster, "get", "clusterqueues.v1beta1.kueue.x-k8s.io", "shared", "-o", "jsonpath={.spec.cohort}")

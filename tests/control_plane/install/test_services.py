"""The webhooks of an installation, asked by a real API server through the installed Services.

kube-apiserver resolves a Service to the addresses of its EndpointSlices itself (--enable-aggregator-routing). They name
the address of this machine, where the manager runs as a process, so that neither kube-proxy nor pods are needed;
tests/control_plane/image has both Services with pods of the image. An API server accepts no loopback address there.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, NAMESPACES, Resource
from queue_manager.api.component_names import CONVERSION_SERVICE, WEBHOOK_SERVICE
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from tests.control_plane.conftest import kubectl
from tests.control_plane.install.installed_managers import SYSTEM, installed, start
from tests.control_plane.manager.guarded import job, try_job
from tests.control_plane.manager.process import Manager
from tests.control_plane.server import ControlPlane, free_ports
from tests.waiting import until

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
JOBS_IN = "the webhooks are asked about Jobs of the listed namespace"
OLD_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {"name": "shared"},
    "spec": {"cohort": "research", "namespaceSelector": {}},
}


def own_address() -> str:
    """An IPv4 address of this machine that is not loopback; "" without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen:
        try:
            chosen.connect(("192.0.2.1", 9))  # of documentation: nothing is sent
        except OSError:
            return ""
        address: str = chosen.getsockname()[0]
    return "" if address.startswith("127.") else address


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    if not own_address():
        pytest.skip("an EndpointSlice needs an address of this machine besides loopback")
    with ControlPlane.start("--enable-aggregator-routing=true") as plane:
        yield plane


async def lead_services_to(api: RestClient, port: int) -> None:
    """Make the EndpointSlices that the controller of Kubernetes makes for ready pods."""
    for service in (WEBHOOK_SERVICE, CONVERSION_SERVICE):
        tree = {
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
            "ports": [{"name": "webhook-server", "port": port, "protocol": "TCP"}],
        }
        await api.create(SLICES, SYSTEM, tree)


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

"""The image as `sluice install` runs it: pods of the installed Deployment, reached through the installed Services.

Real controllers make the pods and the EndpointSlices. There is no kube-proxy, so kube-apiserver resolves Services to
the pods' addresses itself (--enable-aggregator-routing), for webhooks and for aggregated APIs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest

from queue_manager.api.api_resources import JOBS, LEASES, NAMESPACES, PODS, SECRETS, VALIDATING_WEBHOOKS
from queue_manager.api.component_names import WEBHOOK_SECRET
from queue_manager.api.webhook_table import VALIDATING
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from tests.control_plane import front_proxy
from tests.control_plane.conftest import ROOT, kubectl
from tests.control_plane.image.oci_layout import Image
from tests.control_plane.image.pod_network import PodNetwork, pod_network
from tests.control_plane.image.pod_runner import PodRunner, RunningPod
from tests.control_plane.install.conftest import sluice
from tests.control_plane.manager.guarded import LEASE, is_guarded
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import BINDINGS, RBAC, account
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = [pytest.mark.control_plane, pytest.mark.image]

SYSTEM = "kueue-system"
NAMESPACE = "team-a"
REPLICAS = 2
CONTROLLERS = ("deployment-controller", "replicaset-controller", "endpointslice-controller")
METRICS = "kueue-controller-manager-metrics-service.kueue-system.svc"
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="module")
def network() -> Iterator[PodNetwork]:
    with pod_network(REPLICAS) as network:
        yield network


@pytest.fixture(scope="module")
def cluster(network: PodNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster after `sluice install --set webhook.enabled=true | kubectl apply --server-side -f -`."""
    flags = front_proxy.flags(tmp_path_factory.mktemp("front-proxy"))
    with (
        ControlPlane.start("--enable-aggregator-routing=true", *flags, address=network.host) as plane,
        plane.controllers(*CONTROLLERS),
    ):
        # As text, the managers announce on stdout what they serve.
        manifests = sluice("install", "--set", "webhook.enabled=true", "--set", "logging.format=text")
        kubectl(plane, "apply", "--server-side", "-f", "-", stdin=manifests.encode())
        yield plane


@pytest.fixture
async def api(cluster: ControlPlane) -> AsyncIterator[RestClient]:
    transport = HttpTransport.from_kubeconfig(cluster.kubeconfig)
    yield RestClient(transport)
    await transport.close()


@pytest.fixture
async def pods(
    cluster: ControlPlane, api: RestClient, image: Image, network: PodNetwork
) -> AsyncIterator[list[RunningPod]]:
    """The pods of the Deployment, which have become ready."""

    async def are_created() -> bool:
        return len(await api.list(PODS, SYSTEM)) == REPLICAS

    await until(are_created, "the Deployment has its pods")
    with TemporaryDirectory(prefix="sluice-pods-") as folder:
        Path(folder).chmod(0o755)  # the image's user enters it
        runner = PodRunner(api, cluster, image, Path(folder))
        trees = await api.list(PODS, SYSTEM)
        try:
            yield await asyncio.gather(*(runner.run(*each) for each in zip(trees, network.places, strict=True)))
        finally:
            await runner.close()


async def test_an_installation_with_the_image_guards_admits_and_answers(
    pods: list[RunningPod], api: RestClient
) -> None:
    """From `sluice install` to a running Job, with nothing but what is installed and what the pods do."""
    await check_pods(api)
    await until(lambda: is_guarded(api), "both webhooks answer through their Service")
    await check_certificate(api)
    await api.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    scenario = Scenario(api, NAMESPACE, until)
    await scenario.queues()
    with pytest.raises(ApiError, match="queue-name"):
        await scenario.submit("refused", queue="Not_A_Name")
    submitted = await scenario.submit("a", suspend=False, parallelism=4, completions=4)
    assert submitted["spec"]["suspend"] is True  # by the webhook
    await scenario.until_admitted("a")
    await scenario.submit("b")  # no quota is left for it
    await scenario.until_pending("b")
    assert (await api.get(JOBS, NAMESPACE, "b"))["spec"]["suspend"] is True

    await check_visibility(api)
    leader = (await api.get(LEASES, SYSTEM, LEASE))["spec"]["holderIdentity"].rpartition("_")[0]
    [leading] = [pod for pod in pods if pod.name == leader]
    text = await metrics_of(leading, api)
    assert f'kueue_admitted_active_workloads{{cluster_queue="{NAMESPACE}",replica_role="leader"}} 1.0' in text
    for pod in pods:
        await pod.manager.stop()


async def check_pods(api: RestClient) -> None:
    """The image that is tested is the one that the pods name."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = {pod["spec"]["containers"][0]["image"] for pod in await api.list(PODS, SYSTEM)}
    assert named == {f"sluice:{version}"}


async def check_certificate(api: RestClient) -> None:
    """The managers have made it, and the API server trusts its CA."""
    secret = await api.get(SECRETS, SYSTEM, WEBHOOK_SECRET)
    configuration = await api.get(VALIDATING_WEBHOOKS, "", VALIDATING)
    bundles = {hook["clientConfig"]["caBundle"] for hook in configuration["webhooks"]}
    assert bundles == {secret["data"]["ca.crt"]}
    assert {hook["clientConfig"]["service"]["name"] for hook in configuration["webhooks"]} == {"kueue-webhook-service"}


async def check_visibility(api: RestClient) -> None:
    """Any replica answers: kube-apiserver chooses one at random for each request."""
    path = f"{VISIBILITY}/clusterqueues/{NAMESPACE}/pendingworkloads"

    async def pending() -> list[str]:
        answer = await api.transport.request(Request("GET", path))
        if answer.status != 200:
            raise ApiError.of(answer.status, answer.body)
        return [item["metadata"]["ownerReferences"][0]["name"] for item in json.loads(answer.body)["items"]]

    async def is_listed() -> bool:
        return all([await pending() == ["b"] for _ in range(10)])

    await until(is_listed, "all replicas list the pending Workload in the aggregated API")
    assert [await pending() for _ in range(20)] == [["b"]] * 20


async def metrics_of(pod: RunningPod, api: RestClient) -> str:
    """What Prometheus reads from a pod, with the token of a service account that may, and a verified certificate."""
    reader = await account(api, NAMESPACE, [])
    role = {"apiGroup": RBAC[0], "kind": "ClusterRole", "name": "kueue-metrics-reader"}
    subject = {"kind": "ServiceAccount", "name": reader.name, "namespace": NAMESPACE}
    await api.create(BINDINGS, "", {"metadata": {"name": "prometheus"}, "roleRef": role, "subjects": [subject]})
    authority = (await api.get(SECRETS, SYSTEM, WEBHOOK_SECRET))["data"]["ca.crt"]
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    headers = {"Authorization": f"Bearer {(await reader.token())[0]}"}
    url = f"https://{pod.address}:8443/metrics"
    async with aiohttp.ClientSession(headers=headers) as session:
        async with asyncio.timeout(30):
            while True:
                async with session.get(url, ssl=context, server_hostname=METRICS) as answer:
                    if answer.status == 200:
                        return await answer.text()
                await asyncio.sleep(0.2)

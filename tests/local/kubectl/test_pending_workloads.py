"""The visibility API on the embedded API server: kubectl finds the group, and reads pages of pending Workloads."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from queue_manager.engine.clock import SystemClock
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.kubeconfig_file import write_kubeconfig
from queue_manager.local.server import http_server
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.storage.store import Store
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.workload_info import info
from queue_manager.visibility.pending_summary import PendingSummaries
from queue_manager.visibility_api import VisibilityApi
from tests.local.kubectl.conftest import Kubectl
from tests.local.tls import tls
from tests.unit.queueing.builders import T0, cluster_queue, local_queue, workload

pytestmark = pytest.mark.kubectl

ROOT = "/apis/visibility.kueue.x-k8s.io/v1beta2"
OF_CQ = f"{ROOT}/clusterqueues/cq/pendingworkloads"


@pytest.fixture
async def k(tmp_path: Path) -> AsyncGenerator[Kubectl, None]:
    """kubectl with a server on which three Workloads are pending."""
    queues = Queues()
    queues.set_cluster_queue(cluster_queue(), T0)
    queues.set_local_queue(local_queue(), T0)
    some = {w.metadata.key: w for w in (workload(name, created=i) for i, name in enumerate("abc"))}
    for w in some.values():
        queues.put(info(w), T0)
    registry = KindRegistry.builtin()
    registry.mount(VisibilityApi(PendingSummaries(queues, some.get)))
    clock = SystemClock()
    listening = await http_server.serve(
        ApiServer(Store(clock, random.Random(7)), registry, clock), tls().server, token="secret"
    )
    write_kubeconfig(tmp_path / "kubeconfig", listening.url, "secret", tls().authority)
    yield Kubectl(tmp_path / "kubeconfig")
    await listening.close()


async def test_kubectl_reads_a_page_of_pending_workloads(k: Kubectl) -> None:
    found = (await k("get", "--raw", f"{OF_CQ}?limit=2&offset=1")).tree
    assert [(i["metadata"]["name"], i["positionInClusterQueue"]) for i in found["items"]] == [("b", 1), ("c", 2)]


async def test_kubectl_reports_that_a_queue_is_not_found(k: Kubectl) -> None:
    run = await k.try_("get", "--raw", OF_CQ.replace("/cq/", "/nope/"))
    assert 'clusterqueue.visibility.kueue.x-k8s.io "nope" not found' in run.err


async def test_kubectl_cannot_write_pending_workloads(k: Kubectl) -> None:
    run = await k.try_("create", "--raw", OF_CQ, "-f", "-", stdin="{}")
    assert run.code != 0


async def test_kubectl_discovers_the_group_and_its_versions(k: Kubectl) -> None:
    versions = (await k("api-versions")).out.split()
    assert {"visibility.kueue.x-k8s.io/v1beta1", "visibility.kueue.x-k8s.io/v1beta2"} <= {*versions}
    found = (await k("get", "--raw", ROOT)).tree
    names = [resource["name"] for resource in found["resources"] if resource["verbs"] == ["get"]]
    assert names == [
        "clusterqueues/pendingworkloads",
        "localqueues/pendingworkloads",
        "localqueues/explanation",
    ]
    group = (await k("get", "--raw", "/apis/visibility.kueue.x-k8s.io")).tree
    assert group["preferredVersion"]["version"] == "v1beta2"

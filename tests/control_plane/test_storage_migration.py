"""Objects that an older Kueue stored as v1beta1: one manager converts them by itself, `sluice adopt` rewrites them."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api import keys
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    CRDS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from queue_manager.api.crd_conversion import converted_by
from queue_manager.api.crd_generation import crd
from queue_manager.api.models import KINDS
from queue_manager.cli.adoption_steps import rewrite_stored
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.manager.guarded import config, kubeconfig, manager_account
from tests.control_plane.manager.process import Manager
from tests.control_plane.server import ControlPlane, free_ports
from tests.simulation.crashes import Death, DyingTransport, WriteCounter
from tests.waiting import until

pytestmark = pytest.mark.control_plane

Json = Any
OLD = keys.V1BETA1.partition("/")[2]
OWN_CONFIG = "jobController: {manage: All}\n"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A server of its own: the definitions of the shared one are stored in another version."""
    with ControlPlane.start() as plane:
        yield plane


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[RestClient]:
    transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
    yield RestClient(transport)
    await transport.close()


def stored_as_v1beta1(definition: Json) -> Json:
    """The definition of a Kueue that serves and stores v1beta1 only."""
    old = next(version for version in definition["spec"]["versions"] if version["name"] == OLD)
    return {**definition, "spec": {**definition["spec"], "versions": [{**old, "served": True, "storage": True}]}}


def old(resource: Resource) -> Resource:
    return replace(resource, version=OLD)


async def an_old_cluster(api: RestClient) -> None:
    """Queues, an admitted Workload and a pending one, stored as v1beta1 in the API server."""
    for kind in KINDS:
        await api.create(CRDS, "", stored_as_v1beta1(crd(kind)))
    for kind in KINDS:
        resource = Resource(keys.GROUP, OLD, kind.plural, kind.__name__, kind.namespaced)
        await until(lambda resource=resource: is_served(api, resource), f"{resource} are served")
    await api.create(old(RESOURCE_FLAVORS), "", {"metadata": {"name": "f"}})
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9"}]}
    spec = {
        "cohort": "all",
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    }
    await api.create(old(CLUSTER_QUEUES), "", {"metadata": {"name": "cq"}, "spec": spec})
    await api.create(old(LOCAL_QUEUES), "default", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}})
    for name in ("admitted", "pending"):
        pods = [{"name": "main", "count": 1, "template": TEMPLATE}]
        queue = "lq" if name == "admitted" else "missing"
        spec = {"queueName": queue, "podSets": pods, "priorityClassName": "p", "priority": 5}
        spec["priorityClassSource"] = "kueue.x-k8s.io/workloadpriorityclass"
        await api.create(old(WORKLOADS), "default", {"metadata": {"name": name}, "spec": spec})
    assignment = [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]
    common = {"status": "True", "message": "", "lastTransitionTime": f"{datetime.now(UTC):%FT%TZ}"}
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": assignment},
        "conditions": [{**common, "type": each, "reason": each} for each in ("QuotaReserved", "Admitted")],
    }
    await api.patch(old(WORKLOADS), "default", "admitted", {"status": status}, subresource="status")


async def is_served(api: RestClient, resource: Resource) -> bool:
    try:
        await api.list(resource)
    except ApiError:
        return False
    return True


async def install_kinds(api: RestClient, port: int) -> None:
    """`sluice install` on that cluster: v1beta2 is served and stored from now on, the manager converts."""
    for kind in KINDS:
        url = {"url": f"https://127.0.0.1:{port}/convert"}
        present = await api.get(CRDS, "", f"{kind.plural}.{keys.GROUP}")
        await api.patch(CRDS, "", present["metadata"]["name"], {"spec": converted_by(crd(kind), url)["spec"]})


def in_etcd(plane: ControlPlane) -> dict[str, Json]:
    """The queue's objects as etcd has them, by key."""
    first, last = (base64.b64encode(text.encode()).decode() for text in ("/registry/kueue", "/registry/kueuf"))
    body = json.dumps({"key": first, "range_end": last}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{plane.etcd}/v3/kv/range", data=body), timeout=10) as answer:
        found = json.load(answer)["kvs"]
    return {base64.b64decode(kv["key"]).decode(): json.loads(base64.b64decode(kv["value"])) for kv in found}


async def one_manager(api: RestClient, plane: ControlPlane, folder: Path, port: int) -> Manager:
    """The only manager of the cluster, at the port that the definitions name."""
    name = "kueue-system"
    await api.create(NAMESPACES, "", {"metadata": {"name": name}})
    path = await kubeconfig(plane, await manager_account(api, name), folder)
    return await Manager.start(path, "--webhook-port", str(port), config=config(name, OWN_CONFIG))


async def adopt(plane: ControlPlane, folder: Path, *more: str) -> tuple[int, str, str]:
    save = ("--save", str(folder / "saved.yaml"))
    command = [*SLUICE, "adopt", "--kubeconfig", str(plane.kubeconfig), *save, *more]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_one_manager_starts_and_adopt_rewrites_what_is_stored(
    api: RestClient, plane: ControlPlane, tmp_path: Path
) -> None:
    """The manager becomes ready by lists for which it converts itself. Afterwards nothing needs a conversion."""
    await an_old_cluster(api)
    assert {tree["apiVersion"] for tree in in_etcd(plane).values()} == {keys.V1BETA1}
    code, out, err = await adopt(plane, tmp_path)
    assert (code, err) == (0, ""), "Workloads are read in v1beta1"
    assert [line.split()[:2] for line in out.splitlines() if "quota" in line] == [["1", "kept"], ["1", "requeued"]]
    assert "the way back  after `sluice install` objects are stored as v1beta2, which this Kueue does not know" in out

    port = free_ports(1)[0]
    await install_kinds(api, port)
    await until(lambda: needs_conversion(api), "objects have to be converted")
    code, out, err = await adopt(plane, tmp_path)
    assert code == 3
    assert "are stored as v1beta1, and no manager converts them now; repeat the command once one runs" in err

    manager = await one_manager(api, plane, tmp_path / "manager", port)
    try:
        await until(lambda: contents(api), "the API server has the CA of the conversion, for each kind")
        before = await contents(api)
        assert before["ClusterQueue cq"]["spec"]["cohortName"] == "all"
        await interrupted_rewriting(api)
        assert await contents(api) == before
        code, out, err = await adopt(plane, tmp_path, "--apply")
        assert (code, err) == (0, ""), out
        stored = in_etcd(plane)
        assert {tree["apiVersion"] for tree in stored.values()} == {keys.API_VERSION}
        assert len(stored) == len(before) == 5
        for kind in KINDS:
            found = await api.get(CRDS, "", f"{kind.plural}.{keys.GROUP}")
            assert found["status"]["storedVersions"] == ["v1beta2"]
        await manager.stop()
        assert await contents(api) == before
        assert not (tmp_path / "saved.yaml").exists()  # Kueue is not installed: there is nothing to restore
    finally:
        await manager.kill()


async def needs_conversion(api: RestClient) -> bool:
    """Whether the API server uses the new definitions: nobody converts."""
    try:
        await api.list(WORKLOADS)
    except ApiError as error:
        return "conversion webhook" in error.message
    return False


async def interrupted_rewriting(api: RestClient) -> None:
    """The command dies at its first, second, ... write, some of which arrive. Each CRD names v1beta1 until its end."""
    for at in range(3):
        definition = await api.get(CRDS, "", f"{WORKLOADS.plural}.{keys.GROUP}")
        assert OLD in definition["status"]["storedVersions"]
        death = WriteCounter(Death(at, applied=at == 1))
        with pytest.raises(ConnectionAbortedError):
            await rewrite_stored(RestClient(DyingTransport(api.transport, death)), definition)


async def contents(api: RestClient) -> dict[str, Json]:
    """What users wrote and what was admitted, as read in v1beta2. A running manager writes other fields."""
    return {
        f"{kind.kind} {tree['metadata']['name']}": {
            "uid": tree["metadata"]["uid"],
            "spec": tree.get("spec"),
            "admission": tree.get("status", {}).get("admission"),
        }
        for kind in (RESOURCE_FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS)
        for tree in await api.list(kind)
    }

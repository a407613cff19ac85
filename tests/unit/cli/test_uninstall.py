"""What `sluice uninstall` reports of what it leaves, on the embedded API server, where no manager runs."""

from __future__ import annotations

import random
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_manager.api.api_resources import CRDS, WORKLOADS
from queue_manager.cli import uninstall
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.uninstall import NO_CRD_OF_SLUICE, NOT_ITS_CRD
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation import object_names
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def client() -> RestClient:
    """A client of a cluster with the CRDs of `sluice crds | kubectl apply -f -`, which have no label."""
    clock, rng = Clock(), random.Random(1)
    client = RestClient(LocalTransport(ApiServer(Store(clock, rng), KindRegistry.builtin(), clock)))
    await install_crds(client)
    return client


async def removed(client: RestClient, *, dry_run: bool) -> dict[str, tuple[str, str]]:
    """Remove with --crds; return result and note of each CRD."""
    report = ChangeReport("json", dry_run=dry_run)
    removal = uninstall._Removal(client, report, object_names.DEFAULT_NAMESPACE, 5.0, dry_run)
    await uninstall.uninstall(client, report, removal, crds=True)
    return {row.name: (row.result, row.note) for row in report.rows if row.kind == CRDS.kind}


@pytest.mark.parametrize("dry_run", [True, False])
async def test_crds_without_the_label_stay_and_are_reported(client: RestClient, dry_run: bool) -> None:
    names = {tree["metadata"]["name"] for tree in await client.list(CRDS)}
    assert len(names) == 7
    label = {"metadata": {"labels": object_names.LABELS}}
    await client.patch(CRDS, "", str(WORKLOADS), label)
    rows = await removed(client, dry_run=dry_run)
    assert rows.pop(str(WORKLOADS))[0] == "deleted"
    assert rows == dict.fromkeys(names - {str(WORKLOADS)}, ("unchanged", NOT_ITS_CRD))


async def test_a_crd_of_the_group_that_sluice_does_not_have_is_named_without_a_command(client: RestClient) -> None:
    for tree in await client.list(CRDS):
        if tree["metadata"]["name"] == str(WORKLOADS):
            await client.create(CRDS, "", renamed(tree))
    rows = await removed(client, dry_run=True)
    assert rows["topologies.kueue.x-k8s.io"] == ("unchanged", NO_CRD_OF_SLUICE)


def renamed(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD of another kind with the schema of this one."""
    spec = {field: deepcopy(value) for field, value in tree["spec"].items() if field != "conversion"}
    spec["names"] = {"plural": "topologies", "singular": "topology", "kind": "Topology", "listKind": "TopologyList"}
    return {"metadata": {"name": "topologies.kueue.x-k8s.io"}, "spec": spec}

"""What `sluice uninstall` reports of what it leaves, on the embedded API server, where no manager runs."""

from __future__ import annotations

import random
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from job_controller.managed_by import BUILT_IN_MANAGER, OWN_MANAGER
from job_controller.model import Condition, Job, JobSpec, JobStatus, ObjectMeta
from queue_manager.api import keys
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


async def removed(client: RestClient, *, dry_run: bool, crds: bool = True) -> dict[str, tuple[str, str]]:
    """Remove, by default with --crds; return result and note of each CRD."""
    report = ChangeReport("json", dry_run=dry_run)
    part = await uninstall.read_part(client, None, "")
    removal = uninstall._Removal(client, report, part, None, 5.0, dry_run)
    await uninstall.uninstall(report, removal, crds=crds)
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
    assert "topologies.kueue.x-k8s.io" not in await removed(client, dry_run=True, crds=False)


async def test_crds_without_the_label_are_reported_without_crds_too(client: RestClient) -> None:
    """Otherwise `nothing of Sluice is installed` would be all that is said of them."""
    names = {tree["metadata"]["name"] for tree in await client.list(CRDS)}
    assert await removed(client, dry_run=False, crds=False) == dict.fromkeys(names, ("unchanged", NOT_ITS_CRD))


def renamed(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD of another kind with the schema of this one."""
    spec = {field: deepcopy(value) for field, value in tree["spec"].items() if field != "conversion"}
    spec["names"] = {"plural": "topologies", "singular": "topology", "kind": "Topology", "listKind": "TopologyList"}
    return {"metadata": {"name": "topologies.kueue.x-k8s.io"}, "spec": spec}


@pytest.mark.parametrize(
    ("suspend", "managed_by", "active", "name", "says"),
    [
        (True, None, 0, "1 pending", "until spec.suspend is set to false, or"),
        (True, OWN_MANAGER, 0, f"1 pending, managed by {OWN_MANAGER}", "until a manager runs again; setting"),
        (False, OWN_MANAGER, 2, f"1 running, managed by {OWN_MANAGER}", "the pods keep running"),
        (False, OWN_MANAGER, 0, f"1 without running pods, managed by {OWN_MANAGER}", "no pods are created"),
        (False, None, 0, "1 running", "handled by the cluster's own Job controller"),
        (False, BUILT_IN_MANAGER, 1, "1 running", "handled by the cluster's own Job controller"),
        (False, "example.com/other", 1, "1 running, managed by others", "that spec.managedBy names"),
    ],
)
def test_a_job_is_counted_with_those_of_the_same_fate(
    suspend: bool, managed_by: str | None, active: int, name: str, says: str
) -> None:
    labels = {keys.QUEUE_NAME: "q"}
    spec = JobSpec(suspend=suspend, managed_by=managed_by)
    job = Job(metadata=ObjectMeta(name="j", labels=labels), spec=spec, status=JobStatus(active=active))
    [(found, note)] = uninstall.left_behind([job])
    assert found == name
    assert says in note


def test_jobs_that_are_finished_or_in_no_queue_are_not_counted() -> None:
    done = JobStatus(conditions=(Condition(type="Complete", status="True"),))
    assert [*uninstall.left_behind([Job(status=done), Job(spec=JobSpec(suspend=True))])] == []

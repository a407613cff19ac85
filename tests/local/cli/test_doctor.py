"""`sluice doctor` on a running cluster: a healthy one, and one whose mistakes its own commands fix."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from job_controller.model import Pod
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NODES, PODS, RESOURCE_FLAVORS, WORKLOADS
from queue_manager.cli.machine_formats import SCHEMA_VERSION
from queue_manager.engine.rest_client import RestClient
from queue_manager.lifecycle.unscheduled import unschedulable
from tests.local.cli.conftest import JOB, User
from tests.local.cluster.conftest import EMBEDDED
from tests.waiting import until

UNKNOWN_CONFIG = "the configuration of the manager (not published, or forbidden)"
NOT_INSTALLED = (
    "whether a manager runs (Sluice is not installed in namespace kueue-system, and none has held a Lease there)"
)
QUOTA = {"name": "cpu", "nominalQuota": 100}


def queue(*flavors: str) -> dict[str, object]:
    quotas = [{"name": name, "resources": [QUOTA]} for name in flavors]
    group = {"coveredResources": ["cpu"], "flavors": quotas}
    return {"metadata": {"name": "broken"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}


@EMBEDDED
async def test_a_healthy_cluster_with_jobs_has_no_findings(user: Callable[..., User]) -> None:
    someone = user()
    someone.submit("runs")
    someone.submit("waits", cpu="2")
    someone.submit("ends", command="[sh, -c, exit 3]", spec="backoffLimit: 0")
    await someone.until_state("runs", "Running")
    await someone.until_state("ends", "Failed")
    done = someone.run("doctor")
    assert (done.returncode, done.stdout) == (0, "nothing found\n")
    async with someone.up.client() as client:  # a finding of a Workload whose Job has just gone would be wrong
        await client.delete(JOBS, "default", "runs")
    assert someone.json("doctor") == {
        "deactivated": 0,
        "notChecked": [],
        "problems": [],
        "schemaVersion": SCHEMA_VERSION,
    }


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
async def test_the_commands_of_the_findings_mend_them(user: Callable[..., User]) -> None:
    someone = user()
    async with someone.up.client() as client:
        nowhere = {"metadata": {"name": "nowhere"}, "spec": {"clusterQueue": "clster-queue"}}
        await client.create(LOCAL_QUEUES, "default", nowhere)
        labelled = {"metadata": {"name": "labelled"}, "spec": {"nodeLabels": {"kind": "fast"}}}
        await client.create(RESOURCE_FLAVORS, "", labelled)
        await client.create(CLUSTER_QUEUES, "", queue("absent", "default-flavor", "labelled"))
    done = someone.run("doctor", "-o", "json")
    assert done.returncode == 2
    for _ in range(2):  # the new flavor has no labels, so that its quota is above what the nodes have
        for problem in json.loads(done.stdout)["problems"]:
            shell(problem["command"].replace("NODE", "node-1"), someone)
        done = someone.run("doctor", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["problems"]) == (0, [])


@EMBEDDED
async def test_a_deletion_that_waits_for_what_uses_the_object_is_found(user: Callable[..., User]) -> None:
    someone = user()
    someone.submit("runs")
    await someone.until_state("runs", "Running")
    async with someone.up.client() as client:
        await client.delete(RESOURCE_FLAVORS, "", "default-flavor")
        (found,) = problems(someone)
        assert (found["code"], found["place"]) == ("DeletionInUse", "resourceflavor/default-flavor")
        assert found["command"].startswith("kubectl edit clusterqueue cluster-queue: ")
        await client.delete(CLUSTER_QUEUES, "", "cluster-queue")
        (found,) = problems(someone)
        assert (found["code"], found["place"]) == ("DeletionInUse", "clusterqueue/cluster-queue")
        assert "the quota of Workload default/job-runs-" in found["sentence"]
        someone.says(*found["command"].partition(":")[0].split()[1:])

        async def are_gone() -> bool:
            return not await client.list(CLUSTER_QUEUES) and not await client.list(RESOURCE_FLAVORS)

        await until(are_gone, "the ClusterQueue and the flavor are gone")


@EMBEDDED
async def test_jobs_that_only_a_user_can_help_are_found(user: Callable[..., User]) -> None:
    someone = user()
    async with someone.up.client() as client:
        for node in await client.list(NODES):
            await client.patch(NODES, "", node["metadata"]["name"], {"spec": {"unschedulable": True}})
        someone.submit("placed-nowhere")
        await until_unschedulable(client)
    someone.says("hold", "user-queue")
    huge = JOB.format(name="huge", command="[sleep, '600']", spec="backoffLimit: 6", cpu="64")
    assert someone.run("submit", "-f", "-", stdin=huge).returncode == 2
    async with someone.up.client() as client:
        await until_waiting(client, 2)
    found = {problem["code"]: problem for problem in problems(someone)}
    assert set(found) == {"CordonedNodes", "NeverStarts", "StoppedQueue"}
    assert "can never start: asks 64 cpu" in found["NeverStarts"]["sentence"]
    assert found["StoppedQueue"]["place"] == "localqueue/user-queue -n default"
    assert "Job default/huge waits until it is released" in found["StoppedQueue"]["sentence"]
    assert "pod default/placed-nowhere" in found["CordonedNodes"]["sentence"]
    someone.says(*found["StoppedQueue"]["command"].split()[1:])
    assert {problem["code"] for problem in problems(someone)} == {"CordonedNodes", "NeverStarts"}


async def until_unschedulable(client: RestClient) -> None:
    async def so() -> bool:
        return any(unschedulable(pod) for pod in await client.list(PODS, "default", type=Pod))

    await until(so, "a pod has no node")


async def until_waiting(client: RestClient, workloads: int) -> None:
    async def so() -> bool:
        return len(await client.list(WORKLOADS, "default")) == workloads

    await until(so, "each Job has a Workload")


def problems(someone: User) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(someone.run("doctor", "-o", "json").stdout)["problems"]
    return found


def shell(command: str, someone: User) -> None:
    environment = {**os.environ, "KUBECONFIG": str(someone.up.kubeconfig)}
    subprocess.run(["sh", "-c", command], env=environment, check=True, timeout=60)

"""`sluice doctor` on a running cluster: a healthy one, and one whose mistakes its own commands mend."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from queue_manager.api.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, RESOURCE_FLAVORS
from tests.local.cli.conftest import User
from tests.local.cluster.conftest import Up

QUOTA = {"name": "cpu", "nominalQuota": 100}


def queue(*flavors: str) -> dict[str, object]:
    quotas = [{"name": name, "resources": [QUOTA]} for name in flavors]
    group = {"coveredResources": ["cpu"], "flavors": quotas}
    return {"metadata": {"name": "broken"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}


async def test_a_healthy_cluster_with_jobs_has_no_findings(user: Callable[..., User]) -> None:
    someone = user()
    someone.submit("runs")
    someone.submit("waits", cpu="2")
    someone.submit("ends", command="[sh, -c, exit 3]", spec="backoffLimit: 0")
    await someone.until_state("runs", "Running")
    await someone.until_state("ends", "Failed")
    # Only an installation and `sluice up` publish the configuration.
    unread = [] if isinstance(someone.up, Up) else ["the configuration of the manager (not published, or forbidden)"]
    done = someone.run("doctor")
    says = [*(f"not checked: {what}" for what in unread), "nothing found"]
    assert (done.returncode, done.stdout.splitlines()) == (0, says), done.stdout
    async with someone.up.client() as client:  # a finding of a Workload whose Job has just gone would be wrong
        await client.delete(JOBS, "default", "runs")
    assert someone.json("doctor") == {"notChecked": unread, "problems": [], "schemaVersion": 2}


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


def shell(command: str, someone: User) -> None:
    environment = {**os.environ, "KUBECONFIG": str(someone.up.kubeconfig)}
    subprocess.run(["sh", "-c", command], env=environment, check=True, timeout=60)

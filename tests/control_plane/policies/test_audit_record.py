"""config/audit_policy.yaml: the audit log of the API server is the record of who did what to queues and Workloads."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api import keys
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.policy_settings import service_account
from tests.control_plane.audit import events, log_of
from tests.control_plane.conftest import ROOT, SLUICE, install_kinds
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.policies.conftest import ALL
from tests.control_plane.policies.enforced import LABEL, enforced, job
from tests.control_plane.policies.users import Users, give_role, refusal
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

AUDIT_POLICY = ROOT / "config" / "audit_policy.yaml"
TEAM = "audited"
GROUP = "kueue.x-k8s.io"
OPERATOR = [
    {"apiGroups": [GROUP, "batch"], "resources": ["*"], "verbs": ["get", "list"]},
    {"apiGroups": [GROUP], "resources": ["localqueues", "clusterqueues", "workloads"], "verbs": ["patch"]},
]
Line = dict[str, Any]


@pytest.fixture
def audited() -> Iterator[ControlPlane]:
    with ControlPlane.start(f"--audit-policy-file={AUDIT_POLICY}") as plane:
        install_kinds(plane)
        yield plane


@pytest.fixture
async def api(audited: ControlPlane) -> AsyncIterator[RestClient]:
    transport = HttpTransport.from_kubeconfig(audited.kubeconfig)
    client = RestClient(transport)
    await client.create(NAMESPACES, "", {"metadata": {"name": TEAM, "labels": {LABEL: "true"}}})
    yield client
    await transport.close()


def lines(plane: ControlPlane) -> list[Line]:
    return list(events(log_of(plane.folder)))


async def queued_job(api: RestClient) -> None:
    """A ClusterQueue, a LocalQueue, and a Job with its Workload; no manager runs here."""
    await api.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}}})
    await api.create(LOCAL_QUEUES, TEAM, {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}})
    created = await api.create(JOBS, TEAM, job("train", suspend=True))
    uid = created["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    meta = {"name": "job-train", "labels": {keys.JOB_UID: uid}, "ownerReferences": [owner]}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    sets = [{"name": "main", "count": 1, "template": template}]
    await api.create(WORKLOADS, TEAM, {"metadata": meta, "spec": {"queueName": "lq", "podSets": sets}})


async def test_each_command_of_an_operator_is_a_line_with_user_and_change(
    audited: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    await queued_job(api)
    operator = await account(api, TEAM, OPERATOR)
    token, _ = await operator.token()
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", audited.url, {"token": token}, audited)

    def sluice(*command: str) -> None:
        given = ["-n", TEAM, "--kubeconfig", str(kubeconfig)]
        done = subprocess.run([*SLUICE, *command, *given], check=False, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr

    for command in ("hold lq", "release lq", "drain lq", "deactivate train", "reactivate train"):
        await asyncio.to_thread(sluice, *command.split())
    transport = HttpTransport(audited.url, token=token, ssl=audited.ssl_context())
    flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9"}]}]
    quota = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    await RestClient(transport).patch(CLUSTER_QUEUES, "", "cq", {"spec": quota})
    await transport.close()
    who = service_account(TEAM, operator.name)
    mine = [line for line in lines(audited) if line["user"]["username"] == who]
    assert [(line["objectRef"]["name"], line["requestObject"]["spec"]) for line in mine] == [
        ("lq", {"stopPolicy": "Hold"}),
        ("lq", {"stopPolicy": "None"}),
        ("lq", {"stopPolicy": "HoldAndDrain"}),
        ("job-train", {"active": False}),
        ("job-train", {"active": True}),
        ("cq", quota),
    ]
    assert all(line["verb"] == "patch" and line["requestReceivedTimestamp"] for line in mine)


ALLOWED = "allowed for jane as a member of sluice:break-glass"


async def test_the_audit_log_names_who_broke_the_glass(audited: ControlPlane, api: RestClient) -> None:
    """And only for a request that a policy would have refused."""
    await give_role(api, TEAM, "system:aggregate-to-edit")
    async with Users(audited) as users, enforced(api, TEAM, ALL):
        await users.jane.create(JOBS, TEAM, job("a"))
        await refusal(users.jane.patch(JOBS, TEAM, "a", {"spec": {"suspend": False}}))
        await users.firefighter.patch(JOBS, TEAM, "a", {"spec": {"parallelism": 2}})
        await users.firefighter.patch(JOBS, TEAM, "a", {"spec": {"suspend": False}})
    patches = [line for line in lines(audited) if (line["verb"], line["objectRef"]["resource"]) == ("patch", "jobs")]
    assert [line["annotations"].get("sluice-unsuspend/break-glass") for line in patches] == [None, None, ALLOWED]
    assert not any("requestObject" in line for line in patches)

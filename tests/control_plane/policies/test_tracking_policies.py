"""What only controllers may write: the status of Jobs, what pods are counted by, the admission of Workloads."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import JOBS, PODS, WORKLOADS
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.policy_settings import BUILT_IN_JOB_CONTROLLERS
from tests.control_plane.policies.enforced import job
from tests.control_plane.policies.users import ADMINS, QUEUE, Users, refusal

pytestmark = pytest.mark.control_plane

Tree = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"
PODSET = "kueue.x-k8s.io/podset"
TRACKING, OWN_TRACKING = "batch.kubernetes.io/job-tracking", "sluice/job-tracking"
NOW = "2026-01-01T00:00:00Z"


async def pod(api: RestClient, namespace: str, name: str = "p", **meta: Any) -> Tree:
    spec = {"containers": [{"name": "main", "image": "x"}]}
    return await api.create(PODS, namespace, {"metadata": {"name": name, **meta}, "spec": spec})


TRACKED = {
    "labels": {PODSET: "main", INDEX: "0"},
    "annotations": {INDEX: "0"},
    "finalizers": [TRACKING, "example.com/x"],
}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"finalizers": ["example.com/x"]}, "metadata.finalizers"),
        ({"finalizers": None}, "metadata.finalizers"),
        ({"annotations": {INDEX: "1"}}, f"metadata.annotations[{INDEX}]"),
        ({"annotations": {INDEX: None}}, f"metadata.annotations[{INDEX}]"),
        ({"labels": {INDEX: "1"}}, f"metadata.labels[{INDEX}]"),
        ({"labels": {PODSET: None}}, f"metadata.labels[{PODSET}]"),
    ],
)
async def test_what_a_pod_is_counted_by_is_the_job_controllers(
    policed: str, users: Users, api: RestClient, change: Tree, path: str
) -> None:
    await pod(api, policed, **TRACKED)
    text = await refusal(users.jane.patch(PODS, policed, "p", {"metadata": change}))
    assert text.startswith(f"{path}: Forbidden: only the Job controller ")
    for number, user in enumerate((users.firefighter, users.queue, users.client(BUILT_IN_JOB_CONTROLLERS[0], ADMINS))):
        await pod(api, policed, f"p-{number}", **TRACKED)
        await user.patch(PODS, policed, f"p-{number}", {"metadata": change})


async def test_other_changes_of_a_tracked_pod_are_accepted(policed: str, users: Users, api: RestClient) -> None:
    await pod(api, policed, **TRACKED)
    change = {"labels": {"any": "label"}, "annotations": {"any": "note"}, "finalizers": [TRACKING]}
    await users.jane.patch(PODS, policed, "p", {"metadata": change})


async def test_the_finalizer_of_our_job_controller_needs_no_label(policed: str, users: Users, api: RestClient) -> None:
    await pod(api, policed, finalizers=[OWN_TRACKING])
    await refusal(users.jane.patch(PODS, policed, "p", {"metadata": {"finalizers": None}}))


async def test_a_pod_of_a_job_outside_of_queues_is_left_alone(policed: str, users: Users, api: RestClient) -> None:
    await pod(api, policed, finalizers=[TRACKING])
    await users.jane.patch(PODS, policed, "p", {"metadata": {"finalizers": None}})


async def test_a_pod_that_is_being_deleted_can_be_released(policed: str, users: Users, api: RestClient) -> None:
    await pod(api, policed, **TRACKED)
    await users.jane.delete(PODS, policed, "p", grace_period=0)
    await users.jane.patch(PODS, policed, "p", {"metadata": {"finalizers": None}})


async def test_the_status_of_a_job_is_the_job_controllers(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a"))
    status = {"status": {"ready": 0}}
    text = await refusal(users.admin.patch(JOBS, policed, "a", status, subresource="status"))
    assert text == "status: Forbidden: only the Job controller writes the status of a Job"
    controllers = [users.client(name, ADMINS) for name in (QUEUE, *BUILT_IN_JOB_CONTROLLERS)]
    for user in (*controllers, users.client("jane", "sluice:break-glass", ADMINS)):
        await user.patch(JOBS, policed, "a", status, subresource="status")


async def test_the_status_of_a_job_of_another_controller_is_left_alone(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a", managedBy="example.com/mine"))
    await users.admin.patch(JOBS, policed, "a", {"status": {"ready": 0}}, subresource="status")


def condition(type: str, status: str, reason: str = "Forged") -> Tree:
    return {"type": type, "status": status, "reason": reason, "message": "", "lastTransitionTime": NOW}


ADMISSION = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}


@pytest.mark.parametrize(
    "status",
    [
        {"admission": ADMISSION},
        {"conditions": [condition("QuotaReserved", "True")]},
        {"conditions": [condition("Admitted", "False")]},
    ],
)
async def test_an_admission_is_written_by_the_queue_only(policed: str, users: Users, status: Tree) -> None:
    await workload(users, policed)
    text = await refusal(users.admin.patch(WORKLOADS, policed, "w", {"status": status}, subresource="status"))
    assert text == f"status: Forbidden: only {QUEUE} writes admission and the conditions QuotaReserved and Admitted"
    await users.queue.patch(WORKLOADS, policed, "w", {"status": status}, subresource="status")


async def test_admission_checks_are_written_by_their_controllers(policed: str, users: Users) -> None:
    await workload(users, policed)
    reserved = {"admission": ADMISSION, "conditions": [condition("QuotaReserved", "True")]}
    await users.queue.patch(WORKLOADS, policed, "w", {"status": reserved}, subresource="status")
    check = {"name": "ready", "state": "Ready", "message": "", "lastTransitionTime": NOW}
    conditions = [condition("QuotaReserved", "True", "Again"), condition("Seen", "True")]
    status = {"admissionChecks": [check], "conditions": conditions}
    await users.admin.patch(WORKLOADS, policed, "w", {"status": status}, subresource="status")


async def workload(users: Users, namespace: str) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]}
    await users.queue.create(WORKLOADS, namespace, {"metadata": {"name": "w"}, "spec": spec})

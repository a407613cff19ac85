"""Jobs that no webhook validated, and other causes that keep a Job from having a Workload: one Event each, corrected in
place.
"""

from __future__ import annotations

import asyncio

import pytest

from queue_manager.api.api_resources import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from queue_manager.jobs.webhook import JobAdmission
from tests.local.queue.cluster import API, NS, Cluster, cluster
from tests.local.queue.environments import VIRTUAL_TIME, run

pytestmark = pytest.mark.usefixtures("environment")

QUEUE = "kueue.x-k8s.io/queue-name"
TIMEOUT = "waitForPodsReady: {timeout: 3s}\n"


async def _suspended(c: Cluster, job: str) -> bool:
    return bool((await c.job(job))["spec"].get("suspend"))


async def _severities(c: Cluster, name: str, reason: str) -> list[str]:
    """Of the Events with this reason."""
    return [severity for severity, found, _ in await c.events(name) if found == reason]


async def _texts(c: Cluster, name: str, reason: str) -> list[str]:
    return [text for _, found, text in await c.events(name) if found == reason]


async def _reason(c: Cluster, job: str) -> str | None:
    found = await c.condition(job, "QuotaReserved")
    return found[1] if found else None


@pytest.mark.parametrize(
    ("queue", "notes", "field"),
    [
        ("Bad_Name", {}, "spec.queueName"),
        ("lq", {"kueue.x-k8s.io/job-min-parallelism": "2"}, "minCount"),
    ],
)
def test_an_invalid_job_without_workload_gets_one_event(queue: str, notes: dict[str, str], field: str) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            c.world.admission.clear()
            await c.queues()
            await c.submit("a", queue=queue, annotations=notes)
            await asyncio.sleep(5)  # three tries
            await c.until(lambda: _severities(c, "a", "QueueingRefused"), ["Warning"])
            (text,) = await _texts(c, "a", "QueueingRefused")
            assert field in text
            notes_off = dict.fromkeys(notes)
            await c.client.patch(JOBS, NS, "a", {"metadata": {"labels": {QUEUE: "lq"}, "annotations": notes_off}})
            await c.until(c.running, ["a"])

    run(scenario())


def test_an_unreadable_annotation_has_no_effect_and_is_one_event() -> None:
    """Nor does the webhook, once it is installed, keep such a Job from being started and stopped."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            rules = c.world.admission[:]
            c.world.admission.clear()
            notes = {"kueue.x-k8s.io/job-completions-equal-parallelism": "maybe"}
            await c.submit("a", queue="later", labels={"kueue.x-k8s.io/max-exec-time-seconds": "1h"}, annotations=notes)
            await c.until(lambda: _suspended(c, "a"), True)
            c.world.admission[:] = rules
            await c.client.patch(JOBS, NS, "a", {"metadata": {"labels": {QUEUE: "lq"}}})
            await c.until(c.running, ["a"])
            await c.client.patch(LOCAL_QUEUES, NS, "lq", {"spec": {"stopPolicy": "HoldAndDrain"}})
            await c.until(c.running, [])
            await c.until(lambda: _severities(c, "a", "InvalidOverride"), ["Warning"])
            (recorded,) = await _texts(c, "a", "InvalidOverride")
            assert recorded.startswith('metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: "1h": ')
            assert recorded.endswith('ParseBool: parsing "maybe": invalid syntax; this has no effect')

    run(scenario())


def test_a_refused_workload_update_does_not_block_the_job() -> None:
    """A gate cannot be added later. Its refusal must hide neither that the pods are ready nor keep the Job from being
    stopped.
    """

    async def scenario() -> None:
        async with cluster(TIMEOUT) as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            rules = c.world.admission[:]
            c.world.admission[:] = [rule for rule in rules if not isinstance(rule, JobAdmission)]
            gate = {"kueue.x-k8s.io/admission-gated-by": "example.com/later"}
            await c.client.patch(JOBS, NS, "a", {"metadata": {"annotations": gate}})
            await asyncio.sleep(4)
            assert await c.running() == ["a"]
            name = (await c.workload("a"))["metadata"]["name"]
            await c.client.patch(WORKLOADS, NS, name, {"spec": {"active": False}})
            await c.until(c.running, [])
            await c.until(lambda: _reason(c, "a"), "Deactivated")

    run(scenario())


def test_a_foreign_workload_with_the_jobs_name_is_reported() -> None:
    """A user removed owner reference and label; the Job has a Workload again once the name is free."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues(cpu="0")
            await c.submit("a")
            await c.until(lambda: _reason(c, "a"), "ExceedsMaxQuota")
            name = (await c.workload("a"))["metadata"]["name"]
            mine = {"ownerReferences": None, "finalizers": None, "labels": {"kueue.x-k8s.io/job-uid": None}}
            await c.client.patch(WORKLOADS, NS, name, {"metadata": mine})
            await asyncio.sleep(5)
            await c.until(lambda: _severities(c, "a", "QueueingRefused"), ["Warning"])
            await c.client.delete(WORKLOADS, NS, name)
            await c.until(lambda: _reason(c, "a"), "ExceedsMaxQuota", seconds=65)

    run(scenario())


def test_a_stored_workload_of_another_shape_is_ignored_with_an_event() -> None:
    """Its place in the queue is before that of the Job, which is admitted nevertheless."""

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            c.world.admission.clear()
            meta = {"name": "misshapen", "namespace": NS}
            sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [True]}}}]
            tree = {**API, "kind": "Workload", "metadata": meta, "spec": {"queueName": "lq", "podSets": sets}}
            await c.create(WORKLOADS, tree)
            await c.submit("a")
            await c.until(c.running, ["a"])
            await c.until(lambda: _severities(c, "misshapen", "Undecodable"), ["Warning"])
            ((_, _, text),) = await c.events("misshapen")
            assert "template.spec.containers[0] must be an object" in text
            assert "status" not in await c.client.get(WORKLOADS, NS, "misshapen")

    run(scenario())


FOREIGN = {"status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_a_refused_admission_is_one_event_and_backs_off() -> None:
    """A ClusterQueue may have 64 checks, a Workload's status holds 8 of them."""

    async def scenario() -> None:
        async with cluster() as c:
            checks = [{"name": f"check-{number}"} for number in range(9)]
            await c.queues(admissionChecksStrategy={"admissionChecks": checks})
            for check in checks:
                await c.create(
                    ADMISSION_CHECKS,
                    {**API, "kind": "AdmissionCheck", "metadata": check, "spec": {"controllerName": "x/y"}},
                )
                status = {"conditions": [{**FOREIGN, "type": "Active"}]}
                await c.client.patch(ADMISSION_CHECKS, "", check["name"], {"status": status}, subresource="status")
            await c.submit("a")
            await asyncio.sleep(8)  # four tries
            await c.until(lambda: _severities(c, "job-a", "QueueingRefused"), ["Warning"])
            (text,) = await _texts(c, "job-a", "QueueingRefused")
            assert "status.admissionChecks" in text
            spec = {"admissionChecksStrategy": {"admissionChecks": checks[:8]}}
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": spec})
            await c.until(lambda: _reserved(c, "a"), True, 60)

    run(scenario())


def test_a_refused_admission_holds_no_quota() -> None:
    """The Workload has as many conditions as the API accepts; pending ones behind it are not kept out."""

    async def scenario() -> None:
        async with cluster() as c:
            name = await _held_back(c)
            await _condition_types(c, name, 16)
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "None"}})
            await asyncio.sleep(4)
            await c.submit("b")
            await c.until(c.running, ["b"])

    run(scenario())


def test_a_foreign_condition_may_have_an_empty_message() -> None:
    """It is written back with its message, since the API refuses a condition without one."""

    async def scenario() -> None:
        async with cluster() as c:
            name = await _held_back(c)
            status = {"conditions": [{**FOREIGN, "type": "Seen"}]}
            await c.client.patch(WORKLOADS, NS, name, {"status": status}, subresource="status")
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "None"}})
            await c.until(c.running, ["a"])
            assert await c.condition("a", "Seen") == ("True", "X", "")

    run(scenario())


@VIRTUAL_TIME
def test_a_refused_pending_reason_backs_off_across_queue_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A change of the queue starts no additional retry."""

    def tries() -> int:
        text = "the reason of a pending Workload could not be written"
        return sum(record.message == text for record in caplog.records)

    async def quota(c: Cluster, cpu: str) -> None:
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [_cpu(cpu)]}]}
        await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"resourceGroups": [group]}})

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1", stopPolicy="Hold")
            await c.submit("a", "50")
            await c.until(lambda: _has_workload(c, "a"), True)
            name = (await c.workload("a"))["metadata"]["name"]
            await _condition_types(c, name, 16)
            await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "None"}})
            for number in range(40):
                await quota(c, str(1 + number))
                await asyncio.sleep(0.2)
            assert 2 <= tries() <= 6  # at 0, 1, 3 and 7 s
            await _condition_types(c, name, 10)
            await c.until(lambda: _reason(c, "a"), "ExceedsMaxQuota", seconds=10)

    run(scenario())


def _cpu(quota: str) -> dict[str, str]:
    return {"name": "cpu", "nominalQuota": quota}


async def _condition_types(c: Cluster, workload: str, count: int) -> None:
    """Wait until these, and no others, are the conditions of a Workload."""
    conditions = [{**FOREIGN, "type": f"T{number}"} for number in range(count)]
    await c.client.patch(WORKLOADS, NS, workload, {"status": {"conditions": conditions}}, subresource="status")


async def _held_back(c: Cluster) -> str:
    """The name of the Workload of Job `a`, whose queue is held."""
    await c.queues("1", stopPolicy="Hold")
    await c.submit("a")
    await c.until(lambda: _has_workload(c, "a"), True)
    return str((await c.workload("a"))["metadata"]["name"])


async def _has_workload(c: Cluster, job: str) -> bool:
    return any(w["metadata"]["ownerReferences"][0]["name"] == job for w in await c.client.list(WORKLOADS, NS))


async def _reserved(c: Cluster, job: str) -> bool:
    found = await c.condition(job, "QuotaReserved")
    return found is not None and found[0] == "True"

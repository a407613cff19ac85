"""Notifications of `sluice up`: a command and a signed webhook learn of ends, deactivations and preemptions, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES
from tests.local.cluster.conftest import Up
from tests.local.cluster.work import ended, job, running
from tests.signed_requests import Receiver, receiving
from tests.waiting import until

SECRET = "of-the-test"
CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {{timeout: 8s, requeuingStrategy: {{backoffLimitCount: 0}}}}
notifications:
  command: [sh, -c, 'echo "$SLUICE_EVENT_TYPE $SLUICE_EVENT_JOB" >>{events}']
  webhook: {{url: "{url}", secretFile: {secret}}}
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(SECRET, refusals=1) as receiver:
        yield receiver


def urgent(name: str) -> dict[str, Any]:
    made: dict[str, Any] = job(name, "true")
    made["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    return made


async def test_each_event_reaches_command_and_webhook_and_is_not_repeated_by_a_restart(
    start: Callable[..., Up], receiver: Receiver, tmp_path: Path
) -> None:
    events, secret, config = tmp_path / "events", tmp_path / "secret", tmp_path / "config.yaml"
    secret.write_text(SECRET)
    config.write_text(CONFIG.format(events=events, url=receiver.url, secret=secret))
    flags = ["--cpu", "2", "--memory", "2Gi", "--config", str(config)]
    expected = [
        "JobSucceeded good",
        "JobFailed bad",
        "JobDeactivated stuck",
        "JobPreempted long",
        "JobSucceeded urgent",
    ]
    received: list[dict[str, Any]] = receiver.received
    up = start(*flags)
    async with up.client() as client:
        await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 9})
        lower = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
        await client.patch(CLUSTER_QUEUES, "", "cluster-queue", lower)
        for name, command in (("good", "true"), ("bad", "exit 3")):
            await client.create(JOBS, "default", job(name, command, backoffLimit=0))
            await ended(client, name, "Complete" if name == "good" else "Failed")
        stuck: dict[str, Any] = job("stuck", "true")
        stuck["spec"]["template"]["spec"]["containers"][0]["command"] = ["/no/such/program"]
        await client.create(JOBS, "default", stuck)
        await until(lambda: "JobDeactivated stuck" in events.read_text(), "stuck is deactivated")
        await client.create(JOBS, "default", job("long", "sleep 600"))
        await running(client, "long")
        await client.create(JOBS, "default", urgent("urgent"))
        await ended(client, "urgent")
        await until(lambda: sorted(events.read_text().splitlines()) == sorted(expected), "all events")
        await until(lambda: len({notice["id"] for notice in received}) == len(expected), "all requests")
    assert up.stop() == 0
    assert received[0] == received[1]  # the first request was refused
    preempted = next(notice for notice in received if notice["type"] == "JobPreempted")
    assert preempted["message"] == "for priority 9 of ClusterQueue cluster-queue"
    deactivated = next(notice for notice in received if notice["type"] == "JobDeactivated")
    limit = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    assert deactivated["message"] == limit
    assert deactivated["succeededPods"] == 0
    assert deactivated["failedPods"] is not None
    causes = {notice["job"]: notice["cause"] for notice in received}
    assert causes.pop("stuck").startswith("no such program: /no/such/program")
    assert causes == {"good": "", "bad": "exit 3", "long": "", "urgent": ""}
    second = start(*flags)
    async with second.client() as client:
        await client.create(JOBS, "default", job("after", "true"))
        await ended(client, "after")
        await until(lambda: "JobSucceeded after" in events.read_text(), "the next event")
    assert len(events.read_text().splitlines()) == len(expected) + 1
    assert not any(SECRET in line for line in [*up.lines, *second.lines])

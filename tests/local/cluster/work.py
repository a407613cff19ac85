"""Jobs that run a shell command, and waits for their states."""

from __future__ import annotations

from job_controller.model import Job
from queue_manager.api.api_resources import JOBS
from queue_manager.engine.rest_client import RestClient
from tests.waiting import until


def job(name: str, command: str, **spec: object) -> dict[str, object]:
    container = {"name": "main", "image": "local", "command": ["sh", "-c", command]}
    return {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {
            "suspend": True,
            **spec,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{**container, "resources": {"requests": {"cpu": "100m"}}}],
                }
            },
        },
    }


async def job_named(client: RestClient, name: str) -> Job:
    return await client.get(JOBS, "default", name, type=Job)


def has(job: Job, condition: str) -> bool:
    return any(c.type == condition and c.is_true for c in job.status.conditions)


async def ended(client: RestClient, name: str, condition: str = "Complete") -> Job:
    async def so() -> bool:
        return has(await job_named(client, name), condition)

    await until(so, f"{name} is {condition}")
    return await job_named(client, name)


async def running(client: RestClient, name: str) -> None:
    async def so() -> bool:
        return (await job_named(client, name)).status.ready == 1

    await until(so, f"{name} runs")

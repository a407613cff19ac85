"""A client for Python programs: submit a Job to a queue, follow it, wait for its end, read its logs, cancel it.

    >>> from queue_manager.client import Client, JobFailed
    >>> client = Client.from_kubeconfig()
    >>> main = {"name": "main", "image": "local", "command": ["echo", "hello"]}
    >>> template = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    >>> hello = {"metadata": {"generateName": "hello-"}, "spec": {"backoffLimit": 0, "template": template}}
    >>> job = client.submit(hello, queue="user-queue")
    >>> client.wait(job, timeout=60).status.succeeded
    1
    >>> client.logs(job)
    'hello\\n'
    >>> main["command"] = ["sh", "-c", "echo boom; exit 3"]
    >>> try:
    ...     client.wait(client.submit(hello, queue="user-queue"), timeout=60)
    ... except JobFailed as error:
    ...     print(error.cause)
    exit 3: boom

Jobs are `V1Job` objects of the official client (package `kubernetes`), or dicts with the fields of a manifest; what
the client returns are `V1Job` objects. It works with every connection that the official client can make, and against
`sluice up` as well as against a real cluster. All calls block; in a coroutine use `await asyncio.to_thread(client.wait,
job)`. A client may be used from many threads.

Times are in seconds. Errors of the API server are the official client's `ApiException`, for example status 422 for an
invalid Job; all others are in `errors`.
"""

from queue_manager.client.client import Client
from queue_manager.client.errors import (
    Error,
    JobDeactivated,
    JobDeleted,
    JobFailed,
    JobNotFound,
    NeverStarts,
    NoLogs,
    Timeout,
)
from queue_manager.client.job_update import JobUpdate
from queue_manager.visibility.job_states import JobState

__all__ = [
    "Client",
    "Error",
    "JobDeactivated",
    "JobDeleted",
    "JobFailed",
    "JobNotFound",
    "JobState",
    "JobUpdate",
    "NeverStarts",
    "NoLogs",
    "Timeout",
]

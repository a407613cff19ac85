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

A duration is a number of seconds, or a text such as "90s" or "1h30m". All errors of the cluster are subclasses of
`Error`: what the API server refuses is RequestFailed, for example with status 422 for an invalid Job, and a server that
does not answer is ClusterUnreachable. A wrong argument is a ValueError or a TypeError.
"""

from queue_manager.client.client import Client
from queue_manager.client.errors import (
    ClusterUnreachable,
    Error,
    JobDeactivated,
    JobDeleted,
    JobFailed,
    JobNotFound,
    NeverStarts,
    NoLogs,
    RequestFailed,
    Timeout,
)
from queue_manager.client.job_update import JobUpdate
from queue_manager.durations import Duration
from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.pod_failures import Failure

__all__ = [
    "Client",
    "ClusterUnreachable",
    "Duration",
    "Error",
    "Failure",
    "JobDeactivated",
    "JobDeleted",
    "JobFailed",
    "JobNotFound",
    "JobState",
    "JobUpdate",
    "NeverStarts",
    "NoLogs",
    "RequestFailed",
    "Timeout",
]

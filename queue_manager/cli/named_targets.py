"""Resolves the Jobs and queues that a command names, and patches them.

A Job is given as NAME or NAMESPACE/NAME; the name of its Workload is accepted too. A queue is given as the NAME of a
LocalQueue in the namespace, or as cq/NAME for a ClusterQueue. What `-o name` prints is accepted: job/NAME,
job/NAMESPACE/NAME, localqueue/NAME, clusterqueue/NAME. So a namespace called "job" has to be given with -n.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from job_controller.model import Job, Key, Object
from queue_manager.api import keys
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS, Resource
from queue_manager.api.types import LocalQueue, Namespace, Workload
from queue_manager.cli.connection import read_default_namespace
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.engine.rest_client import O, RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.deactivated_jobs import DeactivatedJob
from queue_manager.visibility.job_states import JobRow, workloads_by_job
from queue_manager.visibility.similar_names import did_you_mean, similar_names, suggestion

JOB_PREFIXES = ("job/", "job.batch/")
LOCAL_QUEUE_PREFIX = "localqueue/"
CLUSTER_QUEUE_PREFIXES = ("cq/", "clusterqueue/")
FIELD_MANAGER = "sluice"

Row = TypeVar("Row", JobRow, DeactivatedJob)


@dataclass(frozen=True, slots=True)
class JobTarget:
    """One Job that a command refers to. The Workload is None before it is queued, the Job once it is deleted."""

    job: Job | None
    workload: Workload | None

    @property
    def key(self) -> Key:
        """Namespace and name of the Job, even if only its Workload exists."""
        if self.job is not None:
            return self.job.metadata.key
        if self.workload is None:
            raise ValueError("neither a Job nor a Workload")
        owner = self.workload.metadata.controller
        return Key(self.workload.metadata.namespace, owner.name if owner is not None else self.workload.metadata.name)


@dataclass(frozen=True, slots=True)
class QueueTarget:
    """A queue that a command refers to."""

    resource: Resource
    key: Key

    @property
    def is_cluster_queue(self) -> bool:
        """Whether this is a ClusterQueue; otherwise it is a LocalQueue."""
        return self.resource == CLUSTER_QUEUES

    @property
    def text(self) -> str:
        """Format the queue for sentences."""
        return f"{self.resource.kind} {self.key}"

    def argument(self, default_ns: str) -> str:
        """Format the queue as a command-line argument. `default_ns`: the default namespace, which is left out."""
        if self.is_cluster_queue:
            return f"cq/{self.key.name}"
        return self.key.name + (f" -n {self.key.namespace}" if self.key.namespace != default_ns else "")


def key_of(name: str, namespace: str) -> Key:
    """Parse JOB. Raises CommandRefused for an invalid name, which could otherwise change the path of a request."""
    short = next((name.removeprefix(prefix) for prefix in JOB_PREFIXES if name.startswith(prefix)), name)
    head, slash, tail = short.partition("/")
    if not head or (slash and (not tail or "/" in tail)):
        raise CommandRefused(f'"{name}" is not a name; use NAME or NAMESPACE/NAME', EXIT_NEVER)
    return Key(head, tail) if slash else Key(namespace, head)


def queue_of(name: str, namespace: str, *, cluster_queue: bool = False) -> QueueTarget:
    """Parse QUEUE. Raises CommandRefused for an invalid name."""
    short = next((name.removeprefix(p) for p in CLUSTER_QUEUE_PREFIXES if name.startswith(p)), None)
    if short is None and cluster_queue:
        short = name
    if short is not None:
        if not short or "/" in short:
            raise CommandRefused(f'"{name}" is not a ClusterQueue; use cq/NAME', EXIT_NEVER)
        return QueueTarget(CLUSTER_QUEUES, Key("", short))
    return QueueTarget(LOCAL_QUEUES, key_of(name.removeprefix(LOCAL_QUEUE_PREFIX), namespace))


async def find_all(client: RestClient, names: Sequence[str], namespace: str, change: str = "") -> list[JobTarget]:
    """Return the named Jobs in the given order without duplicates.

    Raises CommandRefused if one does not exist. `change`: what the command does to them, such as "cancelled": of
    several names, the refusal then says that none was.
    """
    try:
        return [await find(client, key) for key in dict.fromkeys(key_of(name, namespace) for name in names)]
    except CommandRefused as refusal:
        if change and len(set(names)) > 1:
            refusal.effect = f"nothing was {change}"
        raise


async def find(client: RestClient, key: Key) -> JobTarget:
    """Return the Job of this name, or of the Workload of this name. Raises CommandRefused if neither exists.

    The Job is read again after its Workload, so that it is never older than that (see `visibility.job_states`).
    """
    job = await get_or_none(client, JOBS, key, Job)
    workload = await (workload_of(client, job) if job is not None else get_or_none(client, WORKLOADS, key, Workload))
    if workload is not None:
        return JobTarget(await _job_of(client, workload), workload)
    if job is None:
        jobs = await _visible_jobs(client, key.namespace)
        is_elsewhere = any(other.name == key.name for other in jobs)
        raise CommandRefused(await _missing(client, key, jobs), EXIT_NEVER, missing=None if is_elsewhere else key)
    return JobTarget(job, None)


async def get_or_none(client: RestClient, resource: Resource, key: Key, type: type[O]) -> O | None:
    """Return the object, or None if it does not exist."""
    try:
        return await client.get(resource, *key, type=type)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


async def workload_of(client: RestClient, job: Job) -> Workload | None:
    """Find the Workload by the job-uid label, or by owner reference if another client created it without the label."""
    uid, namespace = job.metadata.uid, job.metadata.namespace
    found = await client.list(WORKLOADS, namespace, label_selector=f"{keys.JOB_UID}={uid}", type=Workload)
    return workloads_by_job(found or await client.list(WORKLOADS, namespace, type=Workload)).get(uid)


async def _job_of(client: RestClient, workload: Workload) -> Job | None:
    """Return the Job that controls the Workload. A Job of the same name with another UID is ignored."""
    owner = workload.metadata.controller
    if owner is None:
        return None
    job = await get_or_none(client, JOBS, Key(workload.metadata.namespace, owner.name), Job)
    return job if job is not None and job.metadata.uid == owner.uid else None


async def _visible_jobs(client: RestClient, namespace: str) -> list[Key]:
    """Return the Jobs of the cluster, or of the namespace if the user may not list all namespaces."""
    try:
        jobs = await client.list(JOBS, type=Job)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        jobs = await client.list(JOBS, namespace, type=Job)
    return [job.metadata.key for job in jobs]


async def _missing(client: RestClient, key: Key, jobs: Sequence[Key]) -> str:
    text = f"no Job {key.name} in namespace {key.namespace}"
    elsewhere = [str(other) for other in jobs if other.name == key.name]
    if elsewhere:
        return f"{text}; there is {', '.join(elsewhere)}"
    near = did_you_mean(key.name, [other.name for other in jobs if other.namespace == key.namespace])
    return f"{text}; {near or await unknown_namespace(client, key.namespace) or '`sluice ps` lists them all'}"


async def unknown_namespace(client: RestClient, namespace: str) -> str:
    """Say that a namespace does not exist, with similar names; "" if it does, or if the user may not list them."""
    names = [found.metadata.name for found in await list_permitted(client, NAMESPACES, Namespace) or ()]
    if not names or not namespace or namespace in names:
        return ""
    hint = did_you_mean(namespace, names)
    return f"namespace {namespace} does not exist" + (f"; {hint}" if hint else "")


async def check_namespace(client: RestClient, namespace: str | None) -> None:
    """Raise CommandRefused if this namespace, in which nothing was found, does not exist. None: all namespaces."""
    text = await unknown_namespace(client, namespace or "")
    if text:
        raise CommandRefused(text, EXIT_NEVER)


async def of_queue(client: RestClient, rows: list[Row], args: argparse.Namespace, namespace: str) -> list[Row]:
    """Return the rows of the queue given by -q, or all rows. Raises CommandRefused if the queue does not exist.

    `namespace`: that of the rows, "" for all; no other is read.
    """
    if not args.queue:
        return rows
    queue = queue_of(args.queue, args.namespace or "")
    try:
        local = await client.list(LOCAL_QUEUES, queue.key.namespace or namespace, type=LocalQueue)
    except ApiError as error:
        if not error.is_forbidden or queue.is_cluster_queue:
            raise
        return [row for row in rows if _names(queue, row)]  # the user may not read the queue, so it may exist
    if queue.is_cluster_queue:
        feeds = {other.metadata.key for other in local if other.spec.cluster_queue == queue.key.name}
    else:
        feeds = {other.metadata.key for other in local if other.metadata.name == queue.key.name}
    chosen = [row for row in rows if Key(row.namespace, row.queue) in feeds or _names(queue, row)]
    if not chosen and not feeds and not (queue.is_cluster_queue and await _may_exist(client, queue)):
        raise CommandRefused(await missing_queue(client, queue, read_default_namespace(args)), EXIT_NEVER)
    return chosen


async def _may_exist(client: RestClient, queue: QueueTarget) -> bool:
    """Whether a queue exists, or the user may not read it."""
    try:
        return await get_or_none(client, queue.resource, queue.key, Object) is not None
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return True


def _names(queue: QueueTarget, row: JobRow | DeactivatedJob) -> bool:
    """Whether a row names the queue, which may not exist."""
    if queue.is_cluster_queue:  # of a Job whose LocalQueue was deleted the admission alone says that
        return isinstance(row, JobRow) and row.cluster_queue == queue.key.name
    return queue.key.name == row.queue and queue.key.namespace in ("", row.namespace)


async def check_local_queue(client: RestClient, key: Key) -> None:
    """Raise CommandRefused if this LocalQueue does not exist. Not being allowed to read it is not an error."""
    queue = QueueTarget(LOCAL_QUEUES, key)
    if not await _may_exist(client, queue):
        raise CommandRefused(await missing_queue(client, queue, key.namespace), EXIT_NEVER)


async def missing_queue(client: RestClient, queue: QueueTarget, default_ns: str) -> str:
    """Return the message about a queue that does not exist, with suggestions of similar queues."""
    local = await _list_visible(client, LOCAL_QUEUES)
    cluster = await _list_visible(client, CLUSTER_QUEUES)
    text = f"{queue.resource.kind} {queue.key.name} does not exist"
    text += f" in namespace {queue.key.namespace}" if queue.key.namespace else ""
    near = [other.argument(queue.key.namespace or default_ns) for other in similar_queues(queue, [*local, *cluster])]
    unknown = "" if near else await unknown_namespace(client, queue.key.namespace)
    return f"{text}; {suggestion(near) or unknown or '`sluice queues` lists them all'}"


async def _list_visible(client: RestClient, resource: Resource) -> list[QueueTarget]:
    trees = await list_permitted(client, resource, dict) or []
    return [
        QueueTarget(resource, Key(tree["metadata"].get("namespace", ""), tree["metadata"]["name"])) for tree in trees
    ]


def similar_queues(queue: QueueTarget, others: Sequence[QueueTarget]) -> list[QueueTarget]:
    """Return queues of the same name, of either kind and in any namespace; else those of the three nearest names."""
    same = [other for other in others if other.key.name == queue.key.name]
    names = [other.key.name for other in others if other.resource == queue.resource] or [o.key.name for o in others]
    near = similar_names(queue.key.name, names)
    return same or [other for name in near for other in others if other.key.name == name]


async def patch(client: RestClient, resource: Resource, key: Key, change: object, *, dry_run: bool) -> None:
    """Send a merge patch as `kubectl patch --type merge` does; with `dry_run` the API server only validates it."""
    await client.patch(resource, *key, change, field_manager=FIELD_MANAGER, dry_run=dry_run)

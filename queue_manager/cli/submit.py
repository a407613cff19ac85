"""`sluice submit`: all Jobs of the files are checked by the API server before the first is created."""

from __future__ import annotations

import argparse
import asyncio
import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from job_controller.model import Job, Key
from queue_manager.api import labels
from queue_manager.api.types import ClusterQueue, LocalQueue, ResourceFlavor
from queue_manager.cli import manifests, output
from queue_manager.cli.connection import NOT_LOGGED_IN, connect, home_of
from queue_manager.cli.exits import EXIT_ERROR, EXIT_NEVER, EXIT_OK, Refusal
from queue_manager.cli.manifests import Manifest
from queue_manager.cli.targets import check_local_queue
from queue_manager.engine.client import Client
from queue_manager.engine.resources import CLUSTER_QUEUES, COHORTS, JOBS, LOCAL_QUEUES, RESOURCE_FLAVORS
from queue_manager.engine.transport import ApiError, Request, Response
from queue_manager.visibility.consequences import queue_obstacle
from queue_manager.visibility.verdict import never, without_quota


@dataclass(frozen=True, slots=True)
class Submitted:
    namespace: str
    name: str
    queue: str
    note: str
    never: bool = False  # it can never start as things are


WAITS = "waits in its queue"
TOO_MANY, SERVER_FAILED = 429, 500

COLUMNS = (
    output.Column("NAMESPACE", lambda row: row.namespace),
    output.Column("NAME", lambda row: row.name),
    output.Column("QUEUE", lambda row: row.queue or "-"),
    output.Column("NOTE", lambda row: row.note, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    found = [manifest for file in args.file for manifest in manifests.read(file)]
    if not found:
        raise Refusal(f"{', '.join(args.file)}: no manifest in it", EXIT_NEVER)
    jobs = [(manifest, prepare(manifest, args.queue)) for manifest in found]
    rows = asyncio.run(_submit(args, jobs))
    output.show(args.output, COLUMNS, rows, "nothing submitted")
    return EXIT_NEVER if any(row.never for row in rows) else EXIT_OK


async def _submit(args: argparse.Namespace, jobs: list[tuple[Manifest, dict[str, Any]]]) -> list[Submitted]:
    home = home_of(args)
    namespace = args.namespace or home
    async with connect(args.kubeconfig, args.context) as client:
        for found in sorted(_namespaces(jobs, args.queue, namespace)):
            await check_local_queue(client, Key(found, args.queue))
        return await submit(client, jobs, namespace, home)


def _namespaces(jobs: Iterable[tuple[Manifest, dict[str, Any]]], queue: str | None, namespace: str) -> set[str]:
    """Where the queue of the command line is to be found. A queue that only manifests name may come later."""
    metas = [job["metadata"] for _, job in jobs if queue]
    return {str(meta.get("namespace") or namespace) for meta in metas if _queue_of(meta) == queue}


def _queue_of(meta: dict[str, Any]) -> object:
    marks = meta.get("labels")
    return marks.get(labels.QUEUE_NAME) if isinstance(marks, dict) else None


def prepare(manifest: Manifest, queue: str | None) -> dict[str, Any]:
    """The Job as it will be sent, but for its namespace: with the queue of the command line where it names none."""
    tree = copy.deepcopy(manifest.tree)
    kind = f"{tree.get('apiVersion')}/{tree.get('kind')}"
    if kind != "batch/v1/Job":
        raise Refusal(f"{manifest.place('kind')}: only batch/v1 Jobs can be submitted, this is {kind}", EXIT_NEVER)
    meta = tree.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise Refusal(f"{manifest.place('metadata')}: metadata is a mapping with a name", EXIT_NEVER)
    if queue:
        marks = meta.get("labels") or {}
        if isinstance(marks, dict):
            meta["labels"] = {labels.QUEUE_NAME: queue, **marks}
    return tree


async def submit(
    client: Client, jobs: list[tuple[Manifest, dict[str, Any]]], namespace: str = "default", home: str = "default"
) -> list[Submitted]:
    """Check every Job (server-side dry run, unknown fields refused), then create them in order.

    `namespace` is for those that name none; `home` the one that commands mean where none is named.
    Raises Refusal with all that is wrong, each with its file and line, before anything is created.
    """
    for _, job in jobs:
        job["metadata"]["namespace"] = job["metadata"].get("namespace") or namespace
    problems, code = list(_twice(jobs)), EXIT_NEVER
    for manifest, job in jobs:
        answer = await _post(client, job, dry_run=True)
        if answer.status == NOT_LOGGED_IN:  # no word about this Job or another
            raise ApiError.of(answer.status, answer.body)
        if answer.status >= 300:
            problems += explain(manifest, answer)
            code = code if _is_refusal(answer.status) else EXIT_ERROR
    if problems:
        raise Refusal("\n  ".join(["nothing was submitted:", *problems]), code)
    judge = await Judge.read(client, {job["metadata"]["namespace"] for _, job in jobs})
    rows: list[Submitted] = []
    for manifest, job in jobs:
        answer = await _post(client, job, dry_run=False)
        if answer.status >= 300:
            done = f"; already submitted: {', '.join(row.name for row in rows)}" if rows else ""
            raise Refusal("\n  ".join([f"stopped{done}:", *explain(manifest, answer)]))
        rows.append(judge.row(msgspec.json.decode(answer.body, type=Job), home))
    return rows


def _is_refusal(status: int) -> bool:
    """Whether it is the Job that is wrong; else the server cannot say now, and another time it may be taken."""
    return status < SERVER_FAILED and status != TOO_MANY


def _twice(jobs: Sequence[tuple[Manifest, dict[str, Any]]]) -> Iterator[str]:
    """Names that are given to more than one Job: no dry run sees that."""
    first: dict[tuple[str, str], Manifest] = {}
    for manifest, job in jobs:
        meta = job["metadata"]
        key = (str(meta["namespace"]), str(meta.get("name") or ""))
        known = first.setdefault(key, manifest)
        if key[1] and known is not manifest:
            yield f"{manifest.place('metadata.name')}: {key[1]} is named by {known.place('metadata.name')} already"


async def _post(client: Client, job: dict[str, Any], *, dry_run: bool) -> Response:
    query = {"fieldValidation": "Strict", "fieldManager": "sluice-submit"}
    if dry_run:
        query["dryRun"] = "All"
    path = JOBS.path(str(job["metadata"]["namespace"]))
    return await client.transport.request(Request("POST", path, query=query, body=orjson.dumps(job)))


def explain(manifest: Manifest, answer: Response) -> list[str]:
    """One line for each cause, at the line of the field it names."""
    error = ApiError.of(answer.status, answer.body)
    causes = (error.body.get("details") or {}).get("causes") or []
    lines = [
        f"{manifest.place(cause.get('field', ''))}: {cause.get('field')}: {cause.get('message')}" for cause in causes
    ]
    return list(dict.fromkeys(lines)) or [f"{manifest.place('metadata.name')}: {error.message}"]


class Judge:
    """Says of a submitted Job what will become of it, by the queues and flavors of this moment."""

    def __init__(
        self,
        local: Sequence[LocalQueue] = (),
        cluster: Sequence[ClusterQueue] | None = (),
        flavors: Sequence[ResourceFlavor] = (),
        *,
        cohorts: bool = False,
    ) -> None:
        """`cohorts`: there are Cohorts with quotas of their own, so what can be borrowed is not known here.

        Without ClusterQueues (None: they may not be seen) it goes by the LocalQueues alone.
        """
        self._local = {queue.metadata.key: queue for queue in local}
        self._cluster = None if cluster is None else {queue.metadata.name: queue for queue in cluster}
        self._flavors = {flavor.metadata.name: flavor for flavor in flavors}
        self._cohorts = cohorts

    @classmethod
    async def read(cls, client: Client, namespaces: Iterable[str]) -> Judge | Silent:
        """One that says nothing of what it may not see (403), or where there are no queues (404)."""
        local: list[LocalQueue] | None = None
        try:
            lists = [await client.list(LOCAL_QUEUES, namespace, type=LocalQueue) for namespace in namespaces]
            local = [queue for some in lists for queue in some]
            return cls(
                local,
                await client.list(CLUSTER_QUEUES, type=ClusterQueue),
                await client.list(RESOURCE_FLAVORS, type=ResourceFlavor),
                cohorts=bool(await client.list(COHORTS)),
            )
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            return Silent() if local is None else cls(local, None)

    def row(self, job: Job, home: str = "default") -> Submitted:
        name = job.metadata.labels.get(labels.QUEUE_NAME, "")
        if not name:
            return Silent().row(job)
        local = self._local.get(Key(job.metadata.namespace, name))
        if self._cluster is None:
            obstacle = queue_obstacle(Key(job.metadata.namespace, name), local, ClusterQueue(), home)
            return Submitted(*job.metadata.key, name, f"waits: {obstacle}" if obstacle else WAITS)
        above = self._cluster.get(local.spec.cluster_queue) if local is not None else None
        if above is not None and not (self._cohorts and above.spec.cohort_name):
            reason = never(job, above, self._cluster.values(), self._flavors)
            if reason:
                return Submitted(*job.metadata.key, name, reason, never=True)
        obstacle = queue_obstacle(Key(job.metadata.namespace, name), local, above, home)
        if obstacle:
            return Submitted(*job.metadata.key, name, f"waits: {obstacle}")
        doubt = without_quota(job, above) if above is not None else ""
        return Submitted(*job.metadata.key, name, doubt or WAITS)


class Silent:
    """Says only what the Job itself says."""

    def row(self, job: Job, _home: str = "") -> Submitted:
        queue = job.metadata.labels.get(labels.QUEUE_NAME, "")
        note = WAITS if queue else "names no queue: starts at once"
        if not queue and job.spec.suspend:
            note = "names no queue and is suspended: somebody must set spec.suspend to false"
        return Submitted(*job.metadata.key, queue, note)

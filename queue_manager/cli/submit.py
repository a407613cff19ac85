"""`sluice submit`: creates the Jobs in files after the API server has validated all of them.

With --replace, a Job whose name is taken is created after the old Job and its pods are gone. An API server finds a
taken name only after it has validated and admitted a Job, so that its dry run proves the new Job before the old one is
deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from typing import Any

import msgspec
import orjson

from job_controller.model import Job, Key
from queue_manager.api import condition_types, keys
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli import job_deletion, manifests, output
from queue_manager.cli.connection import NOT_LOGGED_IN, connect, find_kubeconfig, read_default_namespace
from queue_manager.cli.creation_exit_codes import nothing_created
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.interrupted_creations import Creations
from queue_manager.cli.login_name import name_user, requester, submitter
from queue_manager.cli.machine_formats import MACHINE_FORMS, Namer, job_names
from queue_manager.cli.manifest_refusals import is_taken, refusal_lines
from queue_manager.cli.manifests import Manifest
from queue_manager.cli.named_targets import check_local_queue, get_or_none
from queue_manager.cli.node_reading import fixed_nodes
from queue_manager.cli.queue_reading import read_queues, with_refused_classes
from queue_manager.cli.standard_streams import say
from queue_manager.engine.api_warnings import warnings
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request, Response
from queue_manager.visibility.job_states import is_judged, refusals_in, refused_equivalent
from queue_manager.visibility.obstacles import (
    CREATED,
    Obstacle,
    ReadableQueues,
    further_texts,
    local_queue_of,
    obstacles,
)
from queue_manager.visibility.wait_goals import Outcome, Result


@dataclass(frozen=True, slots=True)
class Submitted:
    """A Job that was created. `note`: that it waits in its queue or starts, or what keeps it from starting."""

    namespace: str
    name: str
    queue: str
    note: str
    never: bool = False  # the Job cannot start unless the Job or its queue is changed
    uid: str = ""
    replaced: bool = False  # an older Job of the name was deleted
    further: list[str] = field(default_factory=list)  # what keeps it from starting beside `note`, if `never`


UNQUEUED = "has no queue: starts immediately"
UNQUEUED_SUSPENDED = "has no queue and is suspended: starts when spec.suspend is set to false"
SCHEDULER_SECONDS = 5.0  # time to wait for the scheduler to try a Job whose verdict is uncertain
POLL_SECONDS = 0.1

COLUMNS = (
    output.TableColumn("NAMESPACE", lambda row: row.namespace),
    output.TableColumn("NAME", lambda row: row.name),
    output.TableColumn("QUEUE", lambda row: row.queue or "-"),
    output.TableColumn("NOTE", lambda row: row.note, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    """Create the Jobs of the manifests and print what was created; return the exit code."""
    creations = Creations()
    try:
        with nothing_created():
            found = [manifest for file in args.file for manifest in manifests.read(file)]
            if not found:
                raise CommandRefused(f"{', '.join(args.file)}: no manifest in it", EXIT_NEVER)
            jobs = [(manifest, prepare(manifest, args.queue)) for manifest in found]
        return asyncio.run(_run(args, jobs, creations))
    except KeyboardInterrupt:
        if text := creations.interrupted():
            say(f"sluice submit: {text}")
        raise


async def _run(args: argparse.Namespace, jobs: list[tuple[Manifest, dict[str, Any]]], creations: Creations) -> int:
    default_ns = read_default_namespace(args)
    user = submitter(find_kubeconfig(args.kubeconfig))
    for _, job in jobs:
        name_user(job["metadata"], user)
    async with connect(args.kubeconfig, args.context) as client:
        with nothing_created():
            rows = await _submit(args, client, jobs, default_ns, creations)
        creations.complete = True
        names = job_names(args.namespace or default_ns)
        if args.wait is None or args.output not in MACHINE_FORMS:
            output.show(args.output, COLUMNS, rows, "nothing submitted", row_type=Submitted, name=names)
        if args.wait is not None:
            return await _wait(args, client, rows, names, default_ns)
    report_never("submit", [row for row in rows if row.never], default_ns)
    return EXIT_NEVER if any(row.never for row in rows) else EXIT_OK


def report_never(command: str, never: Sequence[Submitted | Outcome], default_ns: str) -> None:
    """Report after the output what else keeps Jobs from ever starting, and the command that deletes them."""
    if never:
        sys.stdout.flush()
        report_further(command, never, default_ns)
        keys_of_jobs = [Key(row.namespace, row.name) for row in never]
        say(f"sluice {command}: {deletion_advice(keys_of_jobs, default_ns)}")


def report_further(command: str, never: Sequence[Submitted | Outcome], default_ns: str) -> None:
    """Report the obstacles that follow the first one of each Job, one per line."""
    for row in never:
        name = row.name if row.namespace == default_ns else f"{row.namespace}/{row.name}"
        for text in row.further:
            say(f"sluice {command}: Job {name} also {text}")


def deletion_advice(never: Sequence[Key], default_ns: str) -> str:
    """Return the sentence about Jobs that can never start. `default_ns`: the default namespace, which is left out."""
    what, them = "1 Job was created that can never start as it is", "it"
    if len(never) > 1:
        what, them = f"{len(never)} Jobs were created that can never start as they are", "them"
    names = " ".join(key.name if key.namespace == default_ns else str(key) for key in never)
    return f"{what}; to delete {them}: sluice cancel {names}"


async def _submit(
    args: argparse.Namespace,
    client: RestClient,
    jobs: list[tuple[Manifest, dict[str, Any]]],
    default_ns: str,
    creations: Creations,
) -> list[Submitted]:
    namespace = args.namespace or default_ns
    for found in sorted(_namespaces(jobs, args.queue, namespace)):
        await check_local_queue(client, Key(found, args.queue))
    user = await requester(client, find_kubeconfig(args.kubeconfig)) if args.replace else ""
    return await submit(client, jobs, namespace, default_ns, replace=args.replace, user=user, creations=creations)


async def _wait(
    args: argparse.Namespace, client: RestClient, rows: Sequence[Submitted], names: Namer, default_ns: str
) -> int:
    """Wait until all have ended, and print how; return the exit code of `sluice wait`."""
    from queue_manager.cli import job_waiting  # imports what a plain submit does not need

    sys.stdout.flush()  # the table comes before the progress on standard error
    jobs = {Key(row.namespace, row.name): row.uid for row in rows}
    try:
        limit = args.wait if math.isfinite(args.wait) else None
        ended = await job_waiting.JobWait(client, jobs, default_ns=default_ns).run(limit)
    except asyncio.CancelledError:  # Ctrl-C
        say(f"sluice submit: the Jobs continue; to wait again: sluice wait {' '.join(map(str, jobs))}")
        raise
    if args.output not in MACHINE_FORMS:
        sys.stdout.write("\n")
    output.show(args.output, job_waiting.COLUMNS, ended, "", row_type=Outcome, name=names)
    report_never("submit", [outcome for outcome in ended if outcome.result == Result.NEVER], default_ns)
    return job_waiting.exit_code(ended)


def _namespaces(jobs: Iterable[tuple[Manifest, dict[str, Any]]], queue: str | None, namespace: str) -> set[str]:
    """Return the namespaces that need the queue given by -q. Queues named only in manifests may be created later."""
    metas = [job["metadata"] for _, job in jobs if queue]
    return {str(meta.get("namespace") or namespace) for meta in metas if _queue_of(meta) == queue}


def _queue_of(meta: dict[str, Any]) -> object:
    marks = meta.get("labels")
    return marks.get(keys.QUEUE_NAME) if isinstance(marks, dict) else None


def prepare(manifest: Manifest, queue: str | None) -> dict[str, Any]:
    """Return the Job to send, without its namespace. `queue` applies to a Job without a queue name."""
    tree = copy.deepcopy(manifest.tree)
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if (version, kind) != ("batch/v1", "Job"):
        missing = " and ".join(name for name in ("apiVersion", "kind") if not tree.get(name))
        what = f"has no {missing}" if missing else f"is {version}/{kind}"
        raise CommandRefused(f"{manifest.place('kind')}: only batch/v1 Jobs can be submitted, this {what}", EXIT_NEVER)
    meta = tree.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise CommandRefused(f"{manifest.place('metadata')}: metadata is a mapping with a name", EXIT_NEVER)
    if not isinstance(meta.get("namespace", ""), str | None):  # an unquoted `n` is a boolean in YAML, as for kubectl
        where = manifest.place("metadata.namespace")
        raise CommandRefused(f"{where}: metadata.namespace is not a string; put it in quotes", EXIT_NEVER)
    if queue:
        marks = meta.get("labels") or {}
        if isinstance(marks, dict):
            meta["labels"] = {keys.QUEUE_NAME: queue, **marks}
    return tree


async def submit(
    client: RestClient,
    jobs: list[tuple[Manifest, dict[str, Any]]],
    namespace: str = "default",
    default_ns: str = "default",
    *,
    replace: bool = False,
    user: str = "",
    creations: Creations | None = None,
) -> list[Submitted]:
    """Validate every Job (server-side dry run, fieldValidation=Strict), then create them in order.

    `namespace` applies to Jobs without a namespace; `default_ns` is the default namespace of commands. With `replace`,
    a taken name is not a problem; `user`: who replaces, for the history. Warnings of the server are printed on standard
    error as they arrive. `creations` is kept up to date. Raises CommandRefused before anything is created, with all
    problems and their files and lines.
    """
    progress = creations if creations is not None else Creations()
    for _, job in jobs:
        job["metadata"]["namespace"] = job["metadata"].get("namespace") or namespace
    problems, code = list(_duplicates(jobs)), EXIT_NEVER
    warned: set[str] = set()
    for manifest, job in jobs:
        answer = await _post(client, job, dry_run=True)
        warn(manifest, answer, warned)
        if answer.status == NOT_LOGGED_IN:  # concerns the user, not this Job
            raise ApiError.of(answer.status, answer.body)
        if not answer.is_success and not (replace and is_taken(answer)):
            problems += refusal_lines(manifest, answer)
            code = code if _is_refusal(answer) else EXIT_ERROR
    if problems:
        raise CommandRefused("\n  ".join(["nothing was submitted:", *problems]), code)
    from queue_manager.cli.published_config import published  # imports pydantic: 0.1 s, not for Jobs that are refused

    namespaces = {job["metadata"]["namespace"] for _, job in jobs}
    queues = await read_queues(client, namespaces, await published(client, namespaces))
    created: list[Job] = []
    replaced: set[Key] = set()
    for manifest, job in jobs:
        key = Key(job["metadata"]["namespace"], str(job["metadata"].get("name") or ""))
        progress.requested = key
        answer = await _post(client, job, dry_run=False)
        deleted = replace and is_taken(answer)
        if deleted:
            progress.removing = key
            await remove_old(client, key, user)
            progress.removing = None
            replaced.add(key)
            answer = await _post(client, job, dry_run=False)
        progress.requested = None
        warn(manifest, answer, warned)
        if not answer.is_success:
            done = f"; already submitted: {', '.join(job.metadata.name for job in created)}" if created else ""
            done += f"; the old Job {job['metadata']['name']} is deleted" if deleted else ""
            raise CommandRefused("\n  ".join([f"stopped{done}:", *refusal_lines(manifest, answer)]))
        created.append(msgspec.json.decode(answer.body, type=Job))
        progress.created.append(created[-1].metadata.key)
    rows = await verdicts(client, created, queues, default_ns)
    return [_with_replacement(row) if Key(row.namespace, row.name) in replaced else row for row in rows]


async def remove_old(client: RestClient, key: Key, user: str = "") -> None:
    """Delete the Job of this name with its pods for the user, and wait until they are gone."""

    old = await get_or_none(client, JOBS, key, Job)
    if old is None:
        return
    await job_deletion.announce(client, old, user, keys.REPLACED_BY)
    await job_deletion.delete(client, old)
    await job_deletion.until_gone(client, old, "the new Job is created after that")


def _with_replacement(row: Submitted) -> Submitted:
    return replace_fields(row, note=f"{row.note}; replaced the old Job", replaced=True)


def _is_refusal(answer: Response) -> bool:
    """Whether the status means that the Job is invalid, rather than that the server cannot answer at present."""
    return not ApiError.of(answer.status, answer.body).is_passing


def _duplicates(jobs: Sequence[tuple[Manifest, dict[str, Any]]]) -> Iterator[str]:
    """Yield names that more than one Job uses, which a dry run cannot detect."""
    first: dict[tuple[str, str], Manifest] = {}
    for manifest, job in jobs:
        meta = job["metadata"]
        key = (str(meta["namespace"]), str(meta.get("name") or ""))
        known = first.setdefault(key, manifest)
        if key[1] and known is not manifest:
            yield f"{manifest.place('metadata.name')}: {key[1]} is named by {known.place('metadata.name')} already"


async def _post(client: RestClient, job: dict[str, Any], *, dry_run: bool) -> Response:
    query = {"fieldValidation": "Strict", "fieldManager": "sluice-submit"}
    if dry_run:
        query["dryRun"] = "All"
    path = JOBS.path(str(job["metadata"]["namespace"]))
    return await client.transport.request(Request("POST", path, query=query, body=orjson.dumps(job)))


def warn(manifest: Manifest, answer: Response, warned: set[str]) -> None:
    """Print the server's warnings about a Job on standard error, except those in `warned`."""
    for text in warnings(answer.headers):
        line = f"Warning: {manifest.place('metadata.name')}: {text}"
        if line not in warned:
            warned.add(line)
            say(line)


async def wait_for_verdicts(client: RestClient, jobs: Sequence[Job]) -> tuple[dict[str, Workload], bool]:
    """Return by Job UID the Workloads that the scheduler has tried, after all are tried or SCHEDULER_SECONDS, and
    whether those were not enough.

    Each is the Job's own Workload or another one of the same shape: both can start, or neither can.
    """
    found: dict[str, Workload] = {}
    try:
        async with asyncio.timeout(SCHEDULER_SECONDS):
            for job in jobs:
                found[job.metadata.uid] = await _wait_for_verdict(client, job)
    except TimeoutError:
        return found, True
    except ApiError:  # a user may be allowed to create Jobs but not to read Workloads
        pass
    return found, False


async def _wait_for_verdict(client: RestClient, job: Job) -> Workload:
    selector, namespace, refused = f"{keys.JOB_UID}={job.metadata.uid}", job.metadata.namespace, None
    while True:
        for workload in await client.list(WORKLOADS, namespace, label_selector=selector, type=Workload):
            if is_judged(workload.condition(condition_types.QUOTA_RESERVED)):
                return workload
            if refused is None:  # list only once: a namespace may have many Workloads
                refused = refusals_in(await client.list(WORKLOADS, namespace, type=Workload))
            equivalent = refused_equivalent(workload, refused)
            if equivalent is not None:
                return equivalent
        await asyncio.sleep(POLL_SECONDS)


async def verdicts(client: RestClient, jobs: Sequence[Job], queues: ReadableQueues, default_ns: str) -> list[Submitted]:
    """Return whether submitted Jobs can start. Where only the scheduler can decide, wait for its result."""
    if any(local_queue_of(job, None).name for job in jobs):
        queues = replace_fields(queues, nodes=await fixed_nodes(client))
    found = {job.metadata.uid: list(obstacles(job, None, queues, default_ns)) for job in jobs}
    uncertain = [job for job in jobs if _is_uncertain(job, found[job.metadata.uid], queues)]
    workloads, is_late = await wait_for_verdicts(client, uncertain)
    without = {job.metadata.namespace for job in uncertain if job.metadata.uid not in workloads}
    queues = await with_refused_classes(client, queues, without)  # a Job of a missing class gets no Workload
    for job in uncertain:
        workload = workloads.get(job.metadata.uid)
        found[job.metadata.uid] = list(obstacles(job, workload, queues, default_ns))
        if is_late and workload is None and not found[job.metadata.uid]:
            found[job.metadata.uid] = [_unjudged(_unknown_class(job, queues))]
    return [_row(job, found[job.metadata.uid]) for job in jobs]


def _unjudged(unknown_class: str) -> Obstacle:
    """Return that no scheduler has tried a Job yet, and what its user has to check without reading it."""
    text = f"created; not tried within {SCHEDULER_SECONDS:g} s, so whether it can start is not known"
    check = f"; you may not read whether WorkloadPriorityClass {unknown_class} exists" if unknown_class else ""
    return Obstacle(f"{text}{check}", certain=False)


def _unknown_class(job: Job, queues: ReadableQueues) -> str:
    """Return the priority class of the Job if the user may not list them; else ""."""
    return job.metadata.labels.get(keys.PRIORITY_CLASS, "") if queues.classes is None else ""


def _is_uncertain(job: Job, found: Sequence[Obstacle], queues: ReadableQueues) -> bool:
    """Whether only the scheduler knows if the Job can start."""
    if found:
        return not found[0].certain
    key = local_queue_of(job, None)
    return queues.only_manager_knows(key) or (bool(key.name) and bool(_unknown_class(job, queues)))


def _row(job: Job, found: Sequence[Obstacle]) -> Submitted:
    queue, uid = job.metadata.labels.get(keys.QUEUE_NAME, ""), job.metadata.uid
    if not queue:
        return Submitted(*job.metadata.key, queue, UNQUEUED_SUSPENDED if job.spec.suspend else UNQUEUED, uid=uid)
    if not found:
        return Submitted(*job.metadata.key, queue, CREATED, uid=uid)
    first, further = found[0], further_texts(found)
    return Submitted(*job.metadata.key, queue, first.text, never=first.never, uid=uid, further=further)

"""`sluice ps`: prints one line per Job; `ps_watch` follows changes."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from job_controller.model import Job, Key, Pod
from queue_manager.api import reasons
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.connection import connect, one_namespace, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.job_filter import JobFilter, hidden_text
from queue_manager.cli.machine_formats import job_names
from queue_manager.cli.manager_reading import read_presence
from queue_manager.cli.named_targets import check_namespace, of_queue, queue_of
from queue_manager.cli.node_reading import nodes_for
from queue_manager.cli.permitted_lists import of_all_or_own
from queue_manager.cli.pod_reading import read_troubled_pods
from queue_manager.cli.queue_reading import read_pod_classes, read_queues
from queue_manager.cli.refused_pod_reading import with_refused_pods
from queue_manager.cli.time_texts import deadline, format_time, span
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.visibility.effects_of_changes import queue_obstacle
from queue_manager.visibility.job_causes import of_indexes
from queue_manager.visibility.job_states import (
    AFTER_AN_ATTEMPT,
    AWAITS_NODE,
    JobRow,
    JobState,
    job_rows,
    workloads_by_job,
)
from queue_manager.visibility.manager_presence import notice
from queue_manager.visibility.node_fit import no_node_fits, short_resources
from queue_manager.visibility.obstacles import (
    Obstacle,
    local_queue_of,
    obstacle,
    own_obstacle,
    pod_class,
    pod_class_obstacle,
)
from queue_manager.visibility.running_or_starting import is_between_tries
from queue_manager.visibility.short_messages import cause_first, never_starts, plain

STYLES = {
    JobState.RUNNING: "green",
    JobState.STARTING: "cyan",
    JobState.RESERVED: "cyan",
    JobState.PENDING: "yellow",
    JobState.BACKOFF: "yellow",
    JobState.EVICTED: "yellow",
    JobState.REFUSED: "red",
    JobState.DEACTIVATED: "red",
    JobState.FAILED: "red",
    JobState.SUCCEEDED: "dim",
    JobState.DELETING: "dim",
}
# States that end by themselves, those first for which `sluice explain` says most.
WAITING = (JobState.PENDING, JobState.RESERVED, JobState.BACKOFF, JobState.EVICTED)
NOT_RUNNING = (JobState.PENDING, JobState.RESERVED, JobState.BACKOFF, JobState.SUSPENDED)
QUEUE_REASONS = (reasons.SUSPENDED, reasons.MISCONFIGURED)  # of which the queue says more
NO_JOBS = "no Jobs; to create one: sluice run -- COMMAND, or sluice submit -f FILE"
NO_QUEUE = "in no queue; a user starts it"  # why a Job is Suspended
HELD = (reasons.SUSPENDED, reasons.ADMISSION_GATED)  # held by a user; REASON says so already


def pods(row: JobRow) -> str:
    """Format succeeded and wanted pods, then running and failed ones: `2/4 +1 run`, `0/1 1 failed`."""
    text = f"{row.succeeded}/{row.completions if row.completions is not None else '?'}"
    if row.active:
        text += f" +{row.active}"
    if row.failed:
        text += f" {row.failed} failed"
    return text


def time(row: JobRow) -> str:
    """Format how long a Job ran in all its attempts, or how long it waited if it waits or never ran.

    A Job that holds quota and none of whose pods has started has waited all the time.
    """
    waits = row.state in NOT_RUNNING and row.running_seconds is None
    if row.ran_seconds is not None and not waits and row.has_run:
        return f"{output.duration(row.ran_seconds)} run"
    waited = _waited(row)
    return "-" if waited is None else f"{output.duration(waited)} wait"


def _waited(row: JobRow) -> float | None:
    """All seconds in which a Job did not run, those with quota before its first pod included; None if unknown."""
    parts = [row.waited_seconds] if row.has_run else [row.waited_seconds, row.ran_seconds]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def reason(row: JobRow) -> str:
    """Return the cause of its pods first, then what it led to, then when its backoff ends."""
    if row.state == JobState.SUSPENDED and not row.queue:
        return NO_QUEUE
    text = row.obstacle or plain(
        row.reason,
        row.message,
        attempts=row.budget_attempts,
        equivalent=row.equivalent,
        equivalent_reason=row.equivalent_reason,
        preempted_for=row.preempted_for,
    )
    retry = "" if row.retry_at is None else f"retry at {deadline(row.retry_at, SystemClock().now())}"
    is_over = row.state in AFTER_AN_ATTEMPT
    if row.no_node and not row.cause:
        return never_starts(row.no_node, row.reason, text, row.obstacle)
    cause = f"{row.cause} ({row.no_node})" if row.no_node else row.cause
    why = cause_first(cause, row.reason, row.message, text, is_over=is_over)
    return "; ".join(part for part in (of_indexes(row.failed_indexes, why), retry) if part)


COLUMNS = (
    output.TableColumn("NAMESPACE", lambda row: row.namespace),
    output.TableColumn("NAME", lambda row: row.name),
    output.TableColumn("QUEUE", lambda row: row.queue or "-"),
    output.TableColumn("PRIO", lambda row: str(row.priority), right=True),
    output.TableColumn("STATE", lambda row: row.state, style=lambda row: STYLES.get(row.state, "")),
    output.TableColumn("PODS", pods),
    output.TableColumn("TIME", time, right=True),
    output.TableColumn("CREATED", lambda row: format_time(row.created), wide=True),
    output.TableColumn("ENDED", lambda row: format_time(row.finished), wide=True),
    output.TableColumn("WAITED", lambda row: span(_waited(row)), right=True, wide=True),
    output.TableColumn("RAN", lambda row: span(row.ran_seconds if row.has_run else None), right=True, wide=True),
    output.TableColumn("ATTEMPTS", lambda row: str(row.budget_attempts), right=True, wide=True),
    output.TableColumn("REASON", reason, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    """Print the Jobs of the chosen namespaces and queue, and which command explains one that waits."""
    if args.watch:
        from queue_manager.cli import ps_watch  # imported late: it needs the informers

        return ps_watch.run(args, ps_watch.JobList(COLUMNS, filter_of(args), rows_of_queue))
    now = SystemClock().now()
    rows, without_manager = asyncio.run(rows_and_notice(args, now))
    chosen = filter_of(args).chosen(rows, now)
    age = hidden_text(len(rows) - len(chosen)) if is_default(args) else ""
    default_ns = read_default_namespace(args)
    below = "\n".join(filter(None, (hint(chosen, default_ns), age)))
    names = job_names(args.namespace or default_ns)
    empty = age or empty_message(args)
    output.show(args.output, COLUMNS, chosen, empty, below, notice=without_manager, row_type=JobRow, name=names)
    return EXIT_OK


def filter_of(args: argparse.Namespace) -> JobFilter:
    """Return the filter that --state, --since and --all describe."""
    return JobFilter(frozenset(JobState(word) for word in args.state), args.since, args.all)


def is_default(args: argparse.Namespace) -> bool:
    """Whether the list leaves out Jobs for their age alone."""
    return not (args.state or args.since or args.all)


def hint(rows: Sequence[JobRow], default_ns: str) -> str:
    """Return the line below the table: the command that explains one of the Jobs that wait; "" if none does."""
    candidates = (row for row in rows if row.state in WAITING and row.reason not in HELD)
    waiting = min(candidates, key=lambda row: WAITING.index(row.state), default=None)
    if waiting is None:
        return ""
    name = waiting.name if waiting.namespace == default_ns else f"{waiting.namespace}/{waiting.name}"
    return f"why a Job waits: sluice explain {name}"


def empty_message(args: argparse.Namespace) -> str:
    """Return the sentence that is printed instead of an empty table."""
    where = [f"in state {', '.join(args.state)}"] if args.state else []
    where += [f"of {queue_of(args.queue, '').text}"] if args.queue else []
    where += [f"in namespace {args.namespace}"] if args.namespace else []
    return f"no Jobs {' '.join(where)}" if where else NO_JOBS


async def rows_and_notice(args: argparse.Namespace, now: datetime) -> tuple[list[JobRow], str]:
    """Return the rows of the namespace and queue that the arguments name, of whatever state and age.

    Also the notice about an absent manager if Jobs wait; "" otherwise.
    """
    async with connect(args.kubeconfig, args.context, forbidden=one_namespace(args)) as client:
        rows = await of_all_or_own(lambda namespace: _rows_in(client, namespace, args), args)
        waits = any(row.state in WAITING for row in filter_of(args).chosen(rows, now))
        if not waits:
            return rows, ""
        seen = await read_presence(client, args.namespace or read_default_namespace(args))
        return rows, notice(seen)


async def rows_of_queue(client: RestClient, args: argparse.Namespace) -> list[JobRow]:
    """Read the rows of the namespace and queue that the arguments name."""
    return await _rows_in(client, args.namespace or "", args)


async def _rows_in(client: RestClient, namespace: str, args: argparse.Namespace) -> list[JobRow]:
    rows = await job_table(client, namespace, read_default_namespace(args))
    if not rows:
        await check_namespace(client, args.namespace)
    return await of_queue(client, rows, args, namespace)


async def job_table(client: RestClient, namespace: str = "", default_ns: str = "default") -> list[JobRow]:
    """Return rows of all Jobs of a namespace, or of all namespaces.

    The time is read first, then the Workloads, then the Jobs, as `visibility.job_states` requires.
    """
    now = SystemClock().now()
    workloads = await client.list(WORKLOADS, namespace, type=Workload)
    jobs = await client.list(JOBS, namespace, type=Job)
    pods = await read_troubled_pods(client, jobs, namespace)
    rows = await rows_with_retries(client, jobs, workloads, pods, now)
    rows = await with_refused_pods(client, rows, jobs)
    rows = await _with_nodes(client, rows, jobs, workloads)
    rows = await _with_obstacles(client, rows, jobs, workloads, default_ns)
    return await _with_pod_classes(client, rows, jobs)


async def _with_nodes(
    client: RestClient, rows: list[JobRow], jobs: Sequence[Job], workloads: Sequence[Workload]
) -> list[JobRow]:
    """Add to the rows of Jobs that await a node, or found none, whether one is large enough."""
    if not any(row.state in AWAITS_NODE or short_resources(row.cause) for row in rows):
        return rows
    nodes = await nodes_for(client, (row.cause for row in rows))
    if not nodes:
        return rows
    of, by_uid = {job.metadata.key: job for job in jobs}, workloads_by_job(workloads)

    def judged(row: JobRow) -> JobRow:
        job = of[Key(row.namespace, row.name)]
        workload, awaits = by_uid.get(job.metadata.uid), row.state in AWAITS_NODE
        no_node = no_node_fits(row.cause, job, workload, nodes, awaits_node=awaits)
        return msgspec.structs.replace(row, no_node=no_node)

    return [judged(row) for row in rows]


async def rows_with_retries(
    client: RestClient, jobs: Sequence[Job], workloads: Sequence[Workload], pods: Sequence[Pod], now: datetime
) -> list[JobRow]:
    """Return the rows. The configuration, which decides on the next try, is read only if a Job is between two tries."""
    if not any(is_between_tries(job.status) and not job.spec.suspend for job in jobs):
        return job_rows(jobs, workloads, now, pods)
    # imported late: they import pydantic, 0.1 s, which other lists do not need
    from queue_manager.cli.published_config import published
    from queue_manager.lifecycle.workload_settings import settings_of
    from queue_manager.visibility.eviction_before_replacement import without_vain_retries

    config = await published(client, (job.metadata.namespace for job in jobs))
    if config is None:
        return job_rows(jobs, workloads, now, pods)
    rows = job_rows(jobs, workloads, now, pods, config.job_controller.options())
    by_uid = workloads_by_job(workloads)
    of_jobs = {job.metadata.key: its for job in jobs if (its := by_uid.get(job.metadata.uid)) is not None}
    return without_vain_retries(rows, of_jobs, settings_of(config), now)


async def _with_obstacles(
    client: RestClient, rows: list[JobRow], jobs: Sequence[Job], workloads: Sequence[Workload], default_ns: str
) -> list[JobRow]:
    """Add obstacles to rows of pending Jobs.

    The QuotaReserved condition only says that a queue is inactive or missing; the obstacle adds why, after what keeps
    the Job from ever starting even so. Of Jobs without a Workload the obstacle says why they get none.
    """
    stopped = {Key(row.namespace, row.queue) for row in rows if row.reason in QUEUE_REASONS}
    waiting = {Key(row.namespace, row.name) for row in rows if row.state == JobState.PENDING}
    of_workloads = workloads_by_job(workloads)
    pending = [(job, of_workloads.get(job.metadata.uid)) for job in jobs if job.metadata.key in waiting]
    new = [job for job, workload in pending if workload is None]
    if not stopped and not new:
        return rows
    queues = await read_queues(client, {*(key.namespace for key in stopped), *(job.metadata.namespace for job in new)})
    of_queues = {
        key: queue_obstacle(key, *queues.of(key), default_ns, queues.names(key.namespace))
        for key in stopped
        if queues.local is not None
    }
    of_jobs = {job.metadata.key: obstacle(job, None, queues, default_ns) for job in new}
    for job, workload in pending:
        of_queue = of_queues.get(local_queue_of(job, workload), "")
        if workload is not None and of_queue and (found := own_obstacle(job, workload, queues)) is not None:
            of_jobs[job.metadata.key] = found._replace(text=f"{found.text}; {of_queue}")
    return [msgspec.structs.replace(row, obstacle=_obstacle(row, of_queues, of_jobs)) for row in rows]


async def _with_pod_classes(client: RestClient, rows: list[JobRow], jobs: Sequence[Job]) -> list[JobRow]:
    """Add to rows of pending Jobs without an obstacle that their pods' PriorityClass does not exist.

    The classes are read only if one is named.
    """
    named = {job.metadata.key: job for job in jobs if pod_class(job)}
    asked = {Key(row.namespace, row.name) for row in rows if row.state == JobState.PENDING and not row.obstacle}
    if not named.keys() & asked:
        return rows
    pod_classes = await read_pod_classes(client)
    found = {key: pod_class_obstacle(named[key], pod_classes) for key in named.keys() & asked}

    def judged(row: JobRow) -> JobRow:
        of_class = found.get(Key(row.namespace, row.name))
        return row if of_class is None else msgspec.structs.replace(row, obstacle=of_class.text)

    return [judged(row) for row in rows]


def _obstacle(row: JobRow, of_queues: Mapping[Key, str], of_jobs: Mapping[Key, Obstacle | None]) -> str:
    """Return the obstacle of a row, or "" if the scheduler has reported a reason for this Job itself."""
    found = of_jobs.get(Key(row.namespace, row.name))
    if found is not None and found.certain:
        return found.text
    unexplained = row.state == JobState.PENDING and row.reason in (*QUEUE_REASONS, reasons.PENDING_EVALUATION)
    return of_queues.get(Key(row.namespace, row.queue), "") if unexplained else ""

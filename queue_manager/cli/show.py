"""`sluice show JOB`: prints the state, history, pods and Events of one Job, and what happens next."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from job_controller.model import Key
from queue_manager.api import reasons
from queue_manager.api.api_resources import EVENTS, WORKLOADS
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.connection import connect, find_kubeconfig, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.explanation_reading import position_text, read_explanation
from queue_manager.cli.fitted_table import FittedTable
from queue_manager.cli.last_log_lines import with_log
from queue_manager.cli.named_targets import JobTarget, find, key_of
from queue_manager.cli.node_reading import nodes_for
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.cli.pod_reading import pods_of
from queue_manager.cli.ps import STYLES
from queue_manager.cli.published_config import config_of_file, published
from queue_manager.cli.published_objects import managers_view
from queue_manager.cli.queue_reading import read_queues
from queue_manager.cli.scheduler_input_reading import read_cluster
from queue_manager.cli.standard_streams import printable
from queue_manager.cli.time_texts import ago, deadline, format_time
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.lifecycle.interruptions import Interruption, running_seconds
from queue_manager.lifecycle.pod_causes import decisive_pods
from queue_manager.lifecycle.workload_settings import settings_of
from queue_manager.local.kubeconfig_file import is_of_local_cluster
from queue_manager.visibility.attempt_rows import AttemptRow
from queue_manager.visibility.deactivated_jobs import RESTARTING, is_pod_of
from queue_manager.visibility.history_texts import events_beside, short_object, step_text
from queue_manager.visibility.index_map import MEANING, IndexMap, IndexSign
from queue_manager.visibility.job_causes import cause_of, of_indexes
from queue_manager.visibility.job_history import Step
from queue_manager.visibility.job_states import AFTER_AN_ATTEMPT, is_pending, passed_over_for, refusals_in
from queue_manager.visibility.obstacles import local_queue_of, obstacles, unseen_class
from queue_manager.visibility.pod_attempts import PodRow
from queue_manager.visibility.pod_failures import Failure, newest_failure
from queue_manager.visibility.predictions import PredictionContext
from queue_manager.visibility.short_messages import (
    GAVE_UP,
    cause_first,
    event_reason,
    gave_up,
    never_starts,
    plain,
    says,
)
from queue_manager.visibility.show_record import JobView, job_view
from queue_manager.visibility.shown_causes import end_of_attempt
from queue_manager.visibility.wire_types import Pod

INDEXES_PER_LINE = 50


def run(args: argparse.Namespace) -> int:
    """Print the view of one Job. Raises CommandRefused if neither the Job nor its Workload exists."""
    view = asyncio.run(_view(args))
    most = None if args.output == "wide" else MAX_ROWS
    output.show_record(args.output, view, lambda: render(view, SystemClock().now(), most, history_command(args, view)))
    return EXIT_OK


def history_command(args: argparse.Namespace, view: JobView) -> str:
    """Return the command that prints all steps of the Job; "" for a cluster whose history no command finds."""
    if not is_of_local_cluster(find_kubeconfig(args.kubeconfig)):
        return ""
    key = Key(view.namespace, view.name)
    return f"sluice history {key.name if key.namespace == read_default_namespace(args) else key}"


async def _view(args: argparse.Namespace) -> JobView:
    given = config_of_file(args.config) if args.config else None
    default_ns = read_default_namespace(args)
    key = key_of(args.job, args.namespace or default_ns)
    now = SystemClock().now()  # before all reads, as `visibility.job_states` requires
    async with connect(args.kubeconfig, args.context) as client:
        target = await find(client, key)
        pods = await pods_of(client, target)
        events = await events_of(client, target, pods)
        config = given or await published(client, [target.key.namespace])
        seen = await managers_view(client, target.key.namespace, config)
        queues = await read_queues(seen.client, [target.key.namespace], config)
        refused = await equivalent_of(client, target.workload)
        failure = await failure_of(client, pods if target.job is None else decisive_pods(target.job.status, pods))
        nodes = await nodes_for(client, [cause_of(target.job, target.workload, pods)])
        outlook = None
        if is_pending(target.job, target.workload, now):
            view = await read_cluster(seen.client, seen.namespaces)
            outlook = await read_explanation(client, target, view, queues, config, default_ns, now)
    # The scheduler's result for one Workload of a shape is valid for all.
    found = [*obstacles(target.job, refused or target.workload, replace(queues, nodes=nodes), default_ns)]
    unseen = unseen_class(target.job, queues)
    context = PredictionContext(found, default_ns=default_ns, outlook=outlook, unseen_class=unseen)
    if config is not None:
        context = replace(context, settings=settings_of(config), options=config.job_controller.options())
    local, _ = queues.of(local_queue_of(target.job, target.workload))
    name = local.spec.cluster_queue if local is not None else ""
    return job_view(
        target.job,
        target.workload,
        pods,
        events,
        context,
        now,
        cluster_queue=name,
        failure=failure,
        equivalent=refused,
        nodes=nodes,
    )


async def equivalent_of(client: RestClient, workload: Workload | None) -> Workload | None:
    """Return the Workload whose reason also holds for this pending one (`passed_over_for`)."""
    if workload is None or workload.status.admission is not None or not workload.spec.active:
        return None
    others = await client.list(WORKLOADS, workload.metadata.namespace, type=Workload)
    return passed_over_for(workload, refusals_in(others))


async def failure_of(client: RestClient, pods: Sequence[Pod]) -> Failure | None:
    """Return the failure of the pod that failed last, with the line of its error."""
    found = newest_failure(pods)
    return await with_log(client, found) if found is not None else None


async def events_of(client: RestClient, target: JobTarget, pods: Sequence[Pod]) -> list[Event]:
    """Return Events about the Job, its Workload, its pods, and deleted pods, which are recognized by name."""
    found = (target.job, target.workload, *pods)
    uids = {thing.metadata.uid for thing in found if thing is not None}
    since = target.job.metadata.creation_timestamp if target.job is not None else None
    job = target.key.name
    events = await list_permitted(client, EVENTS, Event, target.key.namespace) or []

    def belongs(event: Event) -> bool:
        about = event.involved_object
        gone = about.kind == "Pod" and is_pod_of(about.name, job) and (not since or (event.last or since) >= since)
        return about.uid in uids or gone

    return [event for event in events if belongs(event)]


# --- for people --------------------------------------------------------------------------------------------

MAX_BESIDE = 22  # characters of a step's text beside its type, so that a step has one line of 80 characters
MAX_ROWS = 20  # maximum lines of the index map and rows of each table; JSON output is complete

DEMAND = (
    output.TableColumn("RESOURCE", lambda row: row.resource),
    output.TableColumn("PER POD", lambda row: row.per_pod or "-", right=True),
    output.TableColumn("PODS", lambda row: str(row.pods), right=True),
    output.TableColumn("REQUESTS", lambda row: row.total or "-", right=True),
    output.TableColumn("HAS", lambda row: row.assigned or "-", right=True),
    output.TableColumn("FLAVOR", lambda row: row.flavor or "-"),
)


def columns(
    now: datetime,
    attempts: int,
    preempted_for: str = "",
    names: Sequence[str] = (),
    stopped: Sequence[Interruption] = (),
) -> dict[str, tuple[output.TableColumn, ...]]:
    """Return the columns of the tables with times. A step with a long text has a line more.

    `attempts`: of the Workload since its last activation. `names`: of the Job and its Workload. `stopped`: when the
    cluster was, which does not count as running.
    """

    def text(step: Step) -> str:
        return step_text(step, attempts, preempted_for)

    return {
        "indexes": (
            output.TableColumn("INDEX", lambda row: str(row.index), right=True),
            output.TableColumn("STATE", lambda row: row.state),
            output.TableColumn("TRIES", lambda row: str(row.attempts), right=True),
            output.TableColumn("EXIT CODES", lambda row: ",".join(map(str, row.exit_codes)) or "-"),
            output.TableColumn("NEXT RETRY", lambda row: deadline(row.next_retry, now), right=True),
            output.TableColumn("LAST ERROR", lambda row: row.last_error or "-", wrap=True),
        ),
        "pods": (
            output.TableColumn("POD", lambda row: row.name),
            output.TableColumn("TRY", lambda row: str(row.attempt), right=True),
            output.TableColumn("STATE", lambda row: row.state, style=lambda row: POD_STYLES.get(row.state, "")),
            output.TableColumn("STARTED", lambda row: format_time(row.started)),
            output.TableColumn("RAN", lambda row: _ran(row, now, stopped), right=True),
            output.TableColumn("EXIT", lambda row: "-" if row.exit_code is None else str(row.exit_code), right=True),
            output.TableColumn("NODE", lambda row: row.node or "-"),
            output.TableColumn("REASON", reason, wrap=True),
        ),
        "attempts": (
            output.TableColumn("ATTEMPT", lambda row: str(row.number), right=True),
            output.TableColumn("ADMITTED", lambda row: format_time(row.admitted)),
            output.TableColumn("ENDED", lambda row: format_time(row.ended)),
            output.TableColumn("HELD QUOTA", lambda row: _quota_time(row, now, stopped), right=True),
            output.TableColumn("CAUSE", _ended_by, wrap=True),
            output.TableColumn("NEXT", lambda row: _next_retry(row, now)),
        ),
        "history": (
            output.TableColumn("TIME", lambda row: format_time(row.at)),
            output.TableColumn("AGO", lambda row: ago(row.at, now), right=True),
            output.TableColumn("", lambda row: "●" if row.is_true else "○"),
            output.TableColumn("STEP", lambda row: row.text),
            output.TableColumn("OF", lambda row: row.object, wide=True),
            output.TableColumn("REASON", lambda row: "" if len(text(row)) > MAX_BESIDE else text(row)),
            output.TableColumn("", lambda row: text(row) if len(text(row)) > MAX_BESIDE else "", wrap=True, below=True),
        ),
        "events": (
            output.TableColumn("AGO", lambda row: ago(row.last, now), right=True),
            output.TableColumn("×", lambda row: str(row.count), right=True),
            output.TableColumn(
                "TYPE", lambda row: row.type, style=lambda row: "yellow" if row.type == "Warning" else ""
            ),
            output.TableColumn("REASON", lambda row: event_reason(row.reason)),
            output.TableColumn("OBJECT", lambda row: short_object(row, names)),
            output.TableColumn("MESSAGE", lambda row: row.message.rstrip().removesuffix(":"), wrap=True),
        ),
    }


POD_STYLES = {"Ready": "green", "Failed": "red", "Unschedulable": "yellow", "Starting": "cyan", "Succeeded": "dim"}


def render(view: JobView, now: datetime, most: int | None = MAX_ROWS, history: str = "") -> Group:
    """Return all that is printed: the facts, then each table that has rows.

    `most`: rows of each; None: all. `history`: the command that prints the steps of earlier attempts, too.
    """
    parts: list[RenderableType] = [heading(f"{view.namespace}/{view.name}"), facts(view, now)]
    names = (view.name, view.workload)
    tables = columns(now, view.retries.budget_attempts, view.preempted_for, names, view.interruptions)
    if view.indexes is not None and not _are_of_next_attempt(view, view.indexes):
        parts += [Text(), heading("INDEXES"), Text("\n".join(map_lines(view.indexes)))]
        if view.indexes.troubled:
            parts += [Text(), *_shortened(tables["indexes"], view.indexes.troubled, most)]
    if view.demand:
        parts += [Text(), FittedTable(DEMAND, view.demand)]
    if view.pods:
        parts += [Text(), *_shortened(tables["pods"], _pods_in_order(view.pods), most)]
    was_stopped = _say_more_than_the_history(view.retries.attempts)
    if was_stopped:
        parts += [Text(), FittedTable(tables["attempts"], view.retries.attempts)]
    steps = output.columns_of("" if most is not None else "wide", tables["history"])
    parts += [Text(), heading("HISTORY"), FittedTable(steps, view.history)]
    if was_stopped and history:  # conditions keep only their last change
        parts.append(Text(f"steps of earlier attempts: {history}", style="dim"))
    return Group(*parts, *_events(view, tables["events"], most))


def _say_more_than_the_history(attempts: Sequence[AttemptRow]) -> bool:
    """Whether the attempts say more than the history: of a Job that ran once to its end they do not."""
    ended = [attempt for attempt in attempts if attempt.cause and attempt.cause != reasons.SUCCEEDED]
    return (len(attempts) > 1 and bool(ended)) or any(attempt.cause != reasons.FAILED for attempt in ended)


def _events(view: JobView, columns: Sequence[output.TableColumn], most: int | None) -> list[RenderableType]:
    """Return the section of the Events: those that are not steps of the history; with `most` None all of them."""
    found = view.events if most is None else events_beside(view.history, view.events)
    left_out = len(view.events) - len(found)
    rest = f"{'and ' if found else ''}{left_out} that HISTORY has (-o wide has all)"
    tail = [Text(rest, style="dim")] if left_out else []
    table = _shortened(columns, found, most, newest=True) if found else []
    return [Text(), heading("EVENTS"), *table, *tail] if table or tail else []


def heading(text: str) -> Text:
    """Return the title of the page, or of one of its tables."""
    return Text(text, style="bold")


def _shortened(
    columns: Sequence[output.TableColumn], rows: Sequence[object], most: int | None, *, newest: bool = False
) -> list[RenderableType]:
    """Return a table of at most `most` rows, with the number of omitted rows."""
    limit = len(rows) if most is None else most
    shown = rows[-limit:] if newest else rows[:limit]
    more = len(rows) - len(shown)
    tail = [Text(f"and {more} {'earlier' if newest else 'more'} (-o wide has all)", style="dim")] if more else []
    return [FittedTable(columns, shown), *tail]


def _pods_in_order(rows: Sequence[PodRow]) -> list[PodRow]:
    """Order pods: first those with problems, then the active, then the finished."""
    order = ("Failed", "Unschedulable", "Starting", "Unready", "Terminating", "Ready", "Succeeded")
    if len(rows) <= MAX_ROWS:
        return list(rows)
    return sorted(rows, key=lambda row: order.index(row.state) if row.state in order else 0)


def facts(view: JobView, now: datetime) -> Table:
    """Return the header: one fact per line."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(no_wrap=True, style="dim")
    drawn.add_column(overflow="fold")
    state = Text(view.state, style=STYLES.get(view.state, ""))
    why = printable(_why(view))
    drawn.add_row("state", Text.assemble(state, f"  {why}" if why else ""))
    for i, following in enumerate(view.next):
        when = f"{deadline(following.at, now)}: " if following.at is not None else ""
        drawn.add_row("next" if i == 0 else "", Text(printable(f"{when}{following.what}")))
    for name, text in lines(view, now):
        if text:
            drawn.add_row(name, Text(printable(text)))
    return drawn


def _why(view: JobView) -> str:
    """Return the cause of the Job's pods, then why its queue holds it, or the reason and message of its state."""
    if view.no_node and not view.cause:
        return never_starts(view.no_node, view.reason, plain(view.reason, view.message), view.obstacle)
    if view.cause and says(view.cause, plain(view.reason, view.message)):
        return view.cause
    text = view.obstacle or reason(view)
    if view.reason == GAVE_UP:
        text = gave_up(view.retries.budget_attempts)
    elif not view.obstacle and (view.preempted_for or view.equivalent):
        text = plain(
            view.reason,
            view.message,
            equivalent=view.equivalent,
            equivalent_reason=view.equivalent_reason,
            preempted_for=view.preempted_for,
        )
    cause = f"{view.cause} ({view.no_node})" if view.no_node else view.cause
    why = cause_first(cause, view.reason, view.message, text, is_over=view.state in AFTER_AN_ATTEMPT)
    return of_indexes(view.failed_indexes, why)


def lines(view: JobView, now: datetime) -> list[tuple[str, str]]:
    """Return the facts below state and next, by name; a fact without text is not printed."""
    by_class = f" ({view.priority_class})" if view.priority_class else ""
    where = " → ".join(part for part in (view.queue, view.cluster_queue) if part)
    return [
        ("queue", f"{where}, priority {view.priority}{by_class}" if where else ""),
        ("workload", view.workload),
        ("created", f"{format_time(view.created)}, {ago(view.created, now)} ago" if view.created else ""),
        ("time", _times(view)),
        ("position", position_text(view.position, view.cluster_queue, view.queue) if view.position else ""),
        ("pods", _counts(view)),
        ("retries", _retries(view)),
        ("last error", "" if _repeats_cause(view) else view.last_error),
    ]


def _repeats_cause(view: JobView) -> bool:
    """Whether the last error says no more than the cause, which the line of the state begins with."""
    said = view.cause.partition(": ")[2]  # by a probe: the Event begins with other words
    repeated = view.last_error == view.cause or (bool(said) and view.last_error.endswith(said))
    return repeated or (bool(view.cause) and view.last_error.startswith(RESTARTING))


def _times(view: JobView) -> str:
    parts = []
    if view.waited_seconds is not None:
        parts.append(f"waited {output.duration(view.waited_seconds)}")
    if view.ran_seconds is not None:
        held = output.duration(view.ran_seconds)
        parts.append(f"ran {held}" if view.has_run else f"held quota {held}, and no container has started")
    return ", ".join(parts)


def _counts(view: JobView) -> str:
    wanted = f" of {view.completions}" if view.completions is not None else ""
    parts = [f"{view.succeeded}{wanted} succeeded", f"{view.active} active ({view.ready} ready)"]
    return ", ".join([*parts, f"{view.failed} failed"] if view.failed else parts)


def _retries(view: JobView) -> str:
    evictions = [f"{e.reason}{f' ({e.cause})' if e.cause else ''} ×{e.count}" for e in view.retries.evictions]
    parts = [f"{view.retries.requeues} since it was last activated"] if view.retries.requeues else []
    return "; ".join([*parts, f"evicted: {', '.join(evictions)}"] if evictions else parts)


def _are_of_next_attempt(view: JobView, indexes: IndexMap) -> bool:
    """Whether the indexes say nothing about the attempts that were: an eviction resets those of the Job's status."""
    return bool(view.retries.attempts) and indexes.counts.keys() == {MEANING[IndexSign.NOT_STARTED]}


def map_lines(indexes: IndexMap) -> list[str]:
    """Return the lines of the index map, each prefixed with its first index, and the legend."""
    total = sum(indexes.counts.values())
    width = len(str(max(0, len(indexes.map) - 1)))
    starts = range(0, len(indexes.map), INDEXES_PER_LINE)
    found = [f"{start:>{width}}  {indexes.map[start : start + INDEXES_PER_LINE]}" for start in starts[:MAX_ROWS]]
    if len(starts) > MAX_ROWS:
        has = "all" if len(indexes.map) == total else f"{len(indexes.map)} of them"
        found.append(f"and {total - MAX_ROWS * INDEXES_PER_LINE} more (-o json has {has})")
    signs = {name: sign for sign, name in MEANING.items()}
    found.append("   ".join(f"{signs[name]} {count} {name}" for name, count in indexes.counts.items()))
    return found


# --- times -------------------------------------------------------------------------------------------------


def _ran(row: PodRow, now: datetime, stopped: Sequence[Interruption]) -> str:
    if row.started is None or (row.ended is None and row.state in ("Starting", "Unschedulable")):
        return "-"
    return output.duration(running_seconds(row.started, row.ended or now, stopped))


def _quota_time(row: AttemptRow, now: datetime, stopped: Sequence[Interruption]) -> str:
    return "-" if row.admitted is None else output.duration(running_seconds(row.admitted, row.ended or now, stopped))


def _ended_by(row: AttemptRow) -> str:
    """Why the attempt ended, with the cause of its pods."""
    text = gave_up(row.of_budget) if row.cause == GAVE_UP else row.cause
    return end_of_attempt(row.cause.partition(" ")[0], text, row.pod_cause) or "-"


def _next_retry(row: AttemptRow, now: datetime) -> str:
    if row.ended is None:
        return "stops" if row.cause else "runs"
    if row.next_retry is None:
        return "-"
    if row.next_retry > now:
        return deadline(row.next_retry, now)
    return f"after {output.duration(max(0.0, (row.next_retry - row.ended).total_seconds()))}"


def reason(row: JobView | PodRow) -> str:
    """Return `reason: message`, or the one that is set."""
    return ": ".join(part for part in (row.reason, row.message) if part)

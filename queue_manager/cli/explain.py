"""`sluice explain JOB`: why a Job does not run, the evidence for that, what would change it, and what to type next.

`sluice explain --reason WORD` prints the page of a reason instead (`reason_page`). `exit_meanings` has the exit codes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from queue_manager.cli import output
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED
from queue_manager.cli.explanation_reading import MOST, first_of, position_text, queue_text, read_explanation, with_pods
from queue_manager.cli.fitted_table import FittedTable
from queue_manager.cli.named_targets import find, key_of
from queue_manager.cli.pod_reading import pods_of
from queue_manager.cli.ps import STYLES as STATE_STYLES
from queue_manager.cli.published_config import config_of_file, published
from queue_manager.cli.published_objects import managers_view
from queue_manager.cli.queue_reading import read_queues
from queue_manager.cli.reason_page import hint, show_reason
from queue_manager.cli.scheduler_input_reading import read_cluster
from queue_manager.cli.show import heading
from queue_manager.cli.standard_streams import printable
from queue_manager.cli.time_texts import deadline
from queue_manager.engine.clock import SystemClock
from queue_manager.scheduling.admission_evidence import PreemptionVerdict
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.explanation_rows import FlavorRow, HolderRow, PreemptionRow
from queue_manager.visibility.job_states import AFTER_AN_ATTEMPT, JobState
from queue_manager.visibility.reason_codes import ReasonClass
from queue_manager.visibility.released_quota_times import DELAYED
from queue_manager.visibility.short_messages import of_last_attempt

CODES = {ReasonClass.NEVER: EXIT_NEVER, ReasonClass.FAULT: EXIT_UNEXPECTED}
STYLES = {ReasonClass.NEVER: "red", ReasonClass.FAULT: "bold red", ReasonClass.HOLD: "yellow", ReasonClass.WAIT: "cyan"}


def run(args: argparse.Namespace) -> int:
    """Print the explanation; return the exit code (`exit_meanings`)."""
    if args.reason is not None:
        return show_reason(args)
    found = asyncio.run(explanation(args))
    output.show_record(args.output, found, lambda: render(found, SystemClock().now(), most_rows(args.output)))
    return exit_code(found)


def exit_code(found: Explanation) -> int:
    """Return the exit code for the class of the reason."""
    return next((code for kind, code in CODES.items() if found.code.startswith(kind)), EXIT_OK)


async def explanation(args: argparse.Namespace) -> Explanation:
    """Read the Job and what surrounds it, and explain it. Raises CommandRefused if it does not exist."""
    given = config_of_file(args.config) if args.config else None
    default_ns = read_default_namespace(args)
    key = key_of(args.job, args.namespace or default_ns)
    now = SystemClock().now()  # before all reads, then the Workloads, then the Job: see `visibility.job_states`
    async with connect(args.kubeconfig, args.context) as client:
        config = given or await published(client, [key.namespace])
        seen = await managers_view(client, key.namespace, config)
        view = await read_cluster(seen.client, seen.namespaces)
        target = await find(client, key)
        queues = await read_queues(seen.client, [target.key.namespace], config)
        pods = await pods_of(client, target)
        found = await read_explanation(client, target, view, queues, config, default_ns, now, pods)
        return with_pods(found, target, pods, config, now, default_ns)


# --- for people --------------------------------------------------------------------------------------------


def flavor_columns(rows: Sequence[FlavorRow]) -> list[output.TableColumn]:
    """Return the columns: POD SET only if there are several, KEPT only if quota is kept for preemptors."""
    found = [
        output.TableColumn("POD SET", lambda row: row.pod_set),
        output.TableColumn("FLAVOR", lambda row: row.flavor or "-"),
        output.TableColumn("RESOURCE", lambda row: row.resource),
        *(_amount(name.upper(), name) for name in ("requested", "free", "borrowable", "kept", "limit")),
        output.TableColumn("", lambda row: row.verdict, wrap=True),
    ]
    hidden = {"POD SET"} if len({row.pod_set for row in rows}) == 1 else set()
    hidden |= {"KEPT"} if all(row.kept in (None, "0") for row in rows) else set()
    return [column for column in found if column.heading not in hidden]


def _amount(title: str, field: str) -> output.TableColumn:
    return output.TableColumn(title, lambda row: getattr(row, field) or "-", right=True)


HOLDERS = (
    output.TableColumn("HELD IN", lambda row: row.cluster_queue),
    output.TableColumn("BY LOCALQUEUE", queue_text),
    output.TableColumn("WORKLOADS", lambda row: str(row.workloads), right=True),
    output.TableColumn("STOPPING", lambda row: str(row.stopping), right=True),
    output.TableColumn("HOLD", lambda row: ", ".join(f"{amount} {of}" for of, amount in row.holds.items()), wrap=True),
    output.TableColumn("JOBS", lambda row: first_of(row.jobs) or "-", wrap=True),
)


def holder_columns(rows: Sequence[HolderRow]) -> list[output.TableColumn]:
    """Return the columns: STOPPING only if some are being stopped."""
    return [column for column in HOLDERS if column.heading != "STOPPING" or any(row.stopping for row in rows)]


def preemption_columns(now: datetime) -> list[output.TableColumn]:
    """Return the columns about preemption; the last one counts times from `now`."""
    return [
        output.TableColumn("PREEMPTION IN", lambda row: row.cluster_queue),
        output.TableColumn("FLAVOR", lambda row: row.flavor),
        output.TableColumn("RUNNING", lambda row: str(row.running), right=True),
        output.TableColumn("ALLOWED", lambda row: str(row.candidates), right=True),
        output.TableColumn("POLICY", lambda row: row.policy, wrap=True),
        output.TableColumn("", lambda row: _verdict(row, now), wrap=True),
    ]


def _verdict(row: PreemptionRow, now: datetime) -> str:
    """Return the verdict of a row, with the end of the first minimum runtime that protects a Workload."""
    if row.protected_until is None:
        return row.text
    until = f"until {deadline(row.protected_until, now)}"
    return (
        f"{row.text} {until}"
        if row.verdict == PreemptionVerdict.PROTECTED
        else f"{row.text}; others are protected {until}"
    )


def most_rows(form: str) -> int | None:
    """Return the greatest number of rows of a table; None for `-o wide`, which has all."""
    return None if form == "wide" else MOST


def render(found: Explanation, now: datetime, most: int | None = MOST) -> Group:
    """Return all that is printed: title, sentence, tables of at most `most` rows, facts."""
    kind = next((kind for kind in STYLES if found.code.startswith(kind)), None)
    style = STYLES[kind] if kind is not None else STATE_STYLES.get(found.state, "green")
    title = Text.assemble(heading(f"{found.namespace}/{found.name}"), "  ", Text(found.code or found.state, style))
    cause = [Text(printable(_cause(found)), "red")] if found.cause else []
    parts: list[RenderableType] = [title, *cause, Text(printable(found.sentence)), *_tables(found, now, most)]
    return Group(*parts, Text(), facts(found, now))


def _cause(found: Explanation) -> str:
    """Return the cause of the Job's pods, marked as that of the last attempt if the Job waits for the next."""
    is_requeued_later = found.state == JobState.BACKOFF and bool(found.code)  # not between two tries of an attempt
    waits = found.state in AFTER_AN_ATTEMPT or is_requeued_later
    return of_last_attempt(found.cause) if waits else found.cause


def _tables(found: Explanation, now: datetime, most: int | None) -> Iterator[RenderableType]:
    known = [row for row in found.flavors if row.free is not None]
    tables = (
        (flavor_columns(known), known),
        (holder_columns(found.holders), found.holders),
        (preemption_columns(now), found.preemptions),
    )
    for columns, rows in tables:
        if rows:
            yield Text()
            yield FittedTable(columns, rows[:most])
            if most is not None and len(rows) > most:
                yield Text(f"and {len(rows) - most} more (-o wide has all)")


def facts(found: Explanation, now: datetime) -> Table:
    """Return the table of the facts: their names and texts."""
    drawn = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True, style="dim")
    drawn.add_column(overflow="fold")
    for name, texts in lines(found, now):
        for i, text in enumerate(texts):
            drawn.add_row(name if i == 0 else "", Text(printable(text)))
    return drawn


def lines(found: Explanation, now: datetime) -> list[tuple[str, list[str]]]:
    """Return the facts by name, each in lines; a fact without lines is not printed."""
    return [
        ("requests", _requests(found)),
        ("preempted", _preempted(found)),
        ("position", _position(found)),
        ("memory", found.advice),
        ("deadline", [f"{deadline(one.at, now)}: {one.what}" for one in found.deadlines]),
        ("message", _message(found)),
        ("starts by", [f"{deadline(found.starts_by, now)}, {DELAYED}"] if found.starts_by else []),
        ("kept for", [", ".join(found.kept_for)] if found.kept_for else []),
        ("starts when", found.changes),
        ("released", _released(found, now)),
        ("next", list(filter(None, [found.log_command, found.next_command]))),
        ("more", list(filter(None, [hint(found.code, found.cause, _said(found), found.sentence)]))),
        ("not visible", found.not_seen),
    ]


def _preempted(found: Explanation) -> list[str]:
    """Return who needed the quota of a victim, with the Job if the reader may know it."""
    job = f": Job {found.preempted_for_job}" if found.preempted_for_job else ""
    return [f"{found.preempted_for}{job}"] if found.preempted_for else []


def _released(found: Explanation, now: datetime) -> list[str]:
    """Return when enough quota is released at the latest; to a victim also why that is not known."""
    if found.released_by is None:
        return [found.release] if found.release and found.preempted_for else []
    return [f"by {deadline(found.released_by, now)}, {found.release}"]


def _message(found: Explanation) -> list[str]:
    """Return the message, of an ended Job with the reason; none if the cause or the table of flavors says the same."""
    text = _said(found)
    return [text] if text and text != found.cause and not _is_shown(found) else []


def _said(found: Explanation) -> str:
    """Return the message, of an ended Job with the reason."""
    return found.message if found.code else ": ".join(part for part in (found.reason, found.message) if part)


def _requests(found: Explanation) -> list[str]:
    """Return the Job's requests by resource; none if the table of flavors, which has them, is printed."""
    if _is_shown(found):
        return []
    several = len({row.pod_set for row in found.flavors}) > 1
    return [f"{row.requested} {row.resource}{f' (pod set {row.pod_set})' if several else ''}" for row in found.flavors]


def _position(found: Explanation) -> list[str]:
    place = found.position
    return [position_text(place, found.cluster_queue, found.queue)] if place is not None else []


def _is_shown(found: Explanation) -> bool:
    """Whether the table of flavors is printed. The scheduler's message, which says the same, is then left out."""
    return any(row.free is not None for row in found.flavors)

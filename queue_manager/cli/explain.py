"""`sluice explain JOB`: why a Job does not run, on what that rests, what would change it, and what to type next.

Exit codes: 0 if it runs, has ended or waits; 2 if it can never start as things are; 1 if a controller does not do its
part.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.cluster_view import read_cluster
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exits import EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED
from queue_manager.cli.published_config import published
from queue_manager.cli.queue_view import read_queues
from queue_manager.cli.show import heading, read_config
from queue_manager.cli.streams import printable
from queue_manager.cli.targets import find, key_of
from queue_manager.engine.client import Client
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.transport import Request
from queue_manager.lifecycle.settings import Settings, settings_of
from queue_manager.visibility.cluster_state import ClusterObjects
from queue_manager.visibility.dominant_reason import Surroundings
from queue_manager.visibility.explanation import Explanation, Position, explain
from queue_manager.visibility.explanation_rows import FlavorRow
from queue_manager.visibility.obstacles import local_queue_of, obstacle
from queue_manager.visibility.pending_summary import MAX_LIMIT, PendingPage, local_queue_path
from queue_manager.visibility.reason_codes import ReasonClass

CODES = {ReasonClass.NEVER: EXIT_NEVER, ReasonClass.FAULT: EXIT_UNEXPECTED}
STYLES = {ReasonClass.NEVER: "red", ReasonClass.FAULT: "bold red", ReasonClass.HOLD: "yellow", ReasonClass.WAIT: "cyan"}
DEFAULTS_ASSUMED = "the configuration of the queue manager: its defaults are assumed (--config F)"
ALL_OF_THEM = {"limit": str(MAX_LIMIT)}
MOST = 10  # rows of each table, and names of Jobs; JSON output is complete


def run(args: argparse.Namespace) -> int:
    found = asyncio.run(explanation(args))
    if args.output == "json":
        sys.stdout.write(output.as_json(found))
    elif args.output == "yaml":
        sys.stdout.write(output.as_yaml(found))
    else:
        output.show_table(picture(found))
    return exit_code(found)


def exit_code(found: Explanation) -> int:
    return next((code for kind, code in CODES.items() if found.code.startswith(kind)), EXIT_OK)


async def explanation(args: argparse.Namespace) -> Explanation:
    """Read the Job and what surrounds it, and explain it. Raises CommandRefused if it does not exist."""
    given = read_config(args.config) if args.config else None
    default_ns = read_default_namespace(args)
    key = key_of(args.job, args.namespace or default_ns)
    now = SystemClock().now()  # before all reads, then the Workloads, then the Job: see `visibility.job_states`
    async with connect(args.kubeconfig, args.context) as client:
        config = given or await published(client)
        view = await read_cluster(client)
        target = await find(client, key)
        queues = await read_queues(client, [target.key.namespace], config)
        served = await read_position(client, target.workload) if view.objects is None else None
    local, above = queues.of(local_queue_of(target.job, target.workload))
    around = Surroundings(
        objects=_with_newest(view.objects, target.workload),
        settings=settings_of(config) if config is not None else Settings(),
        local=local,
        above=above,
        obstacle=obstacle(target.job, target.workload, queues, default_ns),
        sees_queues=queues.local is not None,
        not_seen=(*view.not_seen, *(() if config is not None else (DEFAULTS_ASSUMED,))),
        default_ns=default_ns,
    )
    return explain(target.job, target.workload, around, now, served)


def _with_newest(objects: ClusterObjects | None, workload: Workload | None) -> ClusterObjects | None:
    """The objects with this Workload, which was read after them."""
    if objects is None or workload is None:
        return objects
    others = [other for other in objects.workloads if other.metadata.uid != workload.metadata.uid]
    return replace(objects, workloads=[*others, workload])


async def read_position(client: Client, workload: Workload | None) -> Position | None:
    """The position by the visibility API; None if that is not served, or not for this user."""
    if workload is None:
        return None
    answer = await client.transport.request(Request("GET", local_queue_path(workload.local_queue), ALL_OF_THEM))
    found = msgspec.json.decode(answer.body, type=PendingPage).items if answer.status == 200 else []
    own = next((item for item in found if item.metadata.name == workload.metadata.name), None)
    if own is None:
        return None
    first = (own.position_in_cluster_queue + 1, own.position_in_local_queue + 1)
    return Position(cluster_queue=first[0], of=None, local_queue=first[1], ahead=None)


# --- for people --------------------------------------------------------------------------------------------


def flavor_columns(rows: Sequence[FlavorRow]) -> list[output.TableColumn]:
    """POD SET only if there are several, KEPT only if quota is kept for preemptors."""
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
    return output.TableColumn(title, lambda row: _known(getattr(row, field)), right=True)


def _known(quantity: str | None) -> str:
    return "?" if quantity is None else quantity


HOLDERS = (
    output.TableColumn("HELD IN", lambda row: row.cluster_queue),
    output.TableColumn("BY LOCALQUEUE", lambda row: f"{row.namespace}/{row.queue}"),
    output.TableColumn("WORKLOADS", lambda row: str(row.workloads), right=True),
    output.TableColumn("HOLD", lambda row: ", ".join(f"{amount} {of}" for of, amount in row.holds.items())),
    output.TableColumn("JOBS", lambda row: _first(row.jobs), wrap=True),
)
PREEMPTIONS = (
    output.TableColumn("PREEMPTION IN", lambda row: row.cluster_queue),
    output.TableColumn("FLAVOR", lambda row: row.flavor),
    output.TableColumn("RUNNING", lambda row: str(row.running), right=True),
    output.TableColumn("ALLOWED", lambda row: str(row.candidates), right=True),
    output.TableColumn("POLICY", lambda row: row.policy),
    output.TableColumn("", lambda row: row.text, wrap=True),
)


def _first(names: Sequence[str]) -> str:
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")


def picture(found: Explanation) -> Group:
    kind = next((kind for kind in STYLES if found.code.startswith(kind)), None)
    style = STYLES[kind] if kind is not None else "green"
    title = Text.assemble(heading(f"{found.namespace}/{found.name}"), "  ", Text(found.code or found.state, style))
    parts: list[RenderableType] = [title, Text(printable(found.sentence)), *_tables(found)]
    return Group(*parts, Text(), facts(found))


def _tables(found: Explanation) -> Iterator[RenderableType]:
    tables = (
        (flavor_columns(found.flavors), found.flavors),
        (HOLDERS, found.holders),
        (PREEMPTIONS, found.preemptions),
    )
    for columns, rows in tables:
        if rows:
            yield Text()
            yield output.table(columns, rows[:MOST])
            if len(rows) > MOST:
                yield Text(f"and {len(rows) - MOST} more (-o json has all)")


def facts(found: Explanation) -> Table:
    drawn = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True, style="dim")
    drawn.add_column(overflow="fold")
    for name, texts in lines(found):
        for i, text in enumerate(texts):
            drawn.add_row(name if i == 0 else "", Text(printable(text)))
    return drawn


def lines(found: Explanation) -> list[tuple[str, list[str]]]:
    return [
        ("position", [position_text(found.position, found)] if found.position is not None else []),
        ("message", [found.message] if found.message and not _is_shown(found) else []),
        ("starts when", found.changes),
        ("next", [found.next_command] if found.next_command else []),
        ("not visible", found.not_seen),
    ]


def _is_shown(found: Explanation) -> bool:
    """Whether the table of flavors says the same as the message, in other words."""
    return any(row.free is not None for row in found.flavors)


def position_text(position: Position, found: Explanation) -> str:
    """`3 of 17 in ClusterQueue cq, 1 in LocalQueue q; before it: ns/a 2`."""
    total = f" of {position.of}" if position.of is not None else ""
    text = f"{position.cluster_queue}{total} in ClusterQueue {found.cluster_queue}"
    text += f", {position.local_queue} in LocalQueue {found.queue}"
    ahead = [f"{row.namespace}/{row.queue} {row.workloads}" for row in position.ahead or ()]
    return f"{text}; before it: {_first(ahead)}" if ahead else text

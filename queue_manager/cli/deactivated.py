"""`sluice deactivated`: the Jobs that wait for an operator."""

from __future__ import annotations

import argparse
import asyncio

from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.connection import connect, home_of, one_namespace
from queue_manager.cli.exits import EXIT_OK
from queue_manager.cli.targets import of_queue
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.resources import EVENTS, WORKLOADS
from queue_manager.visibility.inbox import InboxRow, inbox
from queue_manager.visibility.wire import Event

COLUMNS = (
    output.Column("NAMESPACE", lambda row: row.namespace),
    output.Column("NAME", lambda row: row.name),
    output.Column("QUEUE", lambda row: row.queue or "-"),
    output.Column("WHY", lambda row: row.why, style=lambda row: "" if row.why == "by a user" else "red"),
    output.Column("TRIES", lambda row: str(row.tries), right=True),
    output.Column(
        "SINCE", lambda row: "-" if row.deactivated_seconds is None else output.duration(row.deactivated_seconds)
    ),
    output.Column("LAST ERROR", lambda row: row.last_error or "-", wrap=True),
    output.Column("WHAT TO DO", lambda row: row.action, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    rows = asyncio.run(_rows(args))
    output.show(args.output, COLUMNS, rows, "nothing is deactivated")
    return EXIT_OK


async def _rows(args: argparse.Namespace) -> list[InboxRow]:
    namespace = args.namespace or ""
    async with connect(args.kubeconfig, args.context, forbidden=one_namespace(args)) as client:
        workloads = [w for w in await client.list(WORKLOADS, namespace, type=Workload) if not w.spec.active]
        selector = "type=Warning"
        events = await client.list(EVENTS, namespace, field_selector=selector, type=Event) if workloads else []
        rows = inbox(workloads, events, SystemClock().now(), home_of(args))
        return await of_queue(client, rows, args)

"""`sluice queues`: one line per ClusterQueue and quota."""

from __future__ import annotations

import argparse
import asyncio

from job_controller.quantities import parse
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.cli import output
from queue_manager.cli.connection import connect
from queue_manager.cli.exits import EXIT_OK
from queue_manager.engine.client import Client
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from queue_manager.visibility.queues import QueueRow, QuotaRow, queue_rows

BAR = 10


def quota(row: QuotaRow) -> str:
    """`cpu ████░░░░░░ 2/5`: the bar is exact to a tenth and never full before the quota is."""
    used, nominal = (parse(text, row.resource) for text in (row.used, row.nominal))
    filled = min(BAR, used * BAR // nominal) if nominal else (BAR if used else 0)
    return f"{row.resource} {'█' * filled}{'░' * (BAR - filled)} {row.used}/{row.nominal}"


def quotas(row: QueueRow) -> str:
    flavors = {entry.flavor for entry in row.quotas}
    return "\n".join(quota(entry) + (f" ({entry.flavor})" if len(flavors) > 1 else "") for entry in row.quotas)


COLUMNS = (
    output.Column("CLUSTERQUEUE", lambda row: row.name),
    output.Column("STRATEGY", lambda row: row.strategy),
    output.Column("STATE", lambda row: row.state, style=lambda row: "" if row.state == "Active" else "red"),
    output.Column("PENDING", lambda row: str(row.pending), right=True),
    output.Column("ADMITTED", lambda row: str(row.admitted), right=True),
    output.Column(
        "OLDEST",
        lambda row: output.duration(row.oldest_waiting_seconds) if row.oldest_waiting_seconds is not None else "-",
        right=True,
    ),
    output.Column("QUOTA IN USE", quotas),
    output.Column("LOCALQUEUES", lambda row: "\n".join(row.local_queues) or "-"),
)


def run(args: argparse.Namespace) -> int:
    rows = asyncio.run(_rows(args))
    output.show(args.output, COLUMNS, rows, "no ClusterQueues; config/samples/queues.yaml has two to start with")
    return EXIT_OK


async def _rows(args: argparse.Namespace) -> list[QueueRow]:
    async with connect(args.kubeconfig, args.context) as client:
        return await queue_table(client)


async def queue_table(client: Client) -> list[QueueRow]:
    """Rows of all ClusterQueues. What refers is listed before what it refers to, which then exists."""
    now = SystemClock().now()
    workloads = await client.list(WORKLOADS, type=Workload)
    local_queues = await client.list(LOCAL_QUEUES, type=LocalQueue)
    cluster_queues = await client.list(CLUSTER_QUEUES, type=ClusterQueue)
    return queue_rows(cluster_queues, local_queues, workloads, now)

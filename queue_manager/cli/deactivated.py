"""`sluice deactivated`: lists the deactivated Jobs, which stay stopped until an operator acts."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from job_controller.model import Job
from queue_manager.api.resources import EVENTS, JOBS, PODS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.connection import connect, one_namespace, read_default_namespace
from queue_manager.cli.exits import EXIT_OK
from queue_manager.cli.logs import with_log
from queue_manager.cli.published_config import published
from queue_manager.cli.targets import of_queue
from queue_manager.configuration import KueueConfig
from queue_manager.engine.client import Client
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.transport import ApiError
from queue_manager.visibility.failures import Failure, failures
from queue_manager.visibility.inbox import InboxRow, inbox
from queue_manager.visibility.wire_types import Event, Pod

T = TypeVar("T")
LOGS = 100  # at most this many log requests

COLUMNS = (
    output.TableColumn("NAMESPACE", lambda row: row.namespace),
    output.TableColumn("NAME", lambda row: row.name),
    output.TableColumn("QUEUE", lambda row: row.queue or "-"),
    output.TableColumn("WHY", lambda row: row.why, style=lambda row: "" if row.why == "by a user" else "red"),
    output.TableColumn("ATTEMPTS", lambda row: str(row.attempts), right=True),
    output.TableColumn(
        "SINCE", lambda row: "-" if row.deactivated_seconds is None else output.duration(row.deactivated_seconds)
    ),
    output.TableColumn("LAST ERROR", lambda row: row.last_error or "-", wrap=True),
    output.TableColumn("WHAT TO DO", lambda row: row.action, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    rows = asyncio.run(_rows(args))
    output.show(args.output, COLUMNS, rows, "no deactivated Jobs")
    return EXIT_OK


async def _rows(args: argparse.Namespace) -> list[InboxRow]:
    namespace, default_ns = args.namespace or "", read_default_namespace(args)
    now = SystemClock().now()
    async with connect(args.kubeconfig, args.context, forbidden=one_namespace(args)) as client:
        workloads = [w for w in await client.list(WORKLOADS, namespace, type=Workload) if not w.spec.active]
        events = await client.list(EVENTS, namespace, field_selector="type=Warning", type=Event) if workloads else []
        failed = await with_logs(client, await failures_of(client, workloads, namespace))
        return await of_queue(client, inbox(workloads, events, now, default_ns, failed), args)


async def failures_of(client: Client, workloads: list[Workload], namespace: str) -> dict[str, Failure]:
    """Return the pod failures of these Workloads, as far as the user may read their Jobs and pods."""
    if not workloads:
        return {}
    pods = await _readable(client.list(PODS, namespace, field_selector="status.phase=Failed", type=Pod))
    jobs = await _readable(client.list(JOBS, namespace, type=Job))
    config = await published(client) or KueueConfig()
    return failures(workloads, pods, jobs, config.job_controller.options())


async def _readable(listed: Coroutine[None, None, list[T]]) -> list[T]:
    """Return the list, empty if the user may not read it."""
    try:
        return await listed
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return []


async def with_logs(client: Client, failed: dict[str, Failure]) -> dict[str, Failure]:
    """Add the last log line to at most LOGS failures."""

    some = dict(list(failed.items())[:LOGS])
    read = await asyncio.gather(*(with_log(client, failure) for failure in some.values()))
    return {**failed, **dict(zip(some, read, strict=True))}

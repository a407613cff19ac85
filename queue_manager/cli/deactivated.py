"""`sluice deactivated`: lists the deactivated Jobs, which stay stopped until an operator acts."""

from __future__ import annotations

import argparse
import asyncio

from job_controller.model import Job
from queue_manager.api.api_resources import EVENTS, JOBS, PODS, WORKLOADS
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.connection import connect, one_namespace, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.last_log_lines import with_log
from queue_manager.cli.machine_formats import job_names
from queue_manager.cli.named_targets import check_namespace, of_queue
from queue_manager.cli.node_reading import nodes_for
from queue_manager.cli.permitted_lists import list_permitted, of_all_or_own
from queue_manager.cli.published_config import published
from queue_manager.cli.time_texts import span
from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.visibility.cause_groups import CauseGroup, cause_groups, short_action
from queue_manager.visibility.deactivated_jobs import BY_A_USER, DeactivatedJob, deactivated_jobs
from queue_manager.visibility.job_causes import recorded_cause
from queue_manager.visibility.pod_failures import Failure, failures
from queue_manager.visibility.wire_types import Pod

NONE = "no deactivated Jobs"
LOGS = 100  # at most this many log requests


def _style(row: DeactivatedJob) -> str:
    return "" if row.why == BY_A_USER else "red"


COLUMNS = (
    output.TableColumn("NAMESPACE", lambda row: row.namespace),
    output.TableColumn("NAME", lambda row: row.name),
    output.TableColumn("QUEUE", lambda row: row.queue or "-"),
    output.TableColumn("CAUSE", lambda row: row.cause, style=_style, wrap=True),
    output.TableColumn("ATTEMPTS", lambda row: str(row.budget_attempts), right=True),
    output.TableColumn("SINCE", lambda row: span(row.deactivated_seconds)),
    output.TableColumn("PRIO", lambda row: str(row.priority), right=True, wide=True),
    output.TableColumn("WORKLOAD", lambda row: row.workload, wide=True),
    output.TableColumn("REASON", lambda row: row.reason or "-", wide=True),
    output.TableColumn("WHAT TO DO", lambda row: row.action, wrap=True),
)
GROUP_COLUMNS = (
    output.TableColumn("CAUSE", lambda group: group.cause, wrap=True),
    output.TableColumn("JOBS", lambda group: str(group.count), right=True),
    output.TableColumn("EXAMPLE", lambda group: group.example),
    output.TableColumn("LAST", lambda group: span(group.seconds)),
)


def run(args: argparse.Namespace) -> int:
    """Print the Jobs whose Workloads are deactivated; return the exit code."""
    rows = asyncio.run(_rows(args))
    default_ns = read_default_namespace(args)
    if args.by == "cause":
        groups = cause_groups(rows, default_ns)
        command = short_action(groups)
        hint = f"reactivate a group: {command}" if command else ""
        output.show(args.output, GROUP_COLUMNS, groups, NONE, hint, row_type=CauseGroup, name=_example)
    else:
        names = job_names(args.namespace or default_ns)
        output.show(args.output, COLUMNS, rows, NONE, row_type=DeactivatedJob, name=names)
    return EXIT_OK


async def _rows(args: argparse.Namespace) -> list[DeactivatedJob]:
    async with connect(args.kubeconfig, args.context, forbidden=one_namespace(args)) as client:
        return await of_all_or_own(lambda namespace: _rows_in(client, namespace, args), args)


async def _rows_in(client: RestClient, namespace: str, args: argparse.Namespace) -> list[DeactivatedJob]:
    rows, _ = await read_deactivated(client, namespace, read_default_namespace(args))
    if not rows:
        await check_namespace(client, args.namespace)
    return await of_queue(client, rows, args, namespace)


async def read_deactivated(
    client: RestClient, namespace: str, default_ns: str
) -> tuple[list[DeactivatedJob], list[Workload]]:
    """Return the rows of a namespace, or of all, and the deactivated Workloads."""
    now = SystemClock().now()
    workloads = [w for w in await client.list(WORKLOADS, namespace, type=Workload) if not w.spec.active]
    events = await client.list(EVENTS, namespace, field_selector="type=Warning", type=Event) if workloads else []
    jobs = (await list_permitted(client, JOBS, Job, namespace) or []) if workloads else []
    failed = await with_logs(client, await failures_of(client, workloads, jobs, namespace))
    nodes = await nodes_for(client, (recorded_cause(workload) for workload in workloads)) if workloads else None
    return deactivated_jobs(workloads, events, now, default_ns, failed, nodes, jobs), workloads


async def failures_of(
    client: RestClient, workloads: list[Workload], jobs: list[Job], namespace: str
) -> dict[str, Failure]:
    """Return the pod failures of these Workloads, as far as the user may read their pods. `jobs`: of the namespace."""
    if not workloads:
        return {}
    pods = await list_permitted(client, PODS, Pod, namespace, field_selector="status.phase=Failed") or []
    config = await published(client, (workload.metadata.namespace for workload in workloads)) or KueueConfig()
    return failures(workloads, pods, jobs, config.job_controller.options())


async def with_logs(client: RestClient, failed: dict[str, Failure]) -> dict[str, Failure]:
    """Add the last log line to at most LOGS failures."""

    some = dict(list(failed.items())[:LOGS])
    read = await asyncio.gather(*(with_log(client, failure) for failure in some.values()))
    return {**failed, **dict(zip(some, read, strict=True))}


def _example(group: object) -> str:
    """The name of the example Job of a group."""
    assert isinstance(group, CauseGroup)
    return f"job/{group.example}"

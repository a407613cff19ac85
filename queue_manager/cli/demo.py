"""`sluice demo`: runs a dozen Jobs on a temporary cluster with little quota, shows the queue and the results."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from job_controller.labels import CONTROLLER_UID
from job_controller.model import Job, Pod
from queue_manager.api.api_resources import JOBS, PODS, by_kind
from queue_manager.assets import samples
from queue_manager.cli import init_process, last_log_lines, manifests, output, ps, queues
from queue_manager.cli.exit_codes import EXIT_OK, EXIT_UNEXPECTED
from queue_manager.cli.fitted_table import FittedTable
from queue_manager.cli.machine_formats import MACHINE_FORMS
from queue_manager.cli.standard_streams import say
from queue_manager.cli.submit import prepare, submit
from queue_manager.cli.time_texts import span
from queue_manager.cli.up import ROOT
from queue_manager.configuration import KueueConfig
from queue_manager.engine import file_descriptors
from queue_manager.engine.process_tuning import stop_on_signals
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.local_cluster import ClusterOptions, LocalCluster
from queue_manager.visibility.job_states import JobRow, JobState

ENDED = (JobState.SUCCEEDED, JobState.FAILED)
EXPECT = "sluice/expect"  # annotation of a sample Job: its expected final condition
REFRESH_SECONDS = 0.25  # seconds


class DemoResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one Job. Times are in seconds."""

    name: str
    queue: str
    priority: int
    expected: str
    ended: str
    as_expected: bool
    waited: float | None
    ran: float | None
    failed_pods: int
    output: str


SUMMARY = (
    output.TableColumn(
        "", lambda row: "✔" if row.as_expected else "✘", style=lambda r: "green" if r.as_expected else "red"
    ),
    output.TableColumn("JOB", lambda row: row.name),
    output.TableColumn("QUEUE", lambda row: row.queue),
    output.TableColumn("PRIO", lambda row: str(row.priority), right=True),
    output.TableColumn("ENDED", lambda row: row.ended),
    output.TableColumn("WAITED", lambda row: span(row.waited), right=True),
    output.TableColumn("RAN", lambda row: span(row.ran), right=True),
    output.TableColumn("FAILED PODS", lambda row: str(row.failed_pods), right=True),
    output.TableColumn("LAST LINE OF ITS LOG", lambda row: row.output, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    """Run the sample Jobs on a temporary cluster and print how each ended; return the exit code."""
    init_process.fork_as_init()
    file_descriptors.raise_limit()
    if os.geteuid() == 0:
        say(f"! root: {ROOT}")
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        try:
            outcomes = asyncio.run(demo(Path(folder), args.timeout, quiet=args.output in MACHINE_FORMS))
        except asyncio.CancelledError:  # on a signal; the cluster has already stopped
            raise KeyboardInterrupt from None
    as_expected = all(outcome.as_expected for outcome in outcomes)
    output.show(args.output, SUMMARY, outcomes, "no Jobs ran", row_type=DemoResult)
    if args.output not in MACHINE_FORMS:
        right = sum(outcome.as_expected for outcome in outcomes)
        sys.stdout.write(f"\n{right} of {len(outcomes)} Jobs ended as expected.\n")
    return EXIT_OK if outcomes and as_expected else EXIT_UNEXPECTED


async def demo(folder: Path, timeout: float, *, quiet: bool = False) -> list[DemoResult]:
    """Run all samples on a cluster in `folder` for at most `timeout` seconds; return one result per Job."""
    if task := asyncio.current_task():
        stop_on_signals(task.cancel)
    options = ClusterOptions(data_dir=folder, nodes=2, cpu="2", memory="4Gi", first_queue=False)
    async with LocalCluster(options, KueueConfig()) as cluster:
        client = cluster.client
        for manifest in manifests.read(str(samples() / "queues.yaml")):
            tree = manifest.tree
            await client.create(by_kind(tree["apiVersion"], tree["kind"]), tree["metadata"].get("namespace", ""), tree)
        found = [(manifest, prepare(manifest, None)) for manifest in manifests.read(str(samples() / "jobs"))]
        await submit(client, found)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await watch(client, output.Screen(quiet=quiet, highlight=False))
        return await outcomes(client)


async def watch(client: RestClient, console: Console) -> None:
    """Show Jobs and queues until every Job has ended: redraw on a terminal, else print one line per change."""
    if console.is_terminal and not console.quiet:
        with Live(console=console, refresh_per_second=8, transient=True) as live:
            rows = await ps.job_table(client)
            while not _all_ended(rows):
                live.update(await render(client, rows))
                await asyncio.sleep(REFRESH_SECONDS)
                rows = await ps.job_table(client)
        return
    seen: dict[str, str] = {}
    while True:
        rows = await ps.job_table(client)
        for row in rows:
            if seen.get(row.name) != row.state:
                console.print(f"{row.name:12} {seen.get(row.name, 'Submitted'):>10} → {row.state:10} {ps.pods(row)}")
                seen[row.name] = row.state
        if _all_ended(rows):
            return
        await asyncio.sleep(REFRESH_SECONDS)


async def render(client: RestClient, rows: Sequence[JobRow]) -> Group:
    """Return the tables of queues and Jobs in the form of `sluice queues` and `sluice ps`."""
    found = (await queues.queue_table(client, "default")).rows
    return Group(
        FittedTable(output.columns_of("", queues.columns(found)), found),
        Text(),
        FittedTable(output.columns_of("", ps.COLUMNS), rows),
    )


def _all_ended(rows: Sequence[JobRow]) -> bool:
    return bool(rows) and all(row.state in ENDED for row in rows)


async def outcomes(client: RestClient) -> list[DemoResult]:
    """Return one result per Job, ordered by start time."""
    rows = {row.name: row for row in await ps.job_table(client)}
    jobs = await client.list(JOBS, type=Job)
    late = max((job.status.start_time for job in jobs if job.status.start_time), default=None)
    jobs.sort(key=lambda job: (job.status.start_time or late or 0, job.metadata.name))
    return [await outcome(client, job, rows[job.metadata.name]) for job in jobs]


async def outcome(client: RestClient, job: Job, row: JobRow) -> DemoResult:
    """Compare the end of a Job with the end that its annotation expects."""
    expected = job.metadata.annotations.get(EXPECT, "Complete")
    ended = {JobState.SUCCEEDED: "Complete"}.get(row.state, row.state)
    return DemoResult(
        name=row.name,
        queue=row.queue,
        priority=row.priority,
        expected=expected,
        ended=ended,
        as_expected=ended == expected,
        waited=row.waited_seconds,
        ran=row.ran_seconds,
        failed_pods=row.failed,
        output=await _last_line(client, job),
    )


async def _last_line(client: RestClient, job: Job) -> str:
    """Return the last log line of a Job's newest pod, or "" if it printed nothing."""
    pods = await client.list(
        PODS, job.metadata.namespace, label_selector=f"{CONTROLLER_UID}={job.metadata.uid}", type=Pod
    )
    if not pods:
        return ""
    newest = max(pods, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.metadata.name))
    return await last_log_lines.error_line_of(client, *newest.metadata.key)

"""`sluice deactivate`: sets spec.active of Workloads to false, which stops their Jobs and dequeues them."""

from __future__ import annotations

import argparse
import asyncio

from queue_manager.api.resources import WORKLOADS
from queue_manager.cli.acting import Report
from queue_manager.cli.connection import connect, home_of
from queue_manager.cli.reactivate import why_not
from queue_manager.cli.targets import JobTarget, find_all, patch
from queue_manager.engine.client import Client
from queue_manager.visibility.consequences import on_deactivation
from queue_manager.visibility.inbox import job_argument


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    home = home_of(args)
    async with connect(args.kubeconfig, args.context) as client:
        targets = await find_all(client, args.jobs, args.namespace or home)
        with Report(args.output, dry_run=args.dry_run) as report:
            for target in targets:
                await deactivate(client, target, report, home, dry_run=args.dry_run)
    return report.end("")


async def deactivate(client: Client, target: JobTarget, report: Report, home: str, *, dry_run: bool) -> None:
    workload, refusal = target.workload, why_not(target)
    if workload is None or refusal:
        report.add("Job", *target.key, "refused", refusal)
    elif not workload.spec.active:
        report.add("Job", *target.key, "unchanged", "it is deactivated already")
    else:
        change = patch(client, WORKLOADS, workload.metadata.key, {"spec": {"active": False}}, dry_run=dry_run)
        if await report.made("Job", target.key, change):
            report.add("Job", *target.key, "deactivated", on_deactivation(workload, job_argument(workload, home)))

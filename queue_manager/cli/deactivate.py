"""`sluice deactivate`: Jobs stopped and kept out of line. One merge patch of spec.active each."""

from __future__ import annotations

import argparse
import asyncio

from queue_manager.api.resources import WORKLOADS
from queue_manager.cli.acting import Report
from queue_manager.cli.connection import connect, home_of
from queue_manager.cli.reactivate import why_not
from queue_manager.cli.targets import find_all, patch
from queue_manager.engine.transport import ApiError
from queue_manager.visibility.consequences import on_deactivation
from queue_manager.visibility.inbox import typed


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    report, home = Report(args.output, dry_run=args.dry_run), home_of(args)
    async with connect(args.kubeconfig, args.context) as client:
        for target in await find_all(client, args.jobs, args.namespace or home):
            workload, refusal = target.workload, why_not(target)
            if workload is None or refusal:
                report.add("Job", *target.key, "refused", refusal)
                continue
            if not workload.spec.active:
                report.add("Job", *target.key, "unchanged", "it is deactivated already")
                continue
            change = {"spec": {"active": False}}
            try:
                await patch(client, WORKLOADS, workload.metadata.key, change, dry_run=args.dry_run)
            except ApiError as error:
                report.failed("Job", *target.key, error)
                continue
            report.add("Job", *target.key, "deactivated", on_deactivation(workload, typed(workload, home)))
    return report.end("")

"""`sluice deactivate`: sets spec.active of Workloads to false, which stops their Jobs and dequeues them."""

from __future__ import annotations

import argparse
import asyncio

from queue_manager.api.api_resources import WORKLOADS
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import connect, find_kubeconfig, read_default_namespace
from queue_manager.cli.login_name import requester
from queue_manager.cli.machine_formats import object_names
from queue_manager.cli.named_targets import JobTarget, find_all, patch
from queue_manager.cli.reactivate import why_refused
from queue_manager.engine.rest_client import RestClient
from queue_manager.lifecycle.deactivated_by import note
from queue_manager.visibility.deactivated_jobs import job_argument
from queue_manager.visibility.effects_of_changes import on_deactivation


def run(args: argparse.Namespace) -> int:
    """Deactivate the Workloads of the named Jobs; return the exit code."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    default_ns = read_default_namespace(args)
    async with connect(args.kubeconfig, args.context) as client:
        targets = await find_all(client, args.jobs, args.namespace or default_ns, "deactivated")
        user = await requester(client, find_kubeconfig(args.kubeconfig))
        names = object_names(args.namespace or default_ns)
        with ChangeReport(args.output, dry_run=args.dry_run, name=names) as report:
            for target in targets:
                await deactivate(client, target, report, default_ns, user, dry_run=args.dry_run)
    return report.end("")


async def deactivate(
    client: RestClient, target: JobTarget, report: ChangeReport, default_ns: str, user: str, *, dry_run: bool
) -> None:
    """Deactivate the Workload of one Job, and add to `report` what was changed, or why nothing was.

    `user`: who deactivates it; "" if that is not known.
    """
    workload, refusal = target.workload, why_refused(target)
    if workload is None or refusal:
        report.add("Job", *target.key, "refused", refusal)
    elif not workload.spec.active:
        report.add("Job", *target.key, "unchanged", "it is deactivated already")
    else:
        edit = {"metadata": {"annotations": note(workload, user)}, "spec": {"active": False}}
        change = patch(client, WORKLOADS, workload.metadata.key, edit, dry_run=dry_run)
        if await report.perform("Job", target.key, change):
            effect = on_deactivation(workload, job_argument(workload, default_ns), dry_run=dry_run)
            report.add("Job", *target.key, "deactivated", effect)

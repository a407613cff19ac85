"""`sluice cancel`: deletes Jobs that have not ended, with their pods, and waits until they are gone.

A Job that has ended stays, with its pods and logs. `sluice deactivate` stops a Job and keeps it.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from job_controller import conditions
from job_controller.model import Job
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import connect, find_kubeconfig, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_UNEXPECTED
from queue_manager.cli.job_deletion import announce, delete, until_gone
from queue_manager.cli.login_name import requester
from queue_manager.cli.machine_formats import object_names
from queue_manager.cli.named_targets import JobTarget, find_all
from queue_manager.engine.rest_client import RestClient

RELEASED = "its pods have ended and its quota is released"
LEFT_QUEUE = "it has left its queue"
WOULD_END = "its pods would be ended and its quota released"  # of a dry run
GOING_ON = "its deletion has begun; its quota is released when its pods have ended"
LEAVING = "its deletion has begun; it ends when a manager has released its Workload"  # of one without pods


def run(args: argparse.Namespace) -> int:
    """Cancel the named Jobs; return the exit code."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    namespace = args.namespace or read_default_namespace(args)
    async with connect(args.kubeconfig, args.context) as client:
        targets = await find_all(client, args.jobs, namespace, "cancelled")
        user = await requester(client, find_kubeconfig(args.kubeconfig))
        with ChangeReport(args.output, dry_run=args.dry_run, name=object_names(namespace)) as report:
            begun = [target for target in targets if await begin(client, target, report, user, dry_run=args.dry_run)]
            in_time = await end(client, begun, report, None if args.dry_run else args.timeout, dry_run=args.dry_run)
    code = report.end("")
    return code if code or in_time else EXIT_UNEXPECTED


async def begin(client: RestClient, target: JobTarget, report: ChangeReport, user: str, *, dry_run: bool) -> bool:
    """Delete one Job; return whether to wait for its end. If nothing is deleted, add why to `report`.

    `user`: who cancels it; "" if that is not known.
    """
    job = target.job
    if job is None:
        report.add("Job", *target.key, "unchanged", "it is deleted already")
        return False
    ended = conditions.finished(job.status)
    if ended is not None:
        report.add("Job", *target.key, "unchanged", f"it has ended ({ended.type}); its pods and logs stay")
        return False
    if not dry_run:
        await announce(client, job, user)
    return await report.perform("Job", target.key, delete(client, job, dry_run=dry_run))


async def end(
    client: RestClient, targets: Sequence[JobTarget], report: ChangeReport, seconds: float | None, *, dry_run: bool
) -> bool:
    """Wait until the Jobs are gone, and add each to `report`; return False if `seconds` did not suffice."""
    waits = {asyncio.create_task(_gone(client, target, report, dry_run=dry_run)): target for target in targets}
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*waits)
    except TimeoutError:
        return False
    finally:  # after Ctrl-C too: the API server has accepted all deletions
        for wait, target in waits.items():
            if not wait.done() or wait.cancelled():
                wait.cancel()
                runs = target.job is not None and not target.job.spec.suspend
                report.add("Job", *target.key, "deleting", GOING_ON if runs else LEAVING)
    return True


async def _gone(client: RestClient, target: JobTarget, report: ChangeReport, *, dry_run: bool) -> None:
    job = target.job
    if job is not None and not dry_run:
        await until_gone(client, job)
    report.add("Job", *target.key, "cancelled", WOULD_END if dry_run else note(job))


def note(job: Job | None) -> str:
    """Return the note of a row: what the deletion does to the Job's pods and its quota."""
    return LEFT_QUEUE if job is not None and job.spec.suspend else RELEASED

"""`sluice wait`: waits until Jobs have finished, been admitted or started."""

from __future__ import annotations

import argparse
import asyncio

from queue_manager.cli import output
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.job_waiting import COLUMNS, JobWait, exit_code
from queue_manager.cli.machine_formats import job_names
from queue_manager.cli.named_targets import find_all
from queue_manager.visibility.wait_goals import Goal, Outcome


def run(args: argparse.Namespace) -> int:
    """Wait, and print how it ended for each Job; return the exit code."""
    outcomes = asyncio.run(_wait(args))
    names = job_names(args.namespace or read_default_namespace(args))
    output.show(args.output, COLUMNS, outcomes, "", row_type=Outcome, name=names)
    return exit_code(outcomes)


async def _wait(args: argparse.Namespace) -> list[Outcome]:
    default_ns = read_default_namespace(args)
    async with connect(args.kubeconfig, args.context) as client:
        targets = await find_all(client, args.jobs, args.namespace or default_ns)
        jobs = {target.key: target.job.metadata.uid if target.job is not None else "" for target in targets}
        return await JobWait(client, jobs, Goal(args.goal), default_ns).run(args.timeout)

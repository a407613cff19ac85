"""`sluice logs`: prints the logs of a Job's pods."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from job_controller.conditions import finished
from job_controller.model import Job, Key
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED, CommandRefused
from queue_manager.cli.job_waiting import JobWait, exit_code
from queue_manager.cli.log_streams import LogPrinter, follow_job, naming_continuation
from queue_manager.cli.named_targets import JobTarget, find, key_of
from queue_manager.cli.pod_reading import pods_or_refusal
from queue_manager.cli.ps import reason
from queue_manager.cli.refused_pod_reading import with_refused_pods
from queue_manager.cli.removed_logs import Chosen, ended_pods, removal
from queue_manager.cli.standard_streams import check_reader, say
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.lifecycle.pod_causes import CauseRank, cause_of
from queue_manager.visibility.job_states import JobState, job_row
from queue_manager.visibility.log_selection import LogSource, has_several_pods, log_sources, missing_index
from queue_manager.visibility.memory_advice import killed_for_memory
from queue_manager.visibility.wait_goals import Result
from queue_manager.visibility.wire_types import Pod


def run(args: argparse.Namespace) -> int:
    """Print the chosen logs; return the exit code: 1 without a log or if a followed Job is deactivated,
    2 if it can never start, 3 if a log cannot be read.
    """
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    key = key_of(args.job, args.namespace or read_default_namespace(args))
    async with connect(args.kubeconfig, args.context) as client:
        target = await find(client, key)
        if target.job is None:
            raise CommandRefused(f"Job {target.key} is deleted, and its logs with it", EXIT_NEVER)
        check_index(target.job, args.index)
        if args.follow:
            return await _follow(client, target, args)
        return await _print(client, target, target.job, args)


def check_index(job: Job, index: int | None) -> None:
    """Raise CommandRefused for an index that the Job does not have."""
    if text := missing_index(job, index):
        raise CommandRefused(text, EXIT_NEVER)


async def _print(client: RestClient, target: JobTarget, job: Job, args: argparse.Namespace) -> int:
    pods = await pods_or_refusal(client, target)
    sources = log_sources(
        job, pods, index=args.index, failed=args.failed, previous=args.previous, container=args.container or ""
    )
    if not sources:
        say(f"sluice logs: {await _why_none(client, target, job, pods, args)}")
        return EXIT_UNEXPECTED
    printer = LogPrinter(client, job.metadata.namespace, prefixed=len(sources) > 1)
    for source in sources:
        await printer.print(source)
    report_silence(job, pods, printer.empty)
    return EXIT_ERROR if printer.unreadable else EXIT_OK


def report_silence(job: Job, pods: Sequence[Pod], empty: Sequence[LogSource]) -> None:
    """Report on standard error why failed pods have empty logs."""
    silent = {source.uid for source in empty}
    for pod in pods:
        cause = cause_of(pod) if pod.metadata.uid in silent and pod.status.has_failed else None
        if cause is None:
            continue
        memory = killed_for_memory(job, [pod]) if cause.rank == CauseRank.OUT_OF_MEMORY else None
        limit = f" ({memory.text})" if memory is not None else ""
        say(f"sluice logs: pod {pod.metadata.name} printed nothing: {cause.text}{limit}{UNWRITTEN if limit else ''}")


async def _why_none(
    client: RestClient, target: JobTarget, job: Job, pods: Sequence[Pod], args: argparse.Namespace
) -> str:
    """Return why there is no log to print."""
    of = f"of {job.metadata.key}" + (f" with index {args.index}" if args.index is not None else "")
    spec = job.spec.template.get("spec") or {}
    names = [each["name"] for group in ("initContainers", "containers") for each in spec.get(group) or ()]
    if args.container and args.container not in names:
        return f"no container {args.container} {of} has started; its containers are {', '.join(names)}"
    [row] = await with_refused_pods(client, [job_row(job, target.workload, SystemClock().now(), pods=pods)], [job])
    state = f"{row.state}{', ' if reason(row) else ''}{reason(row)}"
    chosen = Chosen(args.index, args.failed, args.previous)
    gone = removal(job, target.workload, await ended_pods(args, job), SystemClock().now(), chosen, pods)
    if gone:
        which = "of a failed pod " if args.failed else "of an earlier attempt " if args.previous else ""
        keep = "" if finished(job.status) else f"; `sluice logs -f {args.job} > FILE` keeps that of the next attempt"
        return f"no log {which}{of} is left: {gone}; now {state}{keep}"
    if args.failed:
        failed = any(pod.status.has_failed for pod in pods)
        return f"no {'failed pod' if failed else 'pod'} {of} has {'started' if failed else 'failed'}: {state}"
    if args.previous:
        return f"no attempt {of} has ended before the newest: {state}"
    what = f"container {args.container}" if args.container else "pod"
    return f"no {what} {of} has started: {state}"


async def _follow(client: RestClient, target: JobTarget, args: argparse.Namespace) -> int:
    """Print the newest attempts, and all that follow until waiting for the Job is over, as `sluice wait` decides."""
    job = target.job
    if job is None:
        raise ValueError("a Job is required")
    printer = LogPrinter(client, job.metadata.namespace, prefixed=args.index is None and has_several_pods(job))
    pods, container = await pods_or_refusal(client, target), args.container or ""
    newest = log_sources(job, pods, index=args.index, container=container)
    earlier = log_sources(job, pods, index=args.index, container=container, all_attempts=True)
    skip = [source for source in earlier if source not in newest]
    nothing_yet = "" if newest else await _why_none(client, target, job, pods, args)
    ending = Ending(client, job, nothing_yet, read_default_namespace(args))
    with naming_continuation("sluice logs", ending.name):
        try:
            await follow_job(client, job, printer, ending.is_over, index=args.index, container=container, skip=skip)
        finally:
            ending.cancel()
        if printer.empty:
            report_silence(job, await pods_or_refusal(client, target), printer.empty)
        code = ending.report()
    return EXIT_ERROR if printer.unreadable else code


class Ending:
    """Waits for the end of a followed Job. `nothing_yet`: why it has no log at first; "" if it has one.

    `name`: the Job, as an argument of other commands.
    """

    def __init__(self, client: RestClient, job: Job, nothing_yet: str, default_ns: str) -> None:
        self._nothing_yet = nothing_yet
        self.name = job.metadata.name if job.metadata.namespace == default_ns else str(job.metadata.key)
        waiting = JobWait(client, {job.metadata.key: job.metadata.uid}, default_ns=default_ns, report=self._observed)
        self._ended = asyncio.create_task(waiting.run())

    async def is_over(self) -> bool:
        """Whether no pod of the Job starts any more. Raises BrokenPipeError if the output lost its reader."""
        check_reader()
        return self._ended.done()

    def cancel(self) -> None:
        """Stop waiting."""
        self._ended.cancel()

    def report(self) -> int:
        """If the followed Job is deactivated or can never start, print why; return the exit code."""
        (outcome,) = self._ended.result()
        remedy = _REMEDIES.get(outcome.result)
        if remedy is None:
            return EXIT_OK
        state = (outcome.state or "").lower()
        say(f"sluice logs: Job {self.name} is {state}: {outcome.reason or 'no reason is given'}; {remedy} {self.name}")
        return exit_code([outcome])

    def _observed(self, key: Key, state: JobState | None, why: str) -> None:
        """Say once why no log is there yet. JobWait also calls this with the last state; then nothing is said."""
        asyncio.get_running_loop().call_soon(self._report_waiting)

    def _report_waiting(self) -> None:
        if self._nothing_yet and not self._ended.done():
            say(f"sluice logs: {self._nothing_yet}; waiting for one")
        self._nothing_yet = ""


# A container that is killed cannot write what its program still holds in memory.
UNWRITTEN = "; output that it had not flushed is lost"
_REMEDIES = {Result.STOPPED: "sluice reactivate", Result.NEVER: "sluice explain"}

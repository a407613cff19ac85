"""`sluice run -- COMMAND`: runs a command as a queued Job, prints its log, and ends with its exit code.

What Sluice itself reports goes to standard error, so that standard output is that of the command. After Ctrl-C the Job
keeps running, or is deleted with --rm; a second Ctrl-C does not wait for that.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from job_controller.model import Job, Key
from queue_manager.api.api_resources import JOBS
from queue_manager.cli import output
from queue_manager.cli.connection import connect, find_kubeconfig, read_default_namespace
from queue_manager.cli.creation_exit_codes import nothing_created
from queue_manager.cli.exit_codes import (
    EXIT_INTERRUPTED,
    EXIT_NEVER,
    EXIT_OK,
    EXIT_UNEXPECTED,
    CommandRefused,
)
from queue_manager.cli.interrupted_creations import Creations
from queue_manager.cli.job_deletion import delete, until_gone
from queue_manager.cli.job_from_command import CommandJob, option_of
from queue_manager.cli.job_waiting import JobWait
from queue_manager.cli.log_streams import LogPrinter, follow_job, naming_continuation
from queue_manager.cli.login_name import name_user, submitter
from queue_manager.cli.machine_formats import MACHINE_FORMS, job_names
from queue_manager.cli.manifests import Manifest
from queue_manager.cli.named_targets import JobTarget, workload_of
from queue_manager.cli.pod_reading import pods_of
from queue_manager.cli.polling import patiently
from queue_manager.cli.published_config import published
from queue_manager.cli.queue_choice import check_priority_class, choose_queue
from queue_manager.cli.standard_streams import say
from queue_manager.cli.submit import COLUMNS, Submitted, report_further, report_never, submit
from queue_manager.cli.time_texts import deadline
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.pods_ready_timeout import pods_deadline
from queue_manager.lifecycle.unscheduled import unscheduled
from queue_manager.lifecycle.workload_settings import settings_of
from queue_manager.local.kubeconfig_file import is_of_local_cluster
from queue_manager.visibility.deactivated_jobs import retries_left
from queue_manager.visibility.eviction_before_replacement import UnusedRetries, unused_retries
from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.log_selection import has_several_pods
from queue_manager.visibility.pod_attempts import shell_exit_code
from queue_manager.visibility.wait_goals import Outcome, Result
from queue_manager.visibility.wire_types import Pod

DEFAULT_CPU = "1"
LOCAL_IMAGE = "local"  # pods of `sluice up` are processes, which need no image
PENDING_SECONDS = 1.0  # after which a Job that waits is reported
# The start and the end of a Job are not reported: the log and the exit code show them.
SILENT = (JobState.RESERVED, JobState.STARTING, JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED)


@dataclass(frozen=True, slots=True)
class Options(Manifest):
    """A Job that comes from options instead of a file: mistakes name the option."""

    def place(self, field: str = "") -> str:
        """Return the option that sets a field, or the command."""
        return option_of(field) or "sluice run"


def run(args: argparse.Namespace) -> int:
    """Run the command as a Job; return its exit code."""
    with nothing_created():
        check(args)
    attempt = FollowedRun(args)
    try:
        return asyncio.run(attempt.run())
    except KeyboardInterrupt:
        attempt.interrupted()
        return EXIT_INTERRUPTED


def check(args: argparse.Namespace) -> None:
    """Raise CommandRefused for options that contradict each other."""
    if not command_of(args):
        raise CommandRefused("name a command: sluice run -- COMMAND ARGUMENTS", EXIT_NEVER)
    if args.detach and args.rm:
        raise CommandRefused("--rm deletes the Job at its end, for which --detach does not wait", EXIT_NEVER)
    if args.output in MACHINE_FORMS and not args.detach:
        raise CommandRefused(f"-o {args.output} needs --detach: otherwise the command's log is the output", EXIT_NEVER)


def command_of(args: argparse.Namespace) -> list[str]:
    """Return the command and its arguments, without the `--` that may separate it from the options."""
    given: list[str] = args.argv
    return given[1:] if given[:1] == ["--"] else given


class FollowedRun:
    """One `sluice run`, from the creation of the Job to its end."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._default_ns = ""
        self._job: Submitted | None = None
        self._creations = Creations()
        self._state: JobState | None = None
        self._patience_reported = False

    async def run(self) -> int:
        """Create the Job and, unless detached, print its log and wait for its end."""
        args = self._args
        self._default_ns = read_default_namespace(args)
        namespace = args.namespace or self._default_ns
        async with connect(args.kubeconfig, args.context) as client:
            with nothing_created():
                tree = (await self._command_job(client, namespace)).manifest(namespace)
                name_user(tree["metadata"], submitter(find_kubeconfig(args.kubeconfig)))
                manifest = Options("sluice run", tree, yaml.MappingNode("tag:yaml.org,2002:map", []))
                (self._job,) = await submit(
                    client,
                    [(manifest, tree)],
                    namespace,
                    self._default_ns,
                    replace=args.replace,
                    creations=self._creations,
                )
            if not args.detach:
                say(f"sluice run: Job {self._name} in queue {self._job.queue}")
            await self._report_unused_retries(client, namespace)
            if args.detach:
                output.show(args.output, COLUMNS, [self._job], "", row_type=Submitted, name=job_names(namespace))
                report_never("run", [self._job] if self._job.never else [], self._default_ns)
                return EXIT_NEVER if self._job.never else EXIT_OK
            with naming_continuation("sluice run", self._name):
                code = await self._attend(client, self._job)
            if args.rm:
                await self._remove(client)
        return code

    async def _command_job(self, client: RestClient, namespace: str) -> CommandJob:
        args = self._args
        local = is_of_local_cluster(find_kubeconfig(args.kubeconfig))
        if not local and not args.image:
            raise CommandRefused("name the container image with --image", EXIT_NEVER)
        queue = await choose_queue(client, namespace, args.queue)
        if args.priority:
            await check_priority_class(client, Key(namespace, queue), args.priority)
        return CommandJob(
            command=command_of(args),
            queue=queue,
            image=args.image or LOCAL_IMAGE,
            name=args.name or "",
            cpu=args.cpu,
            memory=args.memory or "",
            env=variables(args.env, local=local),
            priority=args.priority or "",
            completions=args.completions or args.parallelism,
            parallelism=args.parallelism,
            retries=args.retries,
            directory=args.workdir or (str(Path.cwd()) if local else ""),
        )

    async def _attend(self, client: RestClient, row: Submitted) -> int:
        """Print the log of the Job until it has ended; return the exit code of the command."""
        job = await client.get(JOBS, row.namespace, row.name, type=Job)
        waiting = JobWait(client, {job.metadata.key: row.uid}, default_ns=self._default_ns, report=self._report)
        ended = asyncio.create_task(waiting.run())
        printer = LogPrinter(client, row.namespace, prefixed=has_several_pods(job))

        async def is_over() -> bool:
            return ended.done()

        async def troubled(pods: Sequence[Pod]) -> None:
            await self._report_patience(client, job, pods)

        try:
            await follow_job(client, job, printer, is_over, on_trouble=troubled)
        finally:
            ended.cancel()
        (outcome,) = ended.result()
        code = await code_of(client, job, outcome)
        if outcome.result != Result.REACHED:
            unused = await gave_up(client, job) if outcome.result == Result.STOPPED else ""
            say(f"sluice run: Job {self._name} {conclusion(outcome)}{unused}")
            report_further("run", [outcome], self._default_ns)
        return code

    async def _report_unused_retries(self, client: RestClient, namespace: str) -> None:
        """Report that waitForPodsReady may end the Job before its retries, as far as the configuration is known."""
        config = await published(client, [namespace]) if self._args.retries else None
        if config is None:
            return
        settings, options = settings_of(config).pods_ready, config.job_controller.options()
        found = unused_retries(self._args.retries, settings, options)
        if found is not None and settings is not None:
            say(f"sluice run: {retries_sentence(self._args.retries, found, settings.limit or 0)}")

    def _report(self, key: Key, state: JobState | None, why: str) -> None:
        """Report a new state on standard error, Pending only if the Job stays in it for PENDING_SECONDS."""
        self._state = state
        if state == JobState.PENDING:
            asyncio.get_running_loop().call_later(PENDING_SECONDS, self._report_pending, why)
        elif state not in SILENT:
            say(f"sluice run: {state or 'deleted'}{': ' if why else ''}{why}")

    def _report_pending(self, why: str) -> None:
        if self._state == JobState.PENDING:
            say(f"sluice run: {self._state}{': ' if why else ''}{why}")

    async def _report_patience(self, client: RestClient, job: Job, pods: Sequence[Pod]) -> None:
        """Report once until when a Job keeps its quota whose pods do not start, and how to end it before."""
        if self._patience_reported:
            return
        self._patience_reported = True
        until = await patiently(lambda: ready_until(client, job, pods))
        when = f" until {deadline(until, SystemClock().now())}" if until is not None else ""
        say(f"sluice run: waits for ready pods{when}; to stop it now: sluice cancel {self._name}")

    @property
    def _name(self) -> str:
        """The Job as an argument of other commands."""
        if self._job is None:
            return ""
        name = self._job.name
        return name if self._job.namespace == self._default_ns else f"{self._job.namespace}/{name}"

    # --- the end of it ---

    def interrupted(self) -> None:
        """Report after Ctrl-C what happens to the Job; delete it with --rm."""
        if self._job is None:
            say(f"sluice run: {self._creations.interrupted()}")
        elif self._args.rm:
            asyncio.run(self._connect_and_remove())
        else:
            say(
                f"sluice run: Job {self._name} keeps running; its log: sluice logs -f {self._name}; "
                f"to stop it: sluice cancel {self._name}"
            )

    async def _connect_and_remove(self) -> None:
        async with connect(self._args.kubeconfig, self._args.context) as client:
            await self._remove(client)

    async def _remove(self, client: RestClient) -> None:
        """Delete the Job, and wait until its pods are gone."""
        if self._job is None:
            return
        try:
            job = await client.get(JOBS, self._job.namespace, self._job.name, type=Job)
        except ApiError as error:
            if not error.is_not_found:
                raise
            return
        await delete(client, job)
        await until_gone(client, job)
        say(f"sluice run: Job {self._name} deleted (--rm)")


def variables(given: Sequence[tuple[str, str | None]], *, local: bool) -> list[tuple[str, str]]:
    """Return the environment of the command. A variable without value has that of this process.

    On this machine PATH is passed on, so that the command finds the same programs as here. Raises CommandRefused.
    """
    named: dict[str, str] = {"PATH": os.environ["PATH"]} if local and "PATH" in os.environ else {}
    for name, value in given:
        if value is None and name not in os.environ:
            raise CommandRefused(f"--env {name}: this shell exports no such variable", EXIT_NEVER)
        named[name] = os.environ[name] if value is None else value
    return list(named.items())


async def ready_until(client: RestClient, job: Job, pods: Sequence[Pod]) -> datetime | None:
    """Return when the Workload will be evicted if its pods are not ready by then; None: never, or unknown."""
    config, workload = await published(client, [job.metadata.namespace]), await workload_of(client, job)
    if config is None or workload is None:
        return None
    found = pods_deadline(workload, settings_of(config), unscheduled(pods))
    return found.at if found is not None else None


async def code_of(client: RestClient, job: Job, outcome: Outcome) -> int:
    """Return the exit code for the end of a Job: the highest of its pods if it failed."""
    if outcome.result == Result.REACHED:
        return EXIT_OK
    if outcome.result == Result.NEVER:
        return EXIT_NEVER
    pods = await pods_of(client, JobTarget(job, None)) if outcome.result == Result.FAILED else []
    return max((shell_exit_code(pod) or EXIT_UNEXPECTED for pod in pods if pod.status.has_failed), default=1)


def retries_sentence(retries: int, found: UnusedRetries, limit: int) -> str:
    """Say why not all retries will be used."""
    after = "the first failure" if found.since_first or found.late == 1 else "the one before has failed"
    times = "once" if limit == 0 else f"{limit + 1} times"
    return (
        f"--retries {retries}: the Job may be deactivated after {found.used}: retry {found.late} comes "
        f"{found.after:g} s after {after}, and waitForPodsReady waits {found.patience:g} s for ready pods, "
        f"{times} (backoffLimitCount {limit})"
    )


async def gave_up(client: RestClient, job: Job) -> str:
    """Return `retries_left` of the newest state, as the end of a sentence."""
    newest = await client.get(JOBS, *job.metadata.key, type=Job)
    workload = await workload_of(client, newest)
    said = retries_left(newest, workload) if workload is not None else ""
    return f"; {said}" if said else ""


def conclusion(outcome: Outcome) -> str:
    """Return the end of a Job that has not succeeded, as the end of a sentence."""
    why = f": {outcome.reason}" if outcome.reason else ""
    match outcome.result:
        case Result.FAILED:
            return f"failed{why}"
        case Result.STOPPED:
            return f"is deactivated{why}"
        case Result.NEVER:
            return f"was created and stays{why}; to delete it: sluice cancel {outcome.name}"
        case _:
            return f"was deleted{why}"

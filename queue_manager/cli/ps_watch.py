"""`sluice ps --watch`: follows the list of Jobs by watches, without polling.

Each change of a Job, a Workload or a pod leads to one reading, which takes all from caches. Changes come in bursts,
those of a Job and its Workload over two watches. So a reading waits until SETTLE_SECONDS have passed without a further
change, and readings take at most a fifth of the time. On a terminal the times advance each second without a reading.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from rich.console import Console

from job_controller.model import Job, Key, Pod
from queue_manager.api.api_resources import JOBS, PODS, WORKLOADS, Resource
from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.connection import NoResponse, connect, one_namespace, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.followed_list import AppendedList, FollowedList, RedrawnList
from queue_manager.cli.job_filter import JobFilter
from queue_manager.cli.machine_formats import MACHINE_FORMS, job_names
from queue_manager.cli.named_targets import get_or_none
from queue_manager.cli.watched_client import WatchedClient, watching
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.json_codec import HasMetadata
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.visibility.job_states import WORKLOAD_CREATION_TIMEOUT, JobRow, JobState

KINDS: dict[Resource, type[HasMetadata]] = {WORKLOADS: Workload, JOBS: Job, PODS: Pod}
SETTLE_SECONDS = 0.2  # without a change, before the list is read
MOST_SETTLE_SECONDS = 1.0  # the longest wait for that
TICK_SECONDS = 1.0  # between two drawings of times
FORBIDDEN = 403
# A Job that no queue takes up is reported after this time, without any change of an object.
OVERDUE_SECONDS = WORKLOAD_CREATION_TIMEOUT.total_seconds() + 1


class JobList(NamedTuple):
    """What is followed: the columns, which rows are shown, and how all of them are read."""

    columns: Sequence[output.TableColumn]
    chosen: JobFilter
    read: Callable[[RestClient, argparse.Namespace], Awaitable[list[JobRow]]]


def run(args: argparse.Namespace, jobs: JobList) -> int:
    """Follow the list until the user ends it; Ctrl-C raises KeyboardInterrupt."""
    asyncio.run(_run(args, jobs))
    return EXIT_OK


async def _run(args: argparse.Namespace, jobs: JobList) -> None:
    changed = asyncio.Event()
    async with connect(args.kubeconfig, args.context, forbidden=one_namespace(args)) as client:
        await jobs.read(client, args)  # a refusal ends the command; later failures are repeated
        async with watching(
            client, await readable_kinds(client, args.namespace or ""), args.namespace or "", changed
        ) as watched:
            with followed_list(args, jobs) as shown:
                await Follower(watched, args, jobs, shown, changed).follow()


async def readable_kinds(client: RestClient, namespace: str) -> dict[Resource, type[HasMetadata]]:
    """Return the kinds to watch: without pods if the user may not list them. Then no cause is read from them either."""
    answer = await client.transport.request(Request("GET", PODS.path(namespace), {"limit": "1"}))
    return {resource: kind for resource, kind in KINDS.items() if resource != PODS or answer.status != FORBIDDEN}


def followed_list(args: argparse.Namespace, jobs: JobList) -> FollowedList:
    """Return where the list is printed: a terminal that can move its cursor, or a stream of lines."""
    chosen = jobs.chosen
    columns = output.columns_of(args.output, jobs.columns)
    if args.output not in MACHINE_FORMS and sys.stdout.isatty() and not Console().is_dumb_terminal:
        return RedrawnList(columns, lambda row: is_chosen(chosen, row))
    names = job_names(args.namespace or read_default_namespace(args))
    return AppendedList(args.output, columns, lambda row: is_chosen(chosen, row), names)


def is_chosen(chosen: JobFilter, row: JobRow) -> bool:
    """Whether the list has this row now."""
    return chosen.selects(row, SystemClock().now())


class Follower:
    """Reads the list after changes, and shows it."""

    def __init__(
        self,
        client: WatchedClient,
        args: argparse.Namespace,
        jobs: JobList,
        shown: FollowedList,
        changed: asyncio.Event,
    ) -> None:
        self._client = client
        self._args = args
        self._jobs = jobs
        self._shown = shown
        self._changed = changed
        self._read_at = 0.0
        # When the list is read once more without a change.
        self._overdue_at: float | None = asyncio.get_running_loop().time() + OVERDUE_SECONDS
        self._refused: set[Key] = set()  # Jobs that are refused for certain
        self._failure = ""

    async def follow(self) -> None:
        """Read the Jobs again after each change and print the list, until this task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            began = loop.time()
            await self._read()
            self._read_at = loop.time()
            await asyncio.sleep(min(10.0, 4 * (self._read_at - began)))
            await self._until_changed()

    async def _read(self) -> None:
        try:
            rows = await self._jobs.read(self._client, self._args)
            if await self._read_refused(rows):
                rows = await self._jobs.read(self._client, self._args)
        except (NoResponse, ApiError) as error:
            self._failure = str(error)
            return
        self._failure = ""
        self._shown.show(rows, self._client.failure)

    async def _read_refused(self, rows: list[JobRow]) -> bool:
        """Read the Jobs that seem to be refused: a Workload that is finished may have arrived before its ended Job."""
        refused = {Key(row.namespace, row.name) for row in rows if row.state == JobState.REFUSED}
        uncertain = refused - self._refused
        for key in uncertain:
            job = await get_or_none(self._client, JOBS, key, Job)
            if job is not None:
                self._client.cache(JOBS).apply_response(job)
        self._refused = refused
        return bool(uncertain)

    async def _until_changed(self) -> None:
        """Wait for a change, and for the end of its burst. A failed reading is repeated at the next tick."""
        loop = asyncio.get_running_loop()
        while not await self._changes_within(TICK_SECONDS):
            self._client.check_credentials()
            passed = loop.time() - self._read_at
            self._shown.pass_time(passed, self._failure or self._client.failure)
            if self._failure:
                return
            if self._overdue_at is not None and loop.time() >= self._overdue_at:
                self._overdue_at = None
                return
        self._overdue_at = loop.time() + OVERDUE_SECONDS
        latest = loop.time() + MOST_SETTLE_SECONDS
        while loop.time() < latest:
            self._changed.clear()
            if not await self._changes_within(SETTLE_SECONDS):
                return

    async def _changes_within(self, seconds: float) -> bool:
        """Whether there is a change within this time. Ends if it is cancelled in the moment of a change, unlike
        `asyncio.wait_for` of Python 3.11: Ctrl-C would have no effect then.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

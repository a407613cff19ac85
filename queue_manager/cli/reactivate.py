"""`sluice reactivate`: requeues deactivated Workloads by a merge patch that sets spec.active to true.

The patch is repeated while the API server does not respond (`polling`), so that a staggered reactivation survives a
restart of the server: a repetition leaves an active Workload as it is.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from job_controller.model import Key
from queue_manager.api import condition_types
from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import NoResponse, connect, find_kubeconfig, read_default_namespace
from queue_manager.cli.deactivated import read_deactivated
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_UNEXPECTED, CommandRefused
from queue_manager.cli.login_name import requester
from queue_manager.cli.machine_formats import object_names
from queue_manager.cli.named_targets import JobTarget, QueueTarget, find_all, missing_queue, of_queue, patch, queue_of
from queue_manager.cli.polling import NOTICE, patiently
from queue_manager.durations import render
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.deactivated_by import note
from queue_manager.visibility.cause_groups import with_cause
from queue_manager.visibility.deactivated_jobs import deactivated_jobs
from queue_manager.visibility.effects_of_changes import KnownNames, on_reactivation


def run(args: argparse.Namespace) -> int:
    """Reactivate the named Jobs, all of a queue, or all of one cause; return the exit code."""
    by_why = args.why is not None
    if by_why and not args.why.strip():
        raise CommandRefused("--why needs a text; `sluice deactivated --by cause` lists the causes", EXIT_NEVER)
    if args.queue is not None and not args.queue.strip():
        raise CommandRefused("-q needs the name of a queue; `sluice queues` lists them", EXIT_NEVER)
    if sum((bool(args.jobs), args.all, by_why)) != 1 or (args.jobs and args.queue):
        raise CommandRefused("name Jobs, or use --all -q QUEUE, or --why TEXT", EXIT_NEVER)
    if args.all and not args.queue:
        raise CommandRefused("--all needs -q QUEUE", EXIT_NEVER)
    if args.all_namespaces and (not by_why or args.namespace):
        raise CommandRefused("-A is for --why, without -n", EXIT_NEVER)
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    default_ns = read_default_namespace(args)
    namespace = args.namespace or default_ns
    async with connect(args.kubeconfig, args.context) as client:
        if args.why is not None:
            targets = await of_cause(client, args, "" if args.all_namespaces else namespace, default_ns)
            queues = await VisibleQueues.read(client, [target.key.namespace for target in targets])
            empty = f"no deactivated Jobs whose cause contains {args.why!r}; `sluice deactivated --by cause` lists all"
        elif args.all:
            queue = queue_of(args.queue, namespace)
            queues = await VisibleQueues.read(client, [queue.key.namespace])
            targets = await deactivated(client, queue, queues, default_ns)
            empty = f"no deactivated Jobs in {queue.text}"
        else:
            targets, empty = await find_all(client, args.jobs, namespace, "reactivated"), ""
            queues = await VisibleQueues.read(client, [target.key.namespace for target in targets])
        user = await requester(client, find_kubeconfig(args.kubeconfig))
        with ChangeReport(args.output, dry_run=args.dry_run, name=object_names(namespace)) as report:
            how = Reactivation(client, queues, report, default_ns, user, args.dry_run)
            await reactivate(how, targets, stagger=args.stagger)
    code = report.end(empty)
    return EXIT_UNEXPECTED if by_why_without_match(args, report) else code


def by_why_without_match(args: argparse.Namespace, report: ChangeReport) -> bool:
    """Whether --why has found nothing, which may be a mistyped cause."""
    return args.why is not None and not report.rows


async def of_cause(client: RestClient, args: argparse.Namespace, namespace: str, default_ns: str) -> list[JobTarget]:
    """Return the deactivated Workloads of the cause --why, in the order of `sluice deactivated`."""
    rows, workloads = await read_deactivated(client, namespace, default_ns)
    by_name = {workload.metadata.key: workload for workload in workloads}
    chosen = with_cause(await of_queue(client, rows, args, namespace), args.why)
    return [JobTarget(None, by_name[Key(row.namespace, row.workload)]) for row in chosen]


class VisibleQueues:
    """The queues that the user may read."""

    def __init__(self, local: list[LocalQueue], cluster: list[ClusterQueue] | None) -> None:
        self._local = {queue.metadata.key: queue for queue in local}
        self._cluster = None if cluster is None else {queue.metadata.name: queue for queue in cluster}

    @classmethod
    async def read(cls, client: RestClient, namespaces: Iterable[str]) -> VisibleQueues:
        """Read the ClusterQueues and the LocalQueues of these namespaces, "" for all."""
        local: list[LocalQueue] = []
        for namespace in dict.fromkeys(namespaces):
            local += await client.list(LOCAL_QUEUES, namespace, type=LocalQueue)
        try:
            return cls(local, await client.list(CLUSTER_QUEUES, type=ClusterQueue))
        except ApiError as error:
            if not error.is_forbidden:
                raise
            return cls(local, None)

    def local(self, workload: Workload) -> LocalQueue | None:
        """Return the Workload's LocalQueue; None if it does not exist or is not visible."""
        return self._local.get(workload.local_queue)

    def names(self, namespace: str) -> KnownNames:
        """Return the names that messages about missing queues suggest."""
        return KnownNames([key.name for key in self._local if key.namespace == namespace], [*(self._cluster or ())])

    def cluster_queue(self, workload: Workload) -> ClusterQueue | None:
        """Return the Workload's ClusterQueue. One that the user may not read counts as open."""
        queue = self.local(workload)
        if queue is None:
            return None
        return ClusterQueue() if self._cluster is None else self._cluster.get(queue.spec.cluster_queue)


async def deactivated(
    client: RestClient, queue: QueueTarget, queues: VisibleQueues, default_ns: str
) -> list[JobTarget]:
    """Return the deactivated Workloads of a queue in the order of `sluice deactivated`."""
    try:
        await client.get(
            queue.resource, *queue.key
        )  # raises for a queue that does not exist, instead of treating it as empty
    except ApiError as error:
        if not error.is_not_found:
            raise
        raise CommandRefused(await missing_queue(client, queue, default_ns), EXIT_NEVER) from error
    namespace = "" if queue.is_cluster_queue else queue.key.namespace
    found = {
        workload.metadata.key: workload
        for workload in await client.list(WORKLOADS, namespace, type=Workload)
        if _is_of_queue(workload, queue, queues)
    }
    rows = deactivated_jobs(found.values(), (), SystemClock().now())
    return [JobTarget(None, found[Key(row.namespace, row.workload)]) for row in rows]


def _is_of_queue(workload: Workload, queue: QueueTarget, queues: VisibleQueues) -> bool:
    if not queue.is_cluster_queue:
        return workload.local_queue == queue.key
    local = queues.local(workload)
    return local is not None and local.spec.cluster_queue == queue.key.name


@dataclass(frozen=True, slots=True)
class Reactivation:
    """How Workloads are reactivated, and reported. `user`: who does it, for the history; "" if that is not known."""

    client: RestClient
    queues: VisibleQueues
    report: ChangeReport
    default_ns: str
    user: str
    dry_run: bool


async def reactivate(how: Reactivation, targets: list[JobTarget], *, stagger: float) -> None:
    """Set spec.active of each Workload, with pauses of `stagger` seconds between actual changes.

    If it is interrupted, or the API server stops responding, the report names the Jobs that were not reached. A dry run
    reports how long the pauses would last.
    """
    changes = [target for target in targets if _is_changed(target, how.report)]
    reached = 0
    try:
        for target in changes:
            if reached and stagger and not how.dry_run:
                await asyncio.sleep(stagger)
            reached += 1
            await _reactivate_one(how, target)
    except (asyncio.CancelledError, NoResponse) as error:
        how.report.not_done("Job", [target.key for target in changes[reached:]], error)
        raise
    if how.dry_run and stagger and len(changes) > 1:
        pause = timedelta(seconds=stagger)
        how.report.remark(f"one every {render(pause)}, {render(pause * (len(changes) - 1))} in all")


def _is_changed(target: JobTarget, report: ChangeReport) -> bool:
    """Whether the Workload is to be changed; if not, the report says why."""
    refusal = why_refused(target)
    if refusal:
        report.add("Job", *target.key, "refused", refusal)
    elif target.workload is not None and target.workload.spec.active:
        report.add("Job", *target.key, "unchanged", "it is active")
    return not refusal and target.workload is not None and not target.workload.spec.active


async def _reactivate_one(how: Reactivation, target: JobTarget) -> None:
    workload = target.workload
    if workload is None:
        return
    change = RepeatedPatch(how, workload)
    if await how.report.perform("Job", target.key, change.make(), lambda: change.may_be_made):
        local, above = how.queues.local(workload), how.queues.cluster_queue(workload)
        names = how.queues.names(workload.metadata.namespace)
        effect = on_reactivation(workload, local, above, how.default_ns, names=names, dry_run=how.dry_run)
        how.report.add("Job", *target.key, "reactivated", effect)


@dataclass(slots=True)
class RepeatedPatch:
    """Sets spec.active of one Workload. `may_be_made`: whether a request without a response may have done so."""

    how: Reactivation
    workload: Workload
    may_be_made: bool = False

    async def make(self) -> None:
        """Patch the Workload. Raises ApiError; NoResponse if the API server does not respond for a minute."""
        await patiently(self._attempt, NOTICE)

    async def _attempt(self) -> None:
        before, self.may_be_made = self.may_be_made, True  # until there is a response
        edit = {"metadata": {"annotations": note(self.workload, self.how.user)}, "spec": {"active": True}}
        try:
            await patch(self.how.client, WORKLOADS, self.workload.metadata.key, edit, dry_run=self.how.dry_run)
        except NoResponse as error:
            self.may_be_made = before or error.may_have_arrived
            raise


def why_refused(target: JobTarget) -> str:
    """Return why changing spec.active would have no effect, or ""."""
    workload = target.workload
    if workload is None:
        return "it is in no queue (it has no Workload)"
    if workload.is_true(condition_types.FINISHED):
        return "it has ended; submit it again instead"
    if workload.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    return ""

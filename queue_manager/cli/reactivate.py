"""`sluice reactivate`: requeues deactivated Workloads by a merge patch that sets spec.active to true."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable

from job_controller.model import Key
from queue_manager.api import condition_types
from queue_manager.api.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exits import EXIT_NEVER, CommandRefused
from queue_manager.cli.targets import JobTarget, QueueTarget, find_all, missing_queue, patch, queue_of
from queue_manager.engine.client import Client
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.transport import ApiError
from queue_manager.visibility.consequences import on_reactivation
from queue_manager.visibility.inbox import inbox


def run(args: argparse.Namespace) -> int:
    if args.all == bool(args.jobs) or args.all != bool(args.queue):
        raise CommandRefused("name Jobs, or use --all -q QUEUE", EXIT_NEVER)
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    default_ns = read_default_namespace(args)
    namespace = args.namespace or default_ns
    async with connect(args.kubeconfig, args.context) as client:
        if args.all:
            queue = queue_of(args.queue, namespace)
            queues = await VisibleQueues.read(client, [queue.key.namespace])
            targets = await deactivated(client, queue, queues, default_ns)
            empty = f"no deactivated Jobs in {queue.text}"
        else:
            targets, empty = await find_all(client, args.jobs, namespace), ""
            queues = await VisibleQueues.read(client, [target.key.namespace for target in targets])
        with ChangeReport(args.output, dry_run=args.dry_run) as report:
            await reactivate(client, targets, queues, report, default_ns, stagger=args.stagger, dry_run=args.dry_run)
    return report.end(empty)


class VisibleQueues:
    """The queues that the user may read."""

    def __init__(self, local: list[LocalQueue], cluster: list[ClusterQueue] | None) -> None:
        self._local = {queue.metadata.key: queue for queue in local}
        self._cluster = None if cluster is None else {queue.metadata.name: queue for queue in cluster}

    @classmethod
    async def read(cls, client: Client, namespaces: Iterable[str]) -> VisibleQueues:
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
        return self._local.get(workload.local_queue)

    def cluster_queue(self, workload: Workload) -> ClusterQueue | None:
        """Return the Workload's ClusterQueue. One that the user may not read counts as open."""
        queue = self.local(workload)
        if queue is None:
            return None
        return ClusterQueue() if self._cluster is None else self._cluster.get(queue.spec.cluster_queue)


async def deactivated(client: Client, queue: QueueTarget, queues: VisibleQueues, default_ns: str) -> list[JobTarget]:
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
    rows = inbox(found.values(), (), SystemClock().now())
    return [JobTarget(None, found[Key(row.namespace, row.workload)]) for row in rows]


def _is_of_queue(workload: Workload, queue: QueueTarget, queues: VisibleQueues) -> bool:
    if not queue.is_cluster_queue:
        return workload.local_queue == queue.key
    local = queues.local(workload)
    return local is not None and local.spec.cluster_queue == queue.key.name


async def reactivate(
    client: Client,
    targets: list[JobTarget],
    queues: VisibleQueues,
    report: ChangeReport,
    default_ns: str,
    *,
    stagger: float,
    dry_run: bool,
) -> None:
    """Set spec.active of each Workload, with pauses of `stagger` seconds between actual changes."""
    changed = 0
    for target in targets:
        workload, refusal = target.workload, why_refused(target)
        if workload is None or refusal:
            report.add("Job", *target.key, "refused", refusal)
            continue
        if workload.spec.active:
            report.add("Job", *target.key, "unchanged", "it is active")
            continue
        if changed and stagger and not dry_run:
            await asyncio.sleep(stagger)
        changed += 1
        change = patch(client, WORKLOADS, workload.metadata.key, {"spec": {"active": True}}, dry_run=dry_run)
        if await report.perform("Job", target.key, change):
            note = on_reactivation(workload, queues.local(workload), queues.cluster_queue(workload), default_ns)
            report.add("Job", *target.key, "reactivated", note)


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

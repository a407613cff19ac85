"""Shared by `sluice hold`, `release` and `drain`: patches spec.stopPolicy of a queue and reports the effect."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api import policy_values
from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload, stops
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.machine_formats import object_names
from queue_manager.cli.named_targets import QueueTarget, get_or_none, missing_queue, patch, queue_of
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.effects_of_changes import STOPPED_IS, load_of, on_stop, queue_obstacle, released
from queue_manager.visibility.unlisted_queues import is_unlisted

RESULTS = {**STOPPED_IS, policy_values.STOP_NONE: "released"}
ALREADY = {
    **{policy: f"it is {word} already" for policy, word in STOPPED_IS.items()},
    policy_values.STOP_NONE: "it is neither held nor drained",
}


def run(args: argparse.Namespace, policy: str) -> int:
    """Set spec.stopPolicy of a LocalQueue or ClusterQueue; return the exit code."""
    default_ns = read_default_namespace(args)
    queue = queue_of(args.queue, args.namespace or default_ns, cluster_queue=args.cluster_queue)
    return asyncio.run(_run(args, queue, policy, default_ns))


class StoppableQueue(NamedTuple):
    """A queue as it is. `obstacle`, `stopped_below`: what `on_stop` says of it once it is released."""

    policy: str
    obstacle: str = ""
    stopped_below: Sequence[LocalQueue] = ()


async def _run(args: argparse.Namespace, queue: QueueTarget, policy: str, default_ns: str = "default") -> int:
    report = ChangeReport(args.output, dry_run=args.dry_run, name=object_names(args.namespace or default_ns))
    async with connect(args.kubeconfig, args.context) as client:
        old = await find(client, queue, default_ns)
        load = load_of(await workloads_of(client, queue))
        effect = on_stop(
            policy,
            load,
            queue=queue.argument(default_ns),
            obstacle=old.obstacle,
            stopped_below=old.stopped_below,
            dry_run=args.dry_run,
        )
        if (old.policy or policy_values.STOP_NONE) == policy:
            is_blocked = policy == policy_values.STOP_NONE and (old.obstacle or old.stopped_below)
            note = f"{ALREADY[policy]}; {effect}" if is_blocked else f"{ALREADY[policy]} ({load})"
            report.add(queue.resource.kind, *queue.key, "unchanged", note)
            return report.end("")
        await patch(client, queue.resource, queue.key, {"spec": {"stopPolicy": policy}}, dry_run=args.dry_run)
        report.add(queue.resource.kind, *queue.key, RESULTS[policy], effect)
    return report.end("")


async def find(client: RestClient, queue: QueueTarget, default_ns: str) -> StoppableQueue:
    """Read a queue, and what else keeps its Jobs from starting. A ClusterQueue that may not be read counts as open."""
    try:
        if queue.is_cluster_queue:
            policy = (await client.get(CLUSTER_QUEUES, *queue.key, type=ClusterQueue)).spec.stop_policy
            below = await list_permitted(client, LOCAL_QUEUES, LocalQueue) or []
            return StoppableQueue(policy, stopped_below=[local for local in below if _is_stopped_below(local, queue)])
        local = await client.get(LOCAL_QUEUES, *queue.key, type=LocalQueue)
    except ApiError as error:
        if not error.is_not_found:
            raise
        raise CommandRefused(await missing_queue(client, queue, default_ns), EXIT_NEVER) from error
    return StoppableQueue(
        local.spec.stop_policy, queue_obstacle(queue.key, released(local), await _above(client, local))
    )


def _is_stopped_below(local: LocalQueue, queue: QueueTarget) -> bool:
    return local.spec.cluster_queue == queue.key.name and stops(local.spec.stop_policy)


async def _above(client: RestClient, local: LocalQueue) -> ClusterQueue | None:
    """Return the ClusterQueue of a LocalQueue; None if it does not exist."""
    try:
        above = await get_or_none(client, CLUSTER_QUEUES, Key("", local.spec.cluster_queue), ClusterQueue)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return ClusterQueue()
    return ClusterQueue() if above is None and is_unlisted(local, ()) else above


async def workloads_of(client: RestClient, queue: QueueTarget) -> list[Workload]:
    """Return the Workloads that the queue's stop policy affects: of a ClusterQueue also those that hold its quota
    though their LocalQueue was deleted, or names another one.
    """
    if not queue.is_cluster_queue:
        workloads = await client.list(WORKLOADS, queue.key.namespace, type=Workload)
        return [w for w in workloads if w.local_queue == queue.key]
    local_queues = {
        local.metadata.key
        for local in await client.list(LOCAL_QUEUES, type=LocalQueue)
        if local.spec.cluster_queue == queue.key.name
    }

    def is_affected(workload: Workload) -> bool:
        admission = workload.status.admission
        return workload.local_queue in local_queues if admission is None else admission.cluster_queue == queue.key.name

    return [workload for workload in await client.list(WORKLOADS, type=Workload) if is_affected(workload)]

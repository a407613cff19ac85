"""Shared by `sluice hold`, `release` and `drain`: patches spec.stopPolicy of a queue and reports the effect."""

from __future__ import annotations

import argparse
import asyncio

from queue_manager.api import policy_values
from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload, stops
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.machine_formats import object_names
from queue_manager.cli.named_targets import QueueTarget, missing_queue, patch, queue_of
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.effects_of_changes import load_of, on_stop

RESULTS = {policy_values.HOLD: "held", policy_values.HOLD_AND_DRAIN: "draining", policy_values.STOP_NONE: "released"}
ALREADY = {
    policy_values.HOLD: "it is held already",
    policy_values.HOLD_AND_DRAIN: "it is draining already",
    policy_values.STOP_NONE: "it is not stopped",
}


def run(args: argparse.Namespace, policy: str) -> int:
    """Set spec.stopPolicy of a LocalQueue or ClusterQueue; return the exit code."""
    default_ns = read_default_namespace(args)
    queue = queue_of(args.queue, args.namespace or default_ns, cluster_queue=args.cluster_queue)
    return asyncio.run(_run(args, queue, policy, default_ns))


async def _run(args: argparse.Namespace, queue: QueueTarget, policy: str, default_ns: str = "default") -> int:
    report = ChangeReport(args.output, dry_run=args.dry_run, name=object_names(args.namespace or default_ns))
    async with connect(args.kubeconfig, args.context) as client:
        old, cluster_queue = await find(client, queue, default_ns)
        load = load_of(await workloads_of(client, queue))
        if (old or policy_values.STOP_NONE) == policy:
            note = f"{ALREADY[policy]} ({load})"
            report.add(queue.resource.kind, *queue.key, "unchanged", note)
            return report.end("")
        await patch(client, queue.resource, queue.key, {"spec": {"stopPolicy": policy}}, dry_run=args.dry_run)
        note = on_stop(
            policy,
            load,
            queue=queue.argument(default_ns),
            stopped_cluster_queue=cluster_queue,
            dry_run=args.dry_run,
        )
        report.add(queue.resource.kind, *queue.key, RESULTS[policy], note)
    return report.end("")


async def find(client: RestClient, queue: QueueTarget, default_ns: str) -> tuple[str, str]:
    """Return the stop policy of a queue, and the name of its stopped ClusterQueue; "" without one."""
    try:
        if queue.is_cluster_queue:
            return (await client.get(CLUSTER_QUEUES, *queue.key, type=ClusterQueue)).spec.stop_policy, ""
        local = await client.get(LOCAL_QUEUES, *queue.key, type=LocalQueue)
    except ApiError as error:
        if not error.is_not_found:
            raise
        raise CommandRefused(await missing_queue(client, queue, default_ns), EXIT_NEVER) from error
    try:
        cluster_queue = await client.get(CLUSTER_QUEUES, "", local.spec.cluster_queue, type=ClusterQueue)
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return local.spec.stop_policy, ""
    return local.spec.stop_policy, cluster_queue.metadata.name if stops(cluster_queue.spec.stop_policy) else ""


async def workloads_of(client: RestClient, queue: QueueTarget) -> list[Workload]:
    """Return the Workloads that the queue's stop policy affects."""
    if not queue.is_cluster_queue:
        workloads = await client.list(WORKLOADS, queue.key.namespace, type=Workload)
        return [w for w in workloads if w.local_queue == queue.key]
    local_queues = {
        local.metadata.key
        for local in await client.list(LOCAL_QUEUES, type=LocalQueue)
        if local.spec.cluster_queue == queue.key.name
    }
    return [w for w in await client.list(WORKLOADS, type=Workload) if w.local_queue in local_queues]

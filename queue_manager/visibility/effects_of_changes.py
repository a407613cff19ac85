"""Describes the effect of an operator's change of spec.active or spec.stopPolicy in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api import condition_types, keys, policy_values
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload, stops
from queue_manager.visibility.short_messages import NAMES_NO_QUEUE


class Load(NamedTuple):
    """How many Workloads of a queue are pending, and how many hold quota."""

    waiting: int = 0
    running: int = 0

    def __str__(self) -> str:
        return f"{self.waiting} pending, {self.running} running"


def load_of(workloads: Iterable[Workload]) -> Load:
    """Count unfinished Workloads. A deactivated Workload without quota counts as neither pending nor running."""
    waiting = running = 0
    for workload in workloads:
        if workload.is_true(condition_types.FINISHED):
            continue
        if workload.status.admission is not None:
            running += 1
        elif workload.spec.active:
            waiting += 1
    return Load(waiting, running)


def on_reactivation(
    workload: Workload,
    queue: LocalQueue | None,
    cluster_queue: ClusterQueue | None,
    default_ns: str = "default",
    *,
    dry_run: bool = False,
) -> str:
    """Describe the effect of spec.active=true on a Workload. A queue that does not exist is None."""
    obstacle = queue_obstacle(workload.local_queue, queue, cluster_queue, default_ns)
    gates = workload.metadata.annotations.get(keys.ADMISSION_GATED_BY, "")
    waits = "it would wait" if dry_run else "waits"
    requeued, budget = "it would be requeued" if dry_run else "requeued", "with a new budget of retries"
    if obstacle:
        return f"{waits}: {obstacle}"
    if workload.is_true(condition_types.QUOTA_RESERVED):
        return f"its pods are still terminating; {'it would be' if dry_run else 'it is'} requeued after that, {budget}"
    if gates:
        return f"{waits} for its admission gates: {gates}"
    return f"{requeued} in {workload.spec.queue_name}, {budget}"


def queue_obstacle(
    key: Key, queue: LocalQueue | None, cluster_queue: ClusterQueue | None, default_ns: str = "default"
) -> str:
    """Return why no Workload of this LocalQueue can start, with the command that resolves it, or "".

    `default_ns`: the namespace that commands use by default.
    """
    if queue is None and not key.name:
        return NAMES_NO_QUEUE
    if queue is None:
        return f"LocalQueue {key.name} does not exist in namespace {key.namespace}"
    if stops(queue.spec.stop_policy):
        return f"LocalQueue {queue.metadata.name} is stopped (sluice release {queue_argument(queue, default_ns)})"
    if cluster_queue is None:
        return f"ClusterQueue {queue.spec.cluster_queue} does not exist"
    if stops(cluster_queue.spec.stop_policy):
        return (
            f"ClusterQueue {cluster_queue.metadata.name} is stopped (sluice release cq/{cluster_queue.metadata.name})"
        )
    active = next((c for c in cluster_queue.status.conditions if c.type == condition_types.ACTIVE), None)
    if active is not None and active.status == "False":
        return f"ClusterQueue {cluster_queue.metadata.name}: {active.message}"
    return ""


def queue_argument(queue: LocalQueue, default_ns: str) -> str:
    """Format a LocalQueue as command-line arguments."""
    namespace = queue.metadata.namespace
    return queue.metadata.name if namespace == default_ns else f"{namespace}/{queue.metadata.name}"


def on_deactivation(workload: Workload, job: str, *, dry_run: bool = False) -> str:
    """Describe the effect of spec.active=false on a Workload. `job`: its Job as a command-line argument."""
    holds = workload.status.admission is not None
    if dry_run:
        return "its pods would be deleted and its quota released" if holds else "it would leave the queue"
    now = "its pods are deleted and its quota is released" if holds else "it leaves the queue"
    return f"{now}; undo: sluice reactivate {job}"


def on_stop(policy: str, load: Load, *, queue: str, stopped_cluster_queue: str = "", dry_run: bool = False) -> str:
    """Describe the effect of a new stop policy, or with `dry_run` the one that it would have.

    `queue`: as a command-line argument. `stopped_cluster_queue`: the ClusterQueue if it is stopped.
    """
    start, undo = ("would start", "") if dry_run else ("start", f"; undo: sluice release {queue}")
    match policy:
        case policy_values.HOLD:
            stays = f"; running Jobs {'would ' if dry_run else ''}continue" if load.running else ""
            return f"no more Jobs {start} ({load}){stays}{undo}"
        case policy_values.HOLD_AND_DRAIN:
            stops = f"; running Jobs {'would be' if dry_run else 'are'} stopped and requeued" if load.running else ""
            return f"no more Jobs {start} ({load}){stops}{undo}"
    if stopped_cluster_queue:
        release = f"sluice release cq/{stopped_cluster_queue}"
        return f"still no Jobs {start}: ClusterQueue {stopped_cluster_queue} is stopped too ({release})"
    return f"Jobs {start} again as quota allows ({load})"

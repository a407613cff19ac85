"""Describes the effect of an operator's change of spec.active or spec.stopPolicy in one sentence. Pure.

A queue with the stopPolicy Hold is *held*, one with HoldAndDrain *drained*, in all tables and sentences of commands.
Conditions and Events say `is stopped`, as in Kueue. BEHAVIOUR.md#q240-held-and-drained-queues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from msgspec import structs

from job_controller.model import Key
from queue_manager.api import condition_types, keys, policy_values, reasons
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload, stops
from queue_manager.visibility.short_messages import NAMES_NO_QUEUE
from queue_manager.visibility.similar_names import did_you_mean

STOPPED_IS = {policy_values.HOLD: "held", policy_values.HOLD_AND_DRAIN: "drained"}


class KnownNames(NamedTuple):
    """Names that exist: LocalQueues of the namespace, ClusterQueues, flavors. Empty if the user may not list them."""

    local: Collection[str] = ()
    cluster: Collection[str] = ()
    flavors: Collection[str] = ()


NO_NAMES = KnownNames()


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
    names: KnownNames = NO_NAMES,
    dry_run: bool = False,
) -> str:
    """Describe the effect of spec.active=true on a Workload. A queue that does not exist is None."""
    obstacle = queue_obstacle(workload.local_queue, queue, cluster_queue, default_ns, names)
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
    key: Key,
    queue: LocalQueue | None,
    cluster_queue: ClusterQueue | None,
    default_ns: str = "default",
    names: KnownNames = NO_NAMES,
) -> str:
    """Return why no Workload of this LocalQueue can start, with the command that releases a stopped queue, or "".

    `default_ns`: the namespace that commands use by default. `names`: those near to a missing one are suggested.
    """
    if queue is None and not key.name:
        return NAMES_NO_QUEUE
    if queue is None:
        return f"LocalQueue {key.name} does not exist in namespace {key.namespace}{_near(key.name, names.local)}"
    above = _stopped_cluster_queue(cluster_queue)
    if stops(queue.spec.stop_policy):
        own = f"LocalQueue {queue.metadata.name} is {stopped_word(queue.spec.stop_policy)}"
        own = f"{own} (sluice release {queue_argument(queue, default_ns)})"
        return f"{own}, and {above}" if above else own
    if cluster_queue is None:
        missing = queue.spec.cluster_queue
        return f"ClusterQueue {missing} does not exist{_near(missing, names.cluster)}"
    if above:
        return above
    active = next((c for c in cluster_queue.status.conditions if c.type == condition_types.ACTIVE), None)
    if cluster_queue.metadata.deletion_timestamp is not None:
        return f"ClusterQueue {cluster_queue.metadata.name} is being deleted"
    if active is not None and active.status == "False" and active.reason != reasons.STOPPED:  # else it was released
        return f"ClusterQueue {cluster_queue.metadata.name}: {with_near_flavor(active.message, cluster_queue, names)}"
    return ""


def with_near_flavor(text: str, queue: ClusterQueue, names: KnownNames) -> str:
    """Return why a ClusterQueue is inactive, with a flavor whose name is near to a missing one that it names."""
    used = (flavor.name for group in queue.spec.resource_groups for flavor in group.flavors)
    missing = next((name for name in used if name not in names.flavors), "")
    return f"{text.rstrip('.')}{_near(missing, names.flavors)}"


def _near(name: str, names: Collection[str]) -> str:
    hint = did_you_mean(name, names)
    return f" ({hint})" if hint else ""


def _stopped_cluster_queue(queue: ClusterQueue | None) -> str:
    """Say that a ClusterQueue is held or drained, with the command that releases it; "" if it is not."""
    if queue is None or not stops(queue.spec.stop_policy):
        return ""
    name = queue.metadata.name
    return f"ClusterQueue {name} is {stopped_word(queue.spec.stop_policy)} (sluice release cq/{name})"


Q = TypeVar("Q", LocalQueue, ClusterQueue)


def released(queue: Q) -> Q:
    """The queue as it is after `sluice release`."""
    return structs.replace(queue, spec=structs.replace(queue.spec, stop_policy=policy_values.STOP_NONE))


def stopped_word(policy: str) -> str:
    """Return what a queue with this stop policy is: held or drained."""
    return STOPPED_IS.get(policy, policy)


def queue_argument(queue: LocalQueue, default_ns: str) -> str:
    """Format a LocalQueue as command-line arguments."""
    namespace = queue.metadata.namespace
    return queue.metadata.name if namespace == default_ns else f"{namespace}/{queue.metadata.name}"


def on_deactivation(workload: Workload, job: str, *, dry_run: bool = False) -> str:
    """Describe the effect of spec.active=false on a Workload. `job`: its Job as a command-line argument."""
    holds = workload.status.admission is not None
    if dry_run:
        return "its pods and logs would be deleted and its quota released" if holds else "it would leave the queue"
    now = "its pods and logs are deleted, then its quota is released" if holds else "it leaves the queue"
    return f"{now}; undo: sluice reactivate {job}"


def on_stop(
    policy: str,
    load: Load,
    *,
    queue: str,
    obstacle: str = "",
    stopped_below: Sequence[LocalQueue] = (),
    dry_run: bool = False,
) -> str:
    """Describe the effect of a new stop policy, or with `dry_run` the one that it would have.

    `queue`: as a command-line argument. `obstacle`: what keeps a released LocalQueue from admitting (`queue_obstacle`).
    `stopped_below`: LocalQueues of a released ClusterQueue that are held or drained themselves.
    """
    start, undo = ("would start", "") if dry_run else ("start", f"; undo: sluice release {queue}")
    match policy:
        case policy_values.HOLD:
            stays = f"; running Jobs {'would ' if dry_run else ''}continue" if load.running else ""
            return f"no more Jobs {start} ({load}){stays}{undo}"
        case policy_values.HOLD_AND_DRAIN:
            be = "would be" if dry_run else "are"
            stops = f"; running Jobs {be} stopped and requeued, their logs deleted" if load.running else ""
            return f"no more Jobs {start} ({load}){stops}{undo}"
    if obstacle:
        return f"still no Jobs {start}: {obstacle}"
    held = [f"{local.metadata.key} ({stopped_word(local.spec.stop_policy)})" for local in stopped_below]
    but = f"; but none of LocalQueue {', '.join(held)}" if held else ""
    return f"Jobs {start} again as quota allows ({load}){but}"

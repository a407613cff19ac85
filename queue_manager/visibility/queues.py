"""One row per ClusterQueue: how many wait, how many run, and how much of each quota is in use. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from queue_manager.api import labels
from queue_manager.api.types import ClusterQueue, FlavorUsage, LocalQueue, Quantity, Workload


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One resource in one flavor. Quantities are as in the API ("1500m", "2Gi")."""

    flavor: str
    resource: str
    used: str
    nominal: str


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ClusterQueue as `sluice queues` shows it."""

    name: str
    strategy: str
    state: str
    message: str
    local_queues: list[str]
    pending: int
    admitted: int
    oldest_waiting_seconds: float | None
    quotas: list[QuotaRow]


def queue_rows(
    cluster_queues: Iterable[ClusterQueue],
    local_queues: Iterable[LocalQueue],
    workloads: Iterable[Workload],
    now: datetime,
) -> list[QueueRow]:
    """Rows by name. Counts and waits come from the Workloads, quota in use from the ClusterQueue's status."""
    feeds: dict[str, list[str]] = {}
    target: dict[tuple[str, str], str] = {}
    for queue in local_queues:
        feeds.setdefault(queue.spec.cluster_queue, []).append(str(queue.metadata.key))
        target[queue.metadata.key] = queue.spec.cluster_queue
    waiting: dict[str, list[datetime]] = {}
    admitted: dict[str, int] = {}
    for workload in workloads:
        name = target.get(workload.local_queue, "")
        if workload.is_true(labels.FINISHED):
            continue
        if workload.status.admission is not None:
            home = workload.status.admission.cluster_queue
            admitted[home] = admitted.get(home, 0) + 1
        elif workload.spec.active:
            waiting.setdefault(name, []).append(workload.metadata.creation_timestamp or now)
    return [
        _row(queue, sorted(feeds.get(name, [])), waiting.get(name, []), admitted.get(name, 0), now)
        for name, queue in sorted((queue.metadata.name, queue) for queue in cluster_queues)
    ]


def _row(queue: ClusterQueue, feeds: list[str], waiting: list[datetime], admitted: int, now: datetime) -> QueueRow:
    active = next((c for c in queue.status.conditions if c.type == labels.ACTIVE), None)
    return QueueRow(
        name=queue.metadata.name,
        strategy=queue.spec.queueing_strategy,
        state="Active" if active and active.is_true else (active.reason if active else "Unknown"),
        message=active.message if active and not active.is_true else "",
        local_queues=feeds,
        pending=len(waiting),
        admitted=admitted,
        oldest_waiting_seconds=max(0.0, (now - min(waiting)).total_seconds()) if waiting else None,
        quotas=_quotas(queue),
    )


def _quotas(queue: ClusterQueue) -> list[QuotaRow]:
    used = {(usage.name, resource.name): resource.total for usage in _reserved(queue) for resource in usage.resources}
    return [
        QuotaRow(
            flavor=flavor.name,
            resource=quota.name,
            used=_text(used.get((flavor.name, quota.name), "0")),
            nominal=_text(quota.nominal_quota),
        )
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    ]


def _reserved(queue: ClusterQueue) -> Iterable[FlavorUsage]:
    return queue.status.flavors_reservation or ()


def _text(quantity: Quantity) -> str:
    return str(quantity)

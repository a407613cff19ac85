"""One row per ClusterQueue: how many wait, how many run, and how much of each quota is in use. Pure.

What a ClusterQueue lends is not recorded anywhere. A cohort knows how much its members borrow (B), and each member how
much of its quota it may lend and does not use itself (U). So member i lends at least B minus the U of all others, and
at most the smaller of B and its own U. With one possible lender both are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from queue_manager.api import condition_types
from queue_manager.api.types import ClusterQueue, LocalQueue, Quantity, ResourceQuota, Workload, stops
from queue_manager.scheduling.amounts import amount, text
from queue_manager.scheduling.quota_tree import FlavorResource


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One resource in one flavor. Quantities are as in the API ("1500m", "2Gi"); a limit is None where none is set.

    `used` includes what is borrowed. `lent` lies between two bounds, see above.
    """

    flavor: str
    resource: str
    used: str
    nominal: str
    borrowed: str = "0"
    borrowing_limit: str | None = None
    lent_at_least: str = "0"
    lent_at_most: str = "0"
    lending_limit: str | None = None


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ClusterQueue as `sluice queues` shows it. `stopped_queues`: those of its LocalQueues that are held."""

    name: str
    cohort: str
    strategy: str
    state: str
    message: str
    local_queues: list[str]
    stopped_queues: list[str]
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
    feeds: dict[str, list[LocalQueue]] = {}
    target: dict[tuple[str, str], str] = {}
    for queue in local_queues:
        feeds.setdefault(queue.spec.cluster_queue, []).append(queue)
        target[queue.metadata.key] = queue.spec.cluster_queue
    waiting: dict[str, list[datetime]] = {}
    admitted: dict[str, int] = {}
    for workload in workloads:
        name = target.get(workload.local_queue, "")
        if workload.is_true(condition_types.FINISHED):
            continue
        if workload.status.admission is not None:
            home = workload.status.admission.cluster_queue
            admitted[home] = admitted.get(home, 0) + 1
        elif workload.spec.active:
            waiting.setdefault(name, []).append(workload.metadata.creation_timestamp or now)
    named = {queue.metadata.name: queue for queue in cluster_queues}
    quotas = _quotas(named.values())
    return [
        _row(queue, feeds.get(name, []), waiting.get(name, []), admitted.get(name, 0), quotas[name], now)
        for name, queue in sorted(named.items())
    ]


def _row(
    queue: ClusterQueue,
    feeds: Sequence[LocalQueue],
    waiting: Sequence[datetime],
    admitted: int,
    quotas: list[QuotaRow],
    now: datetime,
) -> QueueRow:
    active = next((c for c in queue.status.conditions if c.type == condition_types.ACTIVE), None)
    return QueueRow(
        name=queue.metadata.name,
        cohort=queue.spec.cohort_name,
        strategy=queue.spec.queueing_strategy,
        state="Active" if active and active.is_true else (active.reason if active else "Unknown"),
        message=active.message if active and not active.is_true else "",
        local_queues=sorted(str(local.metadata.key) for local in feeds),
        stopped_queues=sorted(str(local.metadata.key) for local in feeds if stops(local.spec.stop_policy)),
        pending=len(waiting),
        admitted=admitted,
        oldest_waiting_seconds=max(0.0, (now - min(waiting)).total_seconds()) if waiting else None,
        quotas=quotas,
    )


# --- quota -------------------------------------------------------------------------------------------------


def _quotas(queues: Iterable[ClusterQueue]) -> dict[str, list[QuotaRow]]:
    """The quota rows of each ClusterQueue by its name."""
    cohorts: dict[str, list[ClusterQueue]] = {}
    found = {}
    for queue in queues:
        cohorts.setdefault(queue.spec.cohort_name or f"/{queue.metadata.name}", []).append(queue)
    for members in cohorts.values():
        borrowed = [_borrowed(member) for member in members]
        spare = {member.metadata.name: _spare(member) for member in members}
        for member in members:
            found[member.metadata.name] = [
                _quota(member, fr, quota, sum(one.get(fr, 0) for one in borrowed), spare)
                for fr, quota in _specs(member)
            ]
    return found


def _quota(
    queue: ClusterQueue,
    fr: FlavorResource,
    quota: ResourceQuota,
    borrowed: int,
    spare: Mapping[str, Mapping[FlavorResource, int]],
) -> QuotaRow:
    """`borrowed`: by the whole cohort. `spare`: what each member of it may lend and does not use."""
    own = spare[queue.metadata.name].get(fr, 0)
    others = sum(one.get(fr, 0) for one in spare.values()) - own
    return QuotaRow(
        flavor=fr.flavor,
        resource=fr.resource,
        used=text(fr.resource, _used(queue).get(fr, 0)),
        nominal=_text(quota.nominal_quota),
        borrowed=text(fr.resource, _borrowed(queue).get(fr, 0)),
        borrowing_limit=None if quota.borrowing_limit is None else _text(quota.borrowing_limit),
        lent_at_least=text(fr.resource, max(0, min(borrowed - others, own))),
        lent_at_most=text(fr.resource, min(borrowed, own)),
        lending_limit=None if quota.lending_limit is None else _text(quota.lending_limit),
    )


def _specs(queue: ClusterQueue) -> list[tuple[FlavorResource, ResourceQuota]]:
    return [
        (FlavorResource(flavor.name, quota.name), quota)
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    ]


def _used(queue: ClusterQueue) -> dict[FlavorResource, int]:
    return {
        FlavorResource(usage.name, resource.name): amount(resource.name, resource.total)
        for usage in queue.status.flavors_reservation or ()
        for resource in usage.resources
    }


def _borrowed(queue: ClusterQueue) -> dict[FlavorResource, int]:
    return {
        FlavorResource(usage.name, resource.name): amount(resource.name, resource.borrowed or 0)
        for usage in queue.status.flavors_reservation or ()
        for resource in usage.resources
    }


def _spare(queue: ClusterQueue) -> dict[FlavorResource, int]:
    """What is not used of its own quota, as far as it may be lent; nothing without a cohort."""
    used = _used(queue)
    found = {}
    for fr, quota in _specs(queue) if queue.spec.cohort_name else ():
        nominal = amount(fr.resource, quota.nominal_quota)
        most = nominal if quota.lending_limit is None else amount(fr.resource, quota.lending_limit)
        found[fr] = max(0, min(most, nominal - used.get(fr, 0)))
    return found


def _text(quantity: Quantity) -> str:
    return str(quantity)

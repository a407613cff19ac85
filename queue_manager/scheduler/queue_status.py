"""The status of ClusterQueues, LocalQueues and Cohorts, and the finalizer that keeps a ClusterQueue or ResourceFlavor
that is in use from being deleted.

A status is computed from the quota cache and written only when it differs. Changes of Workloads are batched for
STATUS_BATCH_SECONDS, so that a burst of admissions costs one write per queue (Kueue: UpdatesBatchPeriod), and the next
write of the same queue comes no earlier than that after the last one, or BACKLOG_BATCH_SECONDS while writes that let
work run are waiting. Only a changed condition does not wait.

The status of a Cohort is only its share: it is written only with fair sharing. Past usage of LocalQueues is sampled
(`usage_sampling`).
BEHAVIOUR.md#q30-queue-status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Literal

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Key, Object
from queue_manager.api import condition_types, keys, messages, reasons
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from queue_manager.api.types import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Condition,
    FairSharingStatus,
    FlavorUsage,
    LocalQueue,
    QueueStatus,
    ResourceFlavor,
    ResourceUsage,
    Workload,
    stops,
)
from queue_manager.api.without_effect import without_effect
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.lifecycle.status_draft import make_condition
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduler.fair_sharing_status import merge_patch, share_status, usage_status
from queue_manager.scheduler.quota_cache import QuotaCache, flavors_of
from queue_manager.scheduler.usage_sampling import sample_usage, seconds_to_next_sample
from queue_manager.scheduling.amounts import text
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import QueueState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.usage_decay import Sample

Kind = Literal["ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor"]
Item = tuple[Kind, Key]

STATUS_BATCH_SECONDS = 1.0  # from a Workload's change to the status write, and between two writes of one queue
BACKLOG_BATCH_SECONDS = 10.0  # between two writes of one queue during a backlog


class QueueStatusController:
    """The only writer of the status of queues; it has one worker."""

    def __init__(self, runtime: Runtime, quota_cache: QuotaCache) -> None:
        self._runtime = runtime
        self._quota_cache = quota_cache
        self._cluster_queues = runtime.cache(CLUSTER_QUEUES, ClusterQueue)
        self._local_queues = runtime.cache(LOCAL_QUEUES, LocalQueue)
        self._cohorts = runtime.cache(COHORTS, Cohort)
        self._flavors = runtime.cache(RESOURCE_FLAVORS, ResourceFlavor)
        self.queue: WorkQueue[Item] = WorkQueue("queue-status", metrics=runtime.metrics)
        self._written_at: dict[Item, float] = {}  # loop time of the last write of a status
        runtime.cache(WORKLOADS, Workload).subscribe(self._on_workload)
        self._cluster_queues.subscribe(self._on_cluster_queue)
        self._local_queues.subscribe(self._on_local_queue)
        self._cohorts.subscribe(self._on_cohort)
        self._flavors.subscribe(self._on_flavor)
        runtime.cache(ADMISSION_CHECKS, AdmissionCheck).subscribe(self._on_check)
        quota_cache.recount_listeners.append(self._on_recount)
        quota_cache.cycle_listeners.append(self._on_cycle)
        runtime.worker(self.queue, self.sync)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Sync the status of all queues: fair sharing may have changed. The quota cache has the settings already."""
        caches: dict[Kind, Iterable[Object]] = {
            "ClusterQueue": self._cluster_queues.values(),
            "Cohort": self._cohorts.values(),
            "LocalQueue": self._local_queues.values(),
        }
        for kind, queues in caches.items():
            for queue in queues:
                self.queue.add((kind, queue.metadata.key))

    # --- events ---

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        for workload in (old, new):
            if workload is None:
                continue
            self._enqueue_later("LocalQueue", workload.local_queue)
            local = self._local_queues.get(*workload.local_queue)
            admission = workload.status.admission
            if local is not None:
                self._enqueue_later("ClusterQueue", Key("", local.spec.cluster_queue))
            if admission is not None:
                self._usage_changed(admission.cluster_queue)

    def _on_recount(self, holding: Holding) -> None:
        """Enqueue the queues of a holding whose usage changed without an event of its Workload.

        Its admission failed, or a LimitRange or RuntimeClass has changed.
        """
        self._enqueue_later("LocalQueue", holding.queue)
        self._usage_changed(holding.cluster_queue)

    def _usage_changed(self, cluster_queue: str) -> None:
        """Enqueue the ClusterQueue and, under fair sharing, the cohorts above it, whose shares depend on its usage."""
        self._enqueue_later("ClusterQueue", Key("", cluster_queue))
        state = self._quota_cache.state
        if state.fair_sharing and (queue := state.queues.get(cluster_queue)) is not None:
            for node in queue.node.path():
                if node.is_cohort:
                    self._enqueue_later("Cohort", Key("", node.name))

    def _quotas_changed(self, cohort: str) -> None:
        """Enqueue all members of the cohort's tree, whose shares depend on what the cohort can lend."""
        node = self._quota_cache.state.forest.cohorts.get(cohort)
        if node is not None and self._quota_cache.state.fair_sharing:
            for member in node.root.below():
                self._enqueue_later("Cohort" if member.is_cohort else "ClusterQueue", Key("", member.name))

    def _on_cycle(self, cluster_queues: Iterable[str]) -> None:
        for name in cluster_queues:
            self.queue.add(("ClusterQueue", Key("", name)))

    def _enqueue_later(self, kind: Kind, key: Key) -> None:
        self.queue.add_after((kind, key), STATUS_BATCH_SECONDS)

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        queue = new or old
        if queue is None:
            return
        if new is not None:
            self.queue.add(("ClusterQueue", new.metadata.key))
        else:
            self._written_at.pop(("ClusterQueue", queue.metadata.key), None)
        if old is None or new is None or old.spec != new.spec or old.status.conditions != new.status.conditions:
            for key in self._quota_cache.queues.local_queues_of(queue.metadata.name):
                self.queue.add(("LocalQueue", key))
        if old is None or new is None or old.spec != new.spec:
            for cohort in {one.spec.cohort_name for one in (old, new) if one is not None}:
                self._quotas_changed(cohort)
        for flavor in sorted((flavors_of(old) if old else set()) ^ (flavors_of(new) if new else set())):
            self.queue.add(("ResourceFlavor", Key("", flavor)))

    def _on_cohort(self, old: Cohort | None, new: Cohort | None) -> None:
        cohort = new or old
        if cohort is None or (old is not None and new is not None and old.spec == new.spec):
            return
        if new is None:
            self._written_at.pop(("Cohort", cohort.metadata.key), None)
        parents = {one.spec.parent_name for one in (old, new) if one is not None}
        for name in {cohort.metadata.name, *parents}:
            self._quotas_changed(name)

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if new is not None:
            self.queue.add(("LocalQueue", new.metadata.key))
        queue = new or old
        if queue is not None and new is None:
            self._written_at.pop(("LocalQueue", queue.metadata.key), None)
        if queue is not None and (old is None or new is None):
            self._enqueue_later("ClusterQueue", Key("", queue.spec.cluster_queue))

    def _on_flavor(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        flavor = new or old
        if flavor is None:
            return
        self.queue.add(("ResourceFlavor", flavor.metadata.key))
        if old is None or new is None:
            for name, state in self._quota_cache.state.queues.items():
                if flavor.metadata.name in flavors_of(state.queue):
                    self.queue.add(("ClusterQueue", Key("", name)))

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        check = new or old
        if check is not None and (old is None or new is None or old.active != new.active):
            for name in self._quota_cache.state.queues:
                if check.metadata.name in self._quota_cache.state.checks_of(name):
                    self.queue.add(("ClusterQueue", Key("", name)))
                    for key in self._quota_cache.queues.local_queues_of(name):
                        self.queue.add(("LocalQueue", key))

    # --- sync ---

    async def sync(self, item: Item) -> None:
        """Bring the status of a queue or cohort, or the finalizer of a flavor, up to date."""
        kind, key = item
        try:
            match kind:
                case "ClusterQueue":
                    await self._sync_cluster_queue(key)
                case "LocalQueue":
                    await self._sync_local_queue(key)
                case "Cohort":
                    await self._sync_cohort(key)
                case "ResourceFlavor":
                    await self._sync_flavor(key)
        except ApiError as error:
            if error.is_not_found:
                return
            if not error.is_conflict:
                raise
            self._enqueue_later(kind, key)  # conflict with another writer: sync the newest state

    async def _sync_cluster_queue(self, key: Key) -> None:
        queue = self._cluster_queues.get(key.namespace, key.name)
        state = self._quota_cache.state.queues.get(key.name)
        if queue is None or state is None:
            return
        in_use = bool(state.holdings)
        if await self._keep_finalizer(CLUSTER_QUEUES, queue, in_use):
            return
        why = self._quota_cache.state.inactive(key.name)
        active = ("False", *why) if why else ("True", reasons.READY, messages.CLUSTER_QUEUE_READY_MESSAGE)
        pending = self._quota_cache.queues.cluster_queues.get(key.name)
        holdings = list(state.holdings.values())
        await self._write(
            CLUSTER_QUEUES,
            queue,
            queue.status,
            active,
            len(pending or ()),
            holdings,
            _usages(state, holdings, borrowed=True),
            share_status(self._quota_cache.state, state.node),
        )

    async def _sync_local_queue(self, key: Key) -> None:
        queue = self._local_queues.get(key.namespace, key.name)
        if queue is None or queue.metadata.deletion_timestamp is not None:
            return
        state = self._quota_cache.state.queues.get(queue.spec.cluster_queue)
        holdings = [h for h in state.holdings.values() if h.queue == key] if state is not None else []
        await self._write(
            LOCAL_QUEUES,
            queue,
            queue.status,
            self._local_active(queue),
            self._quota_cache.queues.pending_count(key),  # also those without a ClusterQueue
            holdings,
            _usages(state, holdings, borrowed=False) if state is not None else ((), ()),
            usage_status(self._past_usage(key)),
        )

    async def _sync_cohort(self, key: Key) -> None:
        cohort = self._cohorts.get(key.namespace, key.name)
        node = self._quota_cache.state.forest.cohorts.get(key.name)
        if cohort is None or node is None:
            return
        new = share_status(self._quota_cache.state, node)
        if new == cohort.status.fair_sharing or self._is_postponed(("Cohort", key)):
            return
        meta = cohort.metadata
        self._written_at["Cohort", key] = asyncio.get_running_loop().time()
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {"fairSharing": merge_patch(cohort.status.fair_sharing, new)},
        }
        await self._runtime.client.patch(COHORTS, meta.namespace, meta.name, patch, subresource="status", type=Cohort)

    def _is_postponed(self, item: Item) -> bool:
        """Whether the last write of this status is too recent; it is synced again when it is not."""
        period = BACKLOG_BATCH_SECONDS if self._runtime.is_backlogged() else STATUS_BATCH_SECONDS
        remaining = self._written_at.get(item, float("-inf")) + period - asyncio.get_running_loop().time()
        if remaining > 0:
            self.queue.add_after(item, min(remaining, STATUS_BATCH_SECONDS))  # the backlog may be over by then
        return remaining > 0

    def _past_usage(self, key: Key) -> Sample | None:
        """The past usage of a LocalQueue, and a sync for the next sample; None if it is not kept."""
        now = self._runtime.clock.now()
        sample = sample_usage(self._quota_cache, key, now)
        wait = seconds_to_next_sample(self._quota_cache, sample, now)
        if wait is not None:
            self.queue.add_after(("LocalQueue", key), max(STATUS_BATCH_SECONDS, wait))
        return sample

    def _local_active(self, queue: LocalQueue) -> tuple[str, str, str]:
        name = queue.spec.cluster_queue
        if stops(queue.spec.stop_policy):
            return "False", reasons.STOPPED, messages.LOCAL_QUEUE_IS_STOPPED_MESSAGE
        if name not in self._quota_cache.state.queues:
            return "False", reasons.CLUSTER_QUEUE_MISSING, messages.CLUSTER_QUEUE_UNUSABLE_MESSAGE
        if not self._quota_cache.is_active(name):
            return "False", reasons.CLUSTER_QUEUE_INACTIVE, messages.CLUSTER_QUEUE_UNUSABLE_MESSAGE
        return "True", reasons.READY, messages.LOCAL_QUEUE_READY_MESSAGE

    async def _write(
        self,
        resource: Resource,
        queue: ClusterQueue | LocalQueue,
        old: QueueStatus,
        active: tuple[str, str, str],
        pending: int,
        holdings: Sequence[Holding],
        usages: tuple[tuple[FlavorUsage, ...], tuple[FlavorUsage, ...]],
        fair_sharing: FairSharingStatus | None,
    ) -> None:
        conditions = self._conditions(queue, old.conditions, condition_types.ACTIVE, active)
        if isinstance(queue, ClusterQueue):
            conditions = self._conditions(queue, conditions, condition_types.BLOCKED, self._blocked(queue))
            conditions = self._conditions(queue, conditions, condition_types.UNSUPPORTED, _unsupported(queue))
        new = QueueStatus(
            conditions=conditions,
            pending_workloads=pending,
            reserving_workloads=len(holdings),
            admitted_workloads=sum(h.admitted for h in holdings),
            flavors_reservation=usages[0],
            flavors_usage=usages[1],
            fair_sharing=fair_sharing,
        )
        if new == old:
            return
        meta = queue.metadata
        item: Item = ("ClusterQueue" if isinstance(queue, ClusterQueue) else "LocalQueue", meta.key)
        if new.conditions == old.conditions and self._is_postponed(item):
            return
        self._written_at[item] = asyncio.get_running_loop().time()
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": _status_tree(old, new),
        }
        await self._runtime.client.patch(
            resource, meta.namespace, meta.name, patch, subresource="status", type=type(queue)
        )

    def _blocked(self, queue: ClusterQueue) -> tuple[str, str, str] | None:
        """The Blocked condition while a StrictFIFO head can never fit, else None.

        BEHAVIOUR.md#q31-never-fitting-head
        """
        pending = self._quota_cache.queues.cluster_queues.get(queue.metadata.name)
        if pending is None or pending.never is None:
            return None
        return "True", reasons.HEAD_NEVER_FITS, f"The first Workload can never be admitted: {pending.never.message}"

    def _conditions(
        self, queue: Object, old: tuple[Condition, ...], kind: str, value: tuple[str, str, str] | None
    ) -> tuple[Condition, ...]:
        """The conditions with this one set to `value`, or without it if `value` is None."""
        known = next((c for c in old if c.type == kind), None)
        if value is None:
            return tuple(c for c in old if c is not known)
        now = self._runtime.clock.now().astimezone(UTC).replace(microsecond=0)
        new = make_condition(known, kind, *value, queue.metadata.generation, now)
        return old if new is known else (*(c for c in old if c is not known), new)

    # --- finalizers

    async def _sync_flavor(self, key: Key) -> None:
        flavor = self._flavors.get(key.namespace, key.name)
        if flavor is not None:
            used = any(key.name in flavors_of(queue) for queue in self._cluster_queues.values())
            await self._keep_finalizer(RESOURCE_FLAVORS, flavor, used)

    async def _keep_finalizer(self, resource: Resource, obj: Object, in_use: bool) -> bool:
        """Add our finalizer to a live object; remove it from a deleted one that is unused. True if it was written."""
        meta = obj.metadata
        has = keys.FINALIZER in meta.finalizers
        deleting = meta.deletion_timestamp is not None
        if has == (not deleting or in_use) or (deleting and not has):
            return False
        rest = [f for f in meta.finalizers if f != keys.FINALIZER]
        finalizers = rest if deleting else [*rest, keys.FINALIZER]
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}}
        await self._runtime.client.patch(resource, meta.namespace, meta.name, patch, type=type(obj))
        return True


def _unsupported(queue: ClusterQueue) -> tuple[str, str, str] | None:
    """The Unsupported condition if fields of the spec have no effect, else None.

    BEHAVIOUR.md#q32-fields-without-effect
    """
    sentences = without_effect(str(CLUSTER_QUEUES), msgspec.to_builtins(queue))
    return ("True", reasons.FIELDS_WITHOUT_EFFECT, "; ".join(sentences)) if sentences else None


def _usages(
    state: QueueState, holdings: Iterable[Holding], *, borrowed: bool
) -> tuple[tuple[FlavorUsage, ...], tuple[FlavorUsage, ...]]:
    """The reserved usage and the admitted usage, both in the order of the ClusterQueue's spec.

    `borrowed`: whether each row states the amount above nominal quota.
    """
    reserved: dict[FlavorResource, int] = {}
    used: dict[FlavorResource, int] = {}
    for holding in holdings:
        for fr, amount in holding.usage.items():
            reserved[fr] = reserved.get(fr, 0) + amount
            if holding.admitted:
                used[fr] = used.get(fr, 0) + amount
    return _rows(state, reserved, borrowed), _rows(state, used, borrowed)


def _rows(state: QueueState, amounts: dict[FlavorResource, int], borrowed: bool) -> tuple[FlavorUsage, ...]:
    def row(fr: FlavorResource) -> ResourceUsage:
        amount = amounts.get(fr, 0)
        over = max(0, amount - state.node.quota(fr).nominal) if state.node.parent is not None else 0
        return ResourceUsage(
            name=fr.resource,
            total=text(fr.resource, amount),
            borrowed=text(fr.resource, over) if borrowed else None,
        )

    return tuple(
        FlavorUsage(
            name=flavor.name, resources=tuple(row(FlavorResource(flavor.name, q.name)) for q in flavor.resources)
        )
        for group in state.queue.spec.resource_groups
        for flavor in group.flavors
    )


def _status_tree(old: QueueStatus, status: QueueStatus) -> Json:
    """The status with all fields, zeros and empty lists included."""
    return {
        "conditions": msgspec.to_builtins(status.conditions),
        "pendingWorkloads": status.pending_workloads,
        "reservingWorkloads": status.reserving_workloads,
        "admittedWorkloads": status.admitted_workloads,
        "flavorsReservation": _usage_tree(status.flavors_reservation or ()),
        "flavorsUsage": _usage_tree(status.flavors_usage or ()),
        "fairSharing": merge_patch(old.fair_sharing, status.fair_sharing),
    }


def _usage_tree(rows: tuple[FlavorUsage, ...]) -> Json:
    return [
        {
            "name": row.name,
            "resources": [
                {"name": r.name, "total": r.total, **({} if r.borrowed is None else {"borrowed": r.borrowed})}
                for r in row.resources
            ],
        }
        for row in rows
    ]

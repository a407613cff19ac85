"""Pending Workloads and quota in use: two views of the API, derived from the caches and updated with them.

Both change synchronously with each watch event and each response to a write, so they do not change between two awaits.
An admission is *assumed* at once: the Workload is no longer pending, and its usage counts, before the write starts. If
the write fails, the assumption is dropped and the Workload is pending again. A change of a queue's rules makes the
refused Workloads eligible again, and freed quota those within its reach. Kueue: AssumeWorkload and ForgetWorkload of
pkg/cache/scheduler, QueueInadmissibleWorkloads of pkg/cache/queue. BEHAVIOUR.md#q9-requeue-of-inadmissible-workloads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from job_controller.model import Key
from queue_manager.api import messages
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from queue_manager.api.types import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LimitRange,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    RuntimeClass,
    Workload,
)
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle.queue_entry import configure, read, waits
from queue_manager.lifecycle.requeue_history import preemptions
from queue_manager.lifecycle.steps import WorkloadContext
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.queueing import outcomes
from queue_manager.queueing.outcomes import EndedReservations
from queue_manager.queueing.queue_set import Queues
from queue_manager.queueing.refresh_turns import StaleMessages
from queue_manager.scheduler.cycle_trail import CycleTrigger
from queue_manager.scheduler.released_quota import ReleasedQuota
from queue_manager.scheduling.cycle import Admit, Preempt, WithholdingHead
from queue_manager.scheduling.execution_time import min_runtime
from queue_manager.scheduling.holdings import Holding, holding_of, reserves_quota
from queue_manager.scheduling.limits_and_overhead import pod_surroundings
from queue_manager.scheduling.quota_forest import Cycle
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import QuotaNode
from queue_manager.scheduling.workload_info import Info, RequestReader

SECOND_TRY_SECONDS = 1.0  # after the spec of a ClusterQueue or Cohort has changed


class QuotaCache:
    """Pending Workloads (`queues`) and quota in use (`state`). `changed` is set when a cycle may admit something."""

    def __init__(self, runtime: Runtime, settings: WorkloadSettings) -> None:
        self.state = SchedulerState()
        self.queues = Queues()
        self.changed = CycleTrigger()
        self._clock = runtime.clock
        self._take_settings(settings)
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        # Called with each holding that changed while its Workload did not: a failed assumption, other defaults of pods.
        self.recount_listeners: list[Callable[[Holding], None]] = []
        # Called with the uid of each Workload whose protection from preemption begins, changes or is removed.
        self.protection_listeners: list[Callable[[str], None]] = []
        # Called with the ClusterQueues for which a cycle of Cohorts above them has appeared, changed or disappeared.
        self.cycle_listeners: list[Callable[[Sequence[str]], None]] = []
        # Called with the Workloads that are passed over for another reason than before.
        self.reason_listeners: list[Callable[[Sequence[Key]], None]] = []
        self._assumed: set[str] = set()  # uids whose admission is being written
        self._released_quota = ReleasedQuota()
        self._active: dict[str, bool] = {}  # results of `is_active`, until a queue, Cohort, flavor or check changes
        runtime.cache(NAMESPACES, Namespace).subscribe(self._on_namespace)
        runtime.cache(RESOURCE_FLAVORS, ResourceFlavor).subscribe(self._on_flavor)
        runtime.cache(COHORTS, Cohort).subscribe(self._on_cohort)
        runtime.cache(CLUSTER_QUEUES, ClusterQueue).subscribe(self._on_cluster_queue)
        runtime.cache(LOCAL_QUEUES, LocalQueue).subscribe(self._on_local_queue)
        runtime.cache(ADMISSION_CHECKS, AdmissionCheck).subscribe(self._on_check)
        self._limit_ranges: Cache[LimitRange] = runtime.cache(LIMIT_RANGES, LimitRange)
        self._limit_ranges.index("namespace", lambda r: (r.metadata.namespace,))
        self._limit_ranges.subscribe(self._on_limit_range)
        self._runtime_classes: Cache[RuntimeClass] = runtime.cache(RUNTIME_CLASSES, RuntimeClass)
        self._runtime_classes.subscribe(self._on_runtime_class)
        self._workloads.subscribe(self._on_workload)

    @property
    def settings(self) -> WorkloadSettings:
        """The settings by which Workloads are read now."""
        return self._settings

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Apply changed settings: read every Workload again, and make refused ones eligible."""
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        self._take_settings(settings)
        for local in self.queues.local_queues.values():
            self.queues.restore_usage(local)
        self._reread(lambda workload: True)
        self.requeue_inadmissible(list(self.queues.cluster_queues))

    def _take_settings(self, settings: WorkloadSettings) -> None:
        self._settings = settings
        self._readers: dict[str, RequestReader] = {}  # by namespace
        self._stale = StaleMessages(settings.pending_reason_period)
        self._taken_from: set[QuotaNode] = set()  # roots of quota trees of which quota was taken in this turn
        self._refresh_timer: asyncio.TimerHandle | None = None
        configure(self.state, self.queues, settings)

    # --- used by the scheduler ---

    def heads(self, now: datetime) -> list[tuple[str, Info]]:
        """(ClusterQueue, head) for each active ClusterQueue with a Workload to try.

        If a cohort has released quota, its refused Workloads are eligible again at the time that `released_quota`
        gives.
        """
        released = self._released_quota.take(asyncio.get_running_loop().time())
        if released:
            self.requeue_within_reach(self.state.relatives_of_all(released), now)
        return outcomes.heads(self.state, self.queues, self._is_tried, now)

    def withholding_heads(self, heads: Iterable[tuple[str, Info]]) -> list[WithholdingHead]:
        """See `outcomes.withholding_heads`."""
        return outcomes.withholding_heads(self.state, self.queues, self._is_tried, heads)

    def report_reasons(self) -> None:
        """After a cycle, report the parked Workloads whose equivalent was refused for another reason than before."""
        reclassified = self.queues.take_reclassified()
        for listener in self.reason_listeners if reclassified else ():
            listener(reclassified)

    def restore_reservations(self) -> None:
        """Before the first cycle: count past preemptions, then see `outcomes.restore_reservations`."""
        self.state.preempted = preemptions(self._workloads.values())
        outcomes.restore_reservations(self.state, self.queues, self._clock.now())

    def _is_tried(self, cluster_queue: str) -> bool:
        root = self.state.queues[cluster_queue].node.root if cluster_queue in self.state.queues else None
        return self.is_active(cluster_queue) and not self._released_quota.is_held(root)

    def read(self, workload: Workload) -> Info:
        """The Workload's requests, its rank, and until when it must not be admitted."""
        return read(workload, self._settings, self._reader(workload.metadata.namespace))

    def assume(self, decision: Admit) -> None:
        """Count an admission before it is written; the Workload is not pending. `resolve_assumption` must follow."""
        uid = decision.info.uid
        self._assumed.add(uid)
        outcomes.assume(self.state, self.queues, decision, self._clock.now(), self._min_runtime(uid))
        self._report_protection(uid, None)

    def _min_runtime(self, uid: str) -> float | None:
        workload = self._workloads.by_uid(uid)
        return min_runtime(workload, self._settings.max_min_runtime) if workload is not None else None

    def resolve_assumption(self, info: Info, retry_after: float = 0.0) -> None:
        """End an assumption after its write, whose response is in the cache. If the Workload holds no quota now, free
        what was assumed; if it waits, make it pending again.

        Then it is not tried before `retry_after` seconds have passed, unless it changes; other Workloads may use the
        quota.
        """
        self._assumed.discard(info.uid)
        latest = self._workloads.by_uid(info.uid)
        if latest is not None and reserves_quota(latest):
            return
        released = self.state.release(info.uid)
        if released is not None:
            charged = (released.queue, released.cluster_queue, released.usage)
            self.queues.charge(*charged, self._clock.now(), undo=True)
        if latest is not None:
            self._enqueue(latest, retry_after)
        self._released(released)
        if released is not None:
            if retry_after:
                delayed = self.queues.get(info.key)
                asyncio.get_running_loop().call_later(
                    retry_after, self._end_retry_delay, delayed, released.cluster_queue
                )
            for listener in self.recount_listeners:
                listener(released)
        self.changed.set()

    def _end_retry_delay(self, delayed: Info | None, cluster_queue: str) -> None:
        """Enqueue the Workload again if it has not changed. Runs on a timer, since the wall clock may be set back."""
        latest = self._workloads.by_uid(delayed.uid) if delayed is not None else None
        if latest is not None and self.queues.get(latest.metadata.key) is delayed:
            self._enqueue(latest)
        self.requeue_inadmissible([cluster_queue])

    def take_back_eviction(self, victim: Holding) -> None:
        """Count a Workload again as its status says, because its eviction was decided but not written.

        Its cohort is tried again as after a release: it is a candidate for preemption again.
        """
        self.state.mark_evicted(victim.uid, evicted=False)
        workload = self._workloads.by_uid(victim.uid)
        if workload is not None and reserves_quota(workload):
            self._hold(workload)
        self._free(victim.cluster_queue)

    # --- queries ---

    def is_active(self, cluster_queue: str) -> bool:
        """Whether the ClusterQueue exists and can admit."""
        active = self._active.get(cluster_queue)
        if active is None:
            active = self._active[cluster_queue] = outcomes.is_active(self.state, cluster_queue)
        return active

    def requeue_inadmissible(self, cluster_queues: Iterable[str]) -> None:
        """Make the Workloads that these ClusterQueues have refused eligible again."""
        self.queues.requeue_inadmissible(cluster_queues, self._clock.now())
        self.changed.set()

    def requeue_within_reach(self, cluster_queues: Sequence[str], now: datetime, *, preemptors: bool = True) -> None:
        """After quota was released, or candidates for preemption were added: see `outcomes.requeue_within_reach`.

        The messages of Workloads that stay refused are brought up to date within `pendingReasonPeriod`.
        """
        if self._settings.tries_all:
            self.queues.requeue_inadmissible(cluster_queues, now, preemptors=preemptors)
            return
        left = outcomes.requeue_within_reach(self.state, self.queues, cluster_queues, now, preemptors=preemptors)
        self._stale.add(left, self._time())
        self._refresh_later()

    def requeue_after_cycle(
        self,
        takers: Iterable[Admit | Preempt],
        ended: Iterable[EndedReservations],
        now: datetime,
        *,
        backfills: bool,
    ) -> None:
        """See `outcomes.requeue_after_cycle`."""
        requeue = partial(self.requeue_within_reach, now=now)
        outcomes.requeue_after_cycle(self.state, self.queues, takers, ended, requeue, backfills=backfills)

    def quota_taken(self, cluster_queue: str) -> None:
        """After an admission or preemption: bring the messages of those that stay refused up to date, likewise."""
        queue = self.state.queues.get(cluster_queue)
        if queue is not None:
            self._taken_from.add(queue.node.root)
            self._refresh_later()

    def _refresh_later(self) -> None:
        if self._refresh_timer is None and (self._stale or self._taken_from):
            wait = self._settings.pending_reason_period if self._settings.tries_all else self._stale.turn_seconds
            self._refresh_timer = asyncio.get_running_loop().call_later(wait, self._refresh)

    def _refresh(self) -> None:
        """Try the refused Workloads again whose messages are due, if the quota in use has changed."""
        self._refresh_timer = None
        around = (node.name for root in self._taken_from for node in root.below() if not node.is_cohort)
        cluster_queues = [name for name in around if self.queues.has_refused(name)]
        self._taken_from.clear()
        if self._settings.tries_all:
            self.queues.requeue_inadmissible(cluster_queues, self._clock.now(), preemptors=False)
        else:
            self._stale.add(cluster_queues, self._time())
            cluster_queues, turns = self._stale.take(self._time())
            for name in cluster_queues:
                self.queues.refresh(name, turns)
        if cluster_queues:
            self.changed.set()
        self._refresh_later()

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()

    def view(self, workload: Workload) -> WorkloadContext:
        """Return what the rules of the life cycle need to know about the queues of a Workload."""
        local = self.queues.local_queues.get(workload.local_queue)
        name = local.spec.cluster_queue if local is not None else ""
        admission = workload.status.admission
        holder = admission.cluster_queue if admission is not None else name
        cluster = self.state.queues.get(holder)
        waiting = self.queues.get(workload.metadata.key)
        error = waiting.error if waiting is not None else ""
        if not error and cluster is not None and not self.state.selects_namespace(holder, workload.metadata.namespace):
            error = messages.NAMESPACE_MISMATCH_MESSAGE
        flavors = {f for p in admission.pod_set_assignments for f in p.flavors.values()} if admission else None
        return WorkloadContext(
            checks=self.state.checks_of(holder, flavors),
            cluster_queue_terminating=cluster is not None and cluster.queue.metadata.deletion_timestamp is not None,
            local_queue_exists=local is not None,
            local_queue_stop=local.spec.stop_policy if local is not None else "",
            cluster_queue=holder,
            cluster_queue_exists=cluster is not None,
            cluster_queue_active=self.is_active(holder),
            cluster_queue_stop=cluster.queue.spec.stop_policy if cluster is not None else "",
            error=error,
            bypassed=self.queues.bypassed(workload.metadata.key),
            behind_head=self.queues.is_behind(workload.metadata.key),
        )

    def workloads_of(self, queues: Iterable[Key]) -> list[Key]:
        """The Workloads, pending or not, that name one of these LocalQueues."""
        wanted = set(queues)
        return [w.metadata.key for w in self._workloads.values() if w.local_queue in wanted]

    # --- events ---

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None:
            if old is not None:
                self.queues.remove(old.metadata.key)
                self._end_reservation(old.metadata.uid)
                self.state.forget(old.metadata.uid)
                self._released(self.state.release(old.metadata.uid))
        elif reserves_quota(new):
            self.queues.remove(new.metadata.key)
            self._end_reservation(new.metadata.uid)  # if another process has admitted it
            self._hold(new)
        elif new.metadata.uid not in self._assumed:
            released = self.state.release(new.metadata.uid)
            self._enqueue(new)
            self._released(released)
        self.changed.set()

    def _hold(self, workload: Workload) -> None:
        """Count the quota that a Workload holds now, free what it held before, and react to a changed priority."""
        before = self.state.holdings.get(workload.metadata.uid)
        holding = holding_of(workload, self.read(workload), self._settings.max_min_runtime)
        if holding is None:
            return
        self._count(holding)
        if before is None:
            return
        if before.priority != holding.priority:  # other Workloads may preempt it now
            self._free(holding.cluster_queue)
        if before.usage != holding.usage:
            self._released(before)
            for listener in self.recount_listeners:
                listener(holding)

    def _count(self, holding: Holding) -> None:
        before = self.state.holdings.get(holding.uid)
        self.state.hold(holding)
        self._report_protection(holding.uid, before)

    def _report_protection(self, uid: str, before: Holding | None) -> None:
        holding = self.state.holdings[uid]
        if holding.protected_until != (before.protected_until if before is not None else None):
            for listener in self.protection_listeners:
                listener(uid)

    def _enqueue(self, workload: Workload, retry_after: float = 0.0) -> None:
        now = self._clock.now()
        reservation = self.state.reservations.get(workload.metadata.uid)
        if waits(workload):
            found = self.read(workload)
            reserved = (reservation.info.queue, reservation.info.shape) if reservation is not None else None
            if reserved != (found.queue, found.shape):
                self._end_reservation(workload.metadata.uid)
            until = max(now + timedelta(seconds=retry_after), found.requeue_at or now)
            self.queues.put(msgspec.structs.replace(found, requeue_at=until) if retry_after else found, now)
        else:
            self._end_reservation(workload.metadata.uid)
            self.queues.remove(workload.metadata.key)

    def _end_reservation(self, uid: str) -> None:
        """End the reservation of a preemptor that cannot use it, so that other Workloads can use the quota."""
        reservation = self.state.reservations.get(uid)
        if reservation is not None:
            self.state.end_reservation(uid)
            self._free(reservation.cluster_queue)

    def _end_unusable_reservations(self) -> None:
        """End the reservations of preemptors whose LocalQueue or ClusterQueue does not admit them now."""
        for uid, reservation in list(self.state.reservations.items()):
            queue, cluster_queue = reservation.info.queue, reservation.cluster_queue
            local = self.queues.local_queues.get(queue)
            leads = local is not None and local.spec.cluster_queue == cluster_queue
            if not leads or self.queues.is_stopped(queue) or not self.is_active(cluster_queue):
                self._end_reservation(uid)

    def _released(self, holding: Holding | None) -> None:
        if holding is not None:
            self._free(holding.cluster_queue)

    def _free(self, cluster_queue: str) -> None:
        """Record that the ClusterQueue has released quota or may release more, so that its cohort is tried again."""
        queue, loop = self.state.queues.get(cluster_queue), asyncio.get_running_loop()
        pause = self._released_quota.add(cluster_queue, queue.node.root if queue is not None else None, loop.time())
        if pause:
            loop.call_later(pause, self.changed.set)
        elif pause is not None:
            self.changed.set()

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        now = self._clock.now()
        self._active.clear()
        if new is None:
            if old is not None:
                relatives = self.state.relatives(old.metadata.name)
                self.state.drop_queue(old.metadata.name)
                self.queues.drop_cluster_queue(old.metadata.name)
                self._end_unusable_reservations()
                self.requeue_inadmissible(relatives)
            return
        before = [] if old is None else self.state.relatives(old.metadata.name)
        self.state.set_queue(new)
        self.queues.set_cluster_queue(new, now)
        self.changed.set()
        if old is None or (old.spec, old.metadata.deletion_timestamp) != (new.spec, new.metadata.deletion_timestamp):
            concerned = list(dict.fromkeys([*before, *self.state.relatives(new.metadata.name)]))
            self._end_unusable_reservations()
            self._quotas_changed(concerned, again=old is not None)

    def _on_cohort(self, old: Cohort | None, new: Cohort | None) -> None:
        cohort = new or old
        if cohort is None or (old is not None and new is not None and old.spec == new.spec):
            return
        self._active.clear()
        name = cohort.metadata.name
        members = set(self.state.members_of_cycle(name))
        before = self._cycles_around({name, *members})
        if new is not None:
            self.state.set_cohort(new)
        else:
            self.state.drop_cohort(name)
        after = self._cycles_around({name, *members, *self.state.members_of_cycle(name)})
        concerned = list(dict.fromkeys([*before, *after]))
        self._end_unusable_reservations()
        self._quotas_changed(concerned, again=old is not None)
        changed = [queue for queue in concerned if before.get(queue, ()) != after.get(queue, ())]
        for listener in self.cycle_listeners if changed else ():
            listener(changed)

    def _cycles_around(self, cohorts: Iterable[str]) -> dict[str, Cycle]:
        """The ClusterQueues of the trees of these cohorts, with the cycle of Cohorts above each.

        Each member of a cycle is the root of its own tree, so the trees of all members are needed to see all
        ClusterQueues for which the cycle is closed or broken.
        """
        names = dict.fromkeys(name for cohort in sorted(cohorts) for name in self.state.relatives_of_cohort(cohort))
        return {name: self.state.cycle_above(name) for name in names}

    def _quotas_changed(self, concerned: Sequence[str], *, again: bool) -> None:
        """Try these ClusterQueues again after changed quotas. `again`: once more after SECOND_TRY_SECONDS, since the
        admissions that follow change the messages of Workloads that stay pending.
        """
        self.requeue_inadmissible(concerned)
        if again:
            asyncio.get_running_loop().call_later(SECOND_TRY_SECONDS, self.requeue_inadmissible, concerned)

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if new is not None:
            self.queues.set_local_queue(new, self._clock.now())
            self.queues.restore_usage(new)
        elif old is not None:
            self.queues.drop_local_queue(old.metadata.key)
        self._end_unusable_reservations()
        self.changed.set()

    def _on_flavor(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        flavor = new or old
        if flavor is None:
            return
        self._active.clear()
        name = flavor.metadata.name
        if new is None:
            self.state.drop_flavor(name)
        else:
            self.state.set_flavor(new)
        self._end_unusable_reservations()
        if old is None or new is None or old.spec != new.spec:
            self.requeue_inadmissible([q for q, s in self.state.queues.items() if name in flavors_of(s.queue)])

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        check = new or old
        if check is None:
            return
        self._active.clear()
        name = check.metadata.name
        if new is None:
            self.state.checks.pop(name, None)
        else:
            self.state.checks[name] = new
        self._end_unusable_reservations()
        if old is None or new is None or old.active != new.active:
            self.requeue_inadmissible([q for q, s in self.state.queues.items() if name in self.state.checks_of(q)])

    def _on_limit_range(self, old: LimitRange | None, new: LimitRange | None) -> None:
        limit_range = new or old
        if limit_range is not None and (old is None or new is None or old.spec != new.spec):
            self._readers.pop(limit_range.metadata.namespace, None)
            self._reread(lambda w: w.metadata.namespace == limit_range.metadata.namespace)

    def _on_runtime_class(self, old: RuntimeClass | None, new: RuntimeClass | None) -> None:
        if old is None or new is None or old.overhead != new.overhead:
            self._readers.clear()
            self._reread(_names_runtime_class)

    def _reread(self, concerned: Callable[[Workload], bool]) -> None:
        """Read these Workloads again: LimitRanges, overhead or settings have changed, and with them the requests."""
        for workload in filter(concerned, self._workloads.values()):
            if workload.metadata.key in self.queues:
                self.queues.remove(workload.metadata.key)
                self._enqueue(workload)
                self.changed.set()
            elif reserves_quota(workload):
                self._hold(workload)

    def _reader(self, namespace: str) -> RequestReader:
        found = self._readers.get(namespace)
        if found is None:
            ranges = self._limit_ranges.lookup("namespace", namespace)
            surroundings = pod_surroundings(ranges, self._runtime_classes.values())
            found = self._readers[namespace] = RequestReader(self._settings.resources, surroundings)
        return found

    def _on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is None:
            if old is not None:
                self.state.namespaces.pop(old.metadata.name, None)
                self._readers.pop(old.metadata.name, None)
            return
        self.state.namespaces[new.metadata.name] = new.metadata.labels
        if old is None or old.metadata.labels != new.metadata.labels:
            self.requeue_inadmissible(list(self.queues.cluster_queues))


def flavors_of(queue: ClusterQueue) -> set[str]:
    """The flavors that a ClusterQueue names."""
    return {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}


def _names_runtime_class(workload: Workload) -> bool:
    return any((p.template.get("spec") or {}).get("runtimeClassName") for p in workload.spec.pod_sets)

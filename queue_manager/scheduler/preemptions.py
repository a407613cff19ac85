"""Carries out preemptions: evicts the victims of a Workload that fits once they have released their quota.

    decided       the quota is reserved for the preemptor, its victims count as evicted, it waits (`Preempt`)
    evictions     CONCURRENT_EVICTIONS at a time; each is one write, followed by the Events. A victim whose admission is
                  not written yet is pending again without any write. One that its preemptor does not need any more
                  when its write begins is evicted for another preemptor that counts on it, or runs on
    the reason    WaitingForPreemptedWorkloads on the preemptor, once all its evictions are written or have failed
    released      each victim that stops makes the preemptor eligible again; it is admitted when it fits

A victim counts as evicted from the decision on, so that no second preemption is issued for it while the write is under
way. A write that fails is undone after a delay: the victim counts as running again, and the preemptor is judged anew.
After a crash the store has the record: evictions that name the preemptor, its reason, and which others it may not
preempt once more.
BEHAVIOUR.md#q49-carrying-out-a-preemption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from queue_manager.api import event_reasons, messages
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle import requeue_history, transitions
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.queueing.outcomes import await_victims
from queue_manager.scheduler.pending_reasons import PendingReasons
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.rejection_delays import Rejections, report
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter
from queue_manager.scheduling.cycle import Preempt
from queue_manager.scheduling.holdings import Holding, Reservation, reserves_quota
from queue_manager.scheduling.quota_state import MOST_RECLAIMS, SchedulerState
from queue_manager.scheduling.victim_search import Victim
from queue_manager.scheduling.workload_info import Info

T = TypeVar("T")

CONCURRENT_EVICTIONS = 8
SLOT = "spared"
PREEMPTED_WORKLOADS = "kueue_preempted_workloads_total"


class Preemptions:
    """Evicts victims, and keeps their preemptors pending meanwhile."""

    def __init__(
        self,
        runtime: Runtime,
        quota_cache: QuotaCache,
        writer: WorkloadWriter,
        reasons: PendingReasons,
        rejections: Rejections,
        pod_error: Callable[[Workload], str],
    ) -> None:
        """`pod_error`: the error of the pods of a victim, for the record of its attempt (`attempt_causes`)."""
        self._runtime = runtime
        self._quota_cache = quota_cache
        self._writer = writer
        self._reasons = reasons
        self._rejections = rejections
        self._pod_error = pod_error
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._slots = asyncio.Semaphore(CONCURRENT_EVICTIONS)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._evictions: dict[str, asyncio.Task[str]] = {}  # under way, by uid of the victim
        self._retries: dict[str, asyncio.Task[None]] = {}  # by uid: its `record_spared` is written no earlier

    def close(self) -> None:
        """Stop starting writes."""
        for task in self._tasks:
            task.cancel()

    def preempt(self, decision: Preempt) -> None:
        """Assume the evictions, keep the quota for the preemptor, and start the writes."""
        for victim in await_victims(self._quota_cache.state, self._quota_cache.queues, decision):
            task = self._evictions[victim.holding.uid] = self._start(self._evict(decision, victim))
            task.add_done_callback(partial(self._ended, victim.holding.uid))
        self._start(self._report(decision))

    def record_spared(self, info: Info) -> None:
        """Record in the status of a refused Workload which others it has preempted as often as it may, unless the
        requeueHistory of these shows it (`status.requeueHistory.spared`).

        A preemption that ends before it is written counts too: without a record it would be forgotten after a restart.
        """
        workload = self._workloads.by_uid(info.uid)
        if workload is None or info.uid in self._retries:
            return
        if not requeue_history.spared(workload) and not self._quota_cache.state.spared_by(info.uid):
            return
        draft = Draft(workload, self._runtime.clock.now())
        self._spare(draft)

        def failed(error: Exception) -> None:
            if not isinstance(error, Gone):
                report(error, "which others it may not preempt could not be written", info)
                again = self._record_spared_again(info, self._rejections.record(workload, error))
                self._retries[info.uid] = self._start(again)

        if draft.changed:
            component = event_reasons.SCHEDULER_COMPONENT
            self._writer.explain(workload, self._spare, component, Cause.REASON, slot=SLOT, failed=failed)

    async def _record_spared_again(self, info: Info, delay: float) -> None:
        await asyncio.sleep(delay)
        del self._retries[info.uid]
        self.record_spared(info)

    def _spare(self, draft: Draft) -> None:
        workload, state = draft.workload, self._quota_cache.state
        if waits(workload):
            known = requeue_history.spared(workload)
            spent = state.spared_by(workload.metadata.uid)
            requeue_history.spare(draft, [uid for uid in spent if uid in known or self._is_unrecorded(uid, workload)])

    def _is_unrecorded(self, victim: str, preemptor: Workload) -> bool:
        workload = self._workloads.by_uid(victim) if victim not in self._evictions else None
        return workload is not None and requeue_history.times_preempted(workload, preemptor) < MOST_RECLAIMS

    def _ended(self, victim: str, task: asyncio.Task[str]) -> None:
        if self._evictions.get(victim) is task:  # not decided again meanwhile
            del self._evictions[victim]

    def _start(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _report(self, decision: Preempt) -> None:
        """Write to the preemptor that it waits for its victims, once all their evictions are written or have failed.

        Nothing is written if all of them have released their quota by then: the next cycle decides.
        """
        info, state = decision.info, self._quota_cache.state
        victims = {victim.holding.uid for victim in decision.victims}
        evictions = [self._evictions[uid] for uid in victims & self._evictions.keys()]
        await asyncio.gather(*evictions)
        released = {task.result() for task in evictions}
        if victims and not victims & state.holdings.keys() - released:
            return
        if info.uid not in state.reservations:  # refused meanwhile, which is reported
            return

        # Of one that has victims, not an explanation only: after a restart it is tried first because of this reason.
        cause = Cause.PREEMPTION if decision.victims else Cause.REASON
        self._reasons.report(info, PendingReason(decision.reason, decision.message), cause, requests=info.requests)

    async def _evict(self, decision: Preempt, victim: Victim) -> str:
        """Evict one victim. Return its uid if it holds no quota any more, which the cache may not show yet; else ""."""
        latest = await self._write_eviction(decision, victim)
        return victim.holding.uid if latest is not None and not reserves_quota(latest) else ""

    async def _write_eviction(self, decision: Preempt, victim: Victim) -> Workload | None:
        """Return the Workload after the write; None if nothing was written."""
        holding, state = victim.holding, self._quota_cache.state
        workload = self._workloads.by_uid(holding.uid)
        if workload is None:
            return None
        evicted_for: Reservation | None = None

        def preempt(draft: Draft) -> None:
            nonlocal evicted_for
            evicted_for, needed_by = None, state.needed_by(holding.uid, decision.info.uid)
            if needed_by is None:
                self._quota_cache.take_back_eviction(holding)
                return
            before = draft.status
            self._preempt(draft, holding, needed_by)
            if draft.status != before:
                evicted_for = needed_by

        try:
            async with self._slots:
                component = event_reasons.SCHEDULER_COMPONENT
                latest = await self._writer.write(workload, preempt, component, Cause.PREEMPTION)
        except Gone:
            return None
        except Exception as error:
            report(error, "a preemption could not be written", decision.info)
            state.take_back_reclaim(decision.info.uid, holding.uid)
            delay = self._rejections.record(workload, error)
            asyncio.get_running_loop().call_later(delay, self._quota_cache.take_back_eviction, holding)
            return None
        if evicted_for is not None:
            if evicted_for.info.uid != decision.info.uid:
                state.transfer_reclaim(decision.info.uid, holding, evicted_for.info)
            self._record(holding, evicted_for)
        return latest

    def _preempt(self, draft: Draft, holding: Holding, needed_by: Reservation) -> None:
        reason, preemptor = needed_by.victims[holding.uid], self._workloads.by_uid(needed_by.info.uid)
        message = messages.preempted(
            needed_by.info.uid,
            preemptor.job_uid if preemptor is not None else "",
            reason,
            path(self._quota_cache.state, needed_by.cluster_queue),
            path(self._quota_cache.state, holding.cluster_queue),
        )
        text = messages.needed_by(needed_by.cluster_queue, needed_by.info.priority, reason, holding.cluster_queue)
        error = self._pod_error(draft.original)
        transitions.preempt(draft, reason, message, _priorities(holding, needed_by), text, error)

    def _record(self, holding: Holding, needed_by: Reservation) -> None:
        labels = {"preempting_cluster_queue": needed_by.cluster_queue, "reason": needed_by.victims[holding.uid]}
        self._runtime.metrics.inc(PREEMPTED_WORKLOADS, labels)
        preemptor = self._workloads.by_uid(needed_by.info.uid)
        if preemptor is None:
            return
        # Users of the preemptor's namespace read this Event: it names no Workload of another namespace.
        name = str(holding.key) if holding.key.namespace == needed_by.info.key.namespace else ""
        text = messages.preempted_workload(name, holding.uid, holding.cluster_queue)
        recorder = self._runtime.recorder(event_reasons.SCHEDULER_COMPONENT)
        text = f"{text}; {_priorities(holding, needed_by)}"
        recorder.event(preemptor, "Normal", event_reasons.PREEMPTED_WORKLOAD, text)


def _priorities(holding: Holding, needed_by: Reservation) -> str:
    return messages.preemption_priorities(needed_by.info.priority, holding.priority)


def path(state: SchedulerState, cluster_queue: str) -> str:
    """Return the names from the root of the tree of cohorts to a ClusterQueue, each after a slash, as in Kueue."""
    queue = state.queues.get(cluster_queue)
    node, names = (queue.node if queue is not None else None), []
    while node is not None:
        names.append(node.name)
        node = node.parent
    return "/" + "/".join(reversed(names or [cluster_queue]))

"""Runs admission cycles when something has changed, and writes their outcomes.

The `quota_cache` knows the pending Workloads and the quota in use. A cycle is one synchronous call between two awaits,
so nothing changes during it. Its outcomes are assumed in the quota cache at once, and written concurrently with further
cycles: cycles follow one another in memory for as long as each admits, preempts or parks something, up to
BUDGET_SECONDS between two turns of the event loop. BEHAVIOUR.md#q11-admission-cycle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime

from queue_manager.api import event_reasons, messages, reasons
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.api.workload_names import job_name
from queue_manager.engine.cache import Cache
from queue_manager.engine.kept_loop import KeptLoop
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle import admission_checks, transitions
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.queueing import outcomes
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.queueing.queue_set import MOST_TRIES
from queue_manager.scheduler.cycle_metrics import CycleMetrics
from queue_manager.scheduler.cycle_trail import CycleTrail
from queue_manager.scheduler.pending_reasons import PendingReasons
from queue_manager.scheduler.preemptions import Preemptions
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.rejection_delays import RETRY_SECONDS, Rejections, is_rejection, report
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter
from queue_manager.scheduling.backfill import Backfilling
from queue_manager.scheduling.cycle import Admit, Preempt, Refuse, Retry, is_change, run_cycle
from queue_manager.scheduling.holdings import reserves_quota
from queue_manager.scheduling.workload_info import Info

log = logging.getLogger(__name__)

ENDLESS_TRIES = "preemptors were tried again and again, and nothing changed; they wait for a second"
WAITING_FOR_PODS = PendingReason(reasons.WAITING_FOR_PODS_READY, messages.WAITING_FOR_PODS_READY_MESSAGE)
WAITING_BEHIND = PendingReason(reasons.PENDING_EVALUATION, messages.PENDING_EVALUATION_MESSAGE)
BUDGET_SECONDS = 0.01  # of consecutive cycles, before watches and writes proceed


class Scheduler:
    """Runs admission cycles over the pending Workloads, and starts the writes of their outcomes."""

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkloadSettings,
        quota_cache: QuotaCache,
        writer: WorkloadWriter,
        follows_job: Callable[[Workload], bool] = lambda workload: True,
        pod_error: Callable[[Workload], str] = lambda workload: "",
    ) -> None:
        """`follows_job`: whether the requests of a Workload are those of its Job; if not, it is not admitted.
        `pod_error`: see `Preemptions`.
        """
        self.cycles = 0
        self._follows_job = follows_job
        self._runtime = runtime
        self._settings = settings
        self._backfilling = _backfilling(settings)
        self._quota_cache = quota_cache
        self._writer = writer
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._writes: set[asyncio.Task[None]] = set()
        self._loop = KeptLoop()
        self._metrics = CycleMetrics(runtime.metrics, quota_cache.state)
        self._trail = CycleTrail(quota_cache.changed)
        self._rejections = Rejections(runtime)
        self._reasons = PendingReasons(runtime, settings, quota_cache, writer, self._rejections)
        self._preemptions = Preemptions(runtime, quota_cache, writer, self._reasons, self._rejections, pod_error)
        self._workloads.subscribe(self._on_workload)
        runtime.task(self.run)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Apply changed settings from the next cycle on."""
        self._settings = settings
        self._backfilling = _backfilling(settings)
        self._reasons.reconfigure(settings)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._trail.changed(new.metadata.uid)
        elif old is not None:
            self._rejections.forget(old.metadata.uid)

    # --- cycles ---

    async def run(self) -> None:
        """Run cycles while they achieve something, then wait for a change."""
        changed = self._quota_cache.changed
        self._quota_cache.restore_reservations()
        try:
            while True:
                await changed.wait()
                changed.clear()
                self._quota_cache.queues.forget_tries()
                await self._run_cycles()
                self._trail.settle()
                self._retry_exhausted()
                await asyncio.sleep(0)
        finally:
            for task in self._writes:
                task.cancel()
            self._preemptions.close()
            self._reasons.close()

    async def _run_cycles(self) -> None:
        """Run cycles until one finds nothing to do; every BUDGET_SECONDS watches and writes proceed."""
        end = self._loop.time() + BUDGET_SECONDS
        while self.cycle():
            if self._loop.time() >= end:
                await asyncio.sleep(0)
                end = self._loop.time() + BUDGET_SECONDS

    def _retry_exhausted(self) -> None:
        """Report preemptors that take quota from each other without end, and try them again a second later."""
        if exhausted := self._quota_cache.queues.exhausted():
            log.error(ENDLESS_TRIES, extra={"tries": MOST_TRIES, "workloads": [str(key) for key in exhausted]})
            self._loop.get().call_later(RETRY_SECONDS, self._quota_cache.changed.set)

    def cycle(self) -> bool:
        """Run one admission cycle. False if nothing can be tried before something changes."""
        now = self._runtime.clock.now()
        heads = self._quota_cache.heads(now)
        if not heads:
            return False
        self.cycles += 1
        with self._trail.cycle(len(heads)):
            return self._decide(heads, now)

    def _decide(self, heads: list[tuple[str, Info]], now: datetime) -> bool:
        """Decide about these heads and start the writes. False if nothing more can be tried."""
        started = self._loop.time()
        waiting = self._quota_cache.queues.waiting_heads() if self._backfilling is not None else {}
        withholding = self._quota_cache.withholding_heads(heads)
        decided = run_cycle(self._quota_cache.state, heads, now, self._backfilling, waiting, withholding)
        blocked = self._is_blocked_by_pods()
        progress, takers, ended = False, list[Admit | Preempt](), list[outcomes.EndedReservations]()
        for outcome in decided:
            self._trail.follow(outcome.info.uid)
            match outcome:
                case Admit() if blocked:
                    self._trail.record("blocked", outcome)
                    self._block(outcome.info)
                case Admit():
                    self._trail.record("admitted", outcome)
                    self._admit(outcome)
                    takers.append(outcome)
                    progress, blocked = True, self._is_blocked_by_pods()
                case Preempt():
                    self._trail.record("preempting", outcome)
                    self._preemptions.preempt(outcome)
                    takers.append(outcome)
                    progress = True
                case Refuse():
                    self._trail.record("refused", outcome)
                    ended.append(self._refuse(outcome))
                    self._preemptions.record_spared(outcome.info)
                    progress = progress or outcome.retry is not Retry.NEXT_CYCLE
        if not progress:  # no further cycle decides about these
            for refusal in (each for each in decided if isinstance(each, Refuse) and each.retry is Retry.NEXT_CYCLE):
                self._trail.follow(refusal.info.uid)
                self._report(refusal)
        self._quota_cache.requeue_after_cycle(takers, ended, now, backfills=self._backfilling is not None)
        for taker in filter(is_change, takers):
            self._quota_cache.quota_taken(taker.cluster_queue)
        self._quota_cache.report_reasons()
        self._metrics.record(decided, self._loop.time() - started)
        return progress

    def _block(self, info: Info) -> None:
        """Report that pods are awaited. A preemptor keeps the reason by which a restarted scheduler keeps quota for it
        again.
        """
        if not info.preempting and info.uid not in self._quota_cache.state.reservations:
            self._reasons.report(info, WAITING_FOR_PODS)

    def _is_blocked_by_pods(self) -> bool:
        return outcomes.is_blocked_by_pods(self._quota_cache.state, block_admission=self._settings.block_admission)

    # --- admissions ---

    def _admit(self, decision: Admit) -> None:
        self._quota_cache.assume(decision)
        self._start_write(self._write_admission(decision))

    def _start_write(self, write: Coroutine[None, None, None]) -> None:
        task = self._loop.get().create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _write_admission(self, decision: Admit) -> None:
        info = decision.info
        workload = self._workloads.by_uid(info.uid)
        retry_after = 0.0
        try:
            if workload is not None:
                component = event_reasons.SCHEDULER_COMPONENT
                latest = await self._writer.write(
                    workload, lambda draft: self._reserve(draft, decision), component, Cause.ADMISSION
                )
                if not reserves_quota(latest) and not self._follows_job(latest):
                    retry_after = RETRY_SECONDS  # or once it changes
                self._rejections.forget(info.uid)
        except Gone:
            pass
        except Exception as error:
            report(error, "an admission could not be written", info)
            if is_rejection(error):  # the quota is free for others until the retry
                retry_after = self._rejections.record(self._workloads.by_uid(info.uid), error)
            else:
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._quota_cache.resolve_assumption(info, retry_after)

    def _reserve(self, draft: Draft, decision: Admit) -> None:
        """Reserve quota, unless something on which the decision depends has changed, or the Workload was preempted.

        The same write sets PodsReady=False if waitForPodsReady is on and Sluice created the Workload for a Job.
        """
        newest = self._quota_cache.read(draft.workload)
        if not self._quota_cache.is_active(decision.cluster_queue) or self._quota_cache.queues.is_stopped(newest.queue):
            return
        holding = self._quota_cache.state.holdings.get(decision.info.uid)
        if holding is not None and holding.evicted:  # preempted since the decision: neither of the two is written
            return
        if not self._follows_job(draft.workload):  # an admission of the old request would end with its Workload
            return
        if waits(draft.workload) and not newest.in_backoff(draft.now) and _same(newest, decision.info):
            if self._settings.pods_ready is not None and _is_named_for_job(draft.original):
                transitions.pods_awaited(draft)
            transitions.reserve(draft, decision.cluster_queue, decision.assignment)
            checks = self._quota_cache.state.checks_of(decision.cluster_queue, decision.assignment.flavors)
            admission_checks.synchronise(draft, checks)
            admission_checks.confirm(draft)

    # --- refusals ---

    def _refuse(self, refusal: Refuse) -> outcomes.EndedReservations:
        now, backfilling = self._runtime.clock.now(), self._backfilling
        ended = outcomes.refuse(self._quota_cache.state, self._quota_cache.queues, refusal, now, backfilling)
        if refusal.retry is not Retry.NEXT_CYCLE:
            self._report(refusal)
        for info in ended.behind:
            self._reasons.report(info, WAITING_BEHIND)
        return ended

    def _report(self, refusal: Refuse) -> None:
        why = PendingReason(refusal.reason, refusal.message)
        self._reasons.report(refusal.info, why, requests=refusal.info.requests)


def _backfilling(settings: WorkloadSettings) -> Backfilling | None:
    return Backfilling(settings.backfill) if settings.backfill is not None else None


def _is_named_for_job(workload: Workload) -> bool:
    """Whether Sluice created the Workload, so that pods follow an admission; a prebuilt one may match no Job."""
    return bool(job_name(workload.metadata.name, workload.job_uid))


def _same(a: Info, b: Info) -> bool:
    return (a.uid, a.queue, a.shape) == (b.uid, b.queue, b.shape)

"""Runs admission cycles when something has changed, and writes their outcomes.

The `quota_cache` knows the pending Workloads and the quota in use. A cycle is one synchronous call between two awaits,
so nothing changes during it. Admissions are assumed in the quota cache at once, and written concurrently with further
cycles. BEHAVIOUR.md#q11-admission-cycle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

from queue_manager.api import event_reasons, messages, policies, reasons
from queue_manager.api.resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import ApiError
from queue_manager.lifecycle import admission_checks, transitions
from queue_manager.lifecycle.settings import Settings
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.scheduler.quota_cache import QuotaCache, waits
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter
from queue_manager.scheduling.backfill import Backfilling
from queue_manager.scheduling.cycle import Admit, Refuse, run_cycle
from queue_manager.scheduling.quota_state import reserves_quota
from queue_manager.scheduling.workload_info import Info

log = logging.getLogger(__name__)

CONCURRENT_WRITES = 50  # requests
NEVER_FITS_REASONS = (reasons.EXCEEDS_MAX_QUOTA, reasons.NO_MATCHING_FLAVOR)  # hold until quota or flavors change
RETRY_SECONDS = 1.0  # after a failed write, and after the first rejected one
MAX_RETRY_SECONDS = 60.0  # the delay doubles with each write that the server rejects


class Scheduler:
    """Admits Workloads."""

    def __init__(self, runtime: Runtime, settings: Settings, quota_cache: QuotaCache, writer: WorkloadWriter) -> None:
        self.cycles = 0
        self._runtime = runtime
        self._settings = settings
        self._backfilling = _backfilling(settings)
        self._quota_cache = quota_cache
        self._writer = writer
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._writes: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(CONCURRENT_WRITES)
        self._refusals: dict[str, int] = {}  # by uid: rejected writes in a row
        self._retry_timers: dict[str, asyncio.TimerHandle] = {}  # by uid: retries of reasons
        self._workloads.subscribe(self._on_workload)
        runtime.task(self.run)

    def reconfigure(self, settings: Settings) -> None:
        """Use these settings from the next cycle on."""
        self._settings = settings
        self._backfilling = _backfilling(settings)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None and old is not None:
            self._refusals.pop(old.metadata.uid, None)
            self._cancel_retry(old.metadata.uid)

    # --- cycles ---

    async def run(self) -> None:
        """Run cycles while there is a head to try, then wait for a change."""
        changed = self._quota_cache.changed
        try:
            while True:
                await changed.wait()
                changed.clear()
                if self.cycle():
                    changed.set()
                await asyncio.sleep(0)  # let watches and writes proceed between two cycles
        finally:
            for task in self._writes:
                task.cancel()
            for uid in list(self._retry_timers):
                self._cancel_retry(uid)

    def cycle(self) -> bool:
        """Run one admission cycle. False if nothing can be tried before something changes."""
        now = self._runtime.clock.now()
        heads = self._quota_cache.queues.heads(self._quota_cache.is_active, now)
        if not heads:
            return False
        self.cycles += 1
        started = self._loop_time()
        waiting = self._quota_cache.queues.waiting_heads() if self._backfilling is not None else {}
        outcomes = run_cycle(self._quota_cache.state, heads, now, waiting, self._backfilling)
        progress = False
        for outcome in outcomes:
            progress = self._carry_out(outcome) or progress
        self._record_metrics(outcomes, self._loop_time() - started)
        return progress

    def _carry_out(self, outcome: Admit | Refuse) -> bool:
        """Carry out an outcome. True if the next cycle has another head to try."""
        if isinstance(outcome, Refuse):
            self._record_refused(outcome)
            self._start_write(self._write_refusal(outcome))
            return True
        if self._is_blocked_by_pods():
            self._start_write(self._write_wait(outcome))
            return False
        self._quota_cache.assume(outcome)
        self._start_write(self._write_admission(outcome))
        return True

    def _record_refused(self, refusal: Refuse) -> None:
        backfilling, now = self._backfilling, self._runtime.clock.now()
        self._quota_cache.queues.refused(
            refusal,
            never=refusal.reason in NEVER_FITS_REASONS,
            promised=backfilling is not None,
            shortest_first=backfilling is not None and backfilling.is_shortest_first(refusal.info, now),
        )

    def _is_blocked_by_pods(self) -> bool:
        """Whether blockAdmission holds back admissions: an admitted Workload is not PodsReady.

        BEHAVIOUR.md#q37-block-admission
        """
        ready = self._settings.pods_ready
        if ready is None or not ready.block_admission:
            return False
        return any(not holding.ready for holding in self._quota_cache.state.holdings.values())

    # --- writes ---

    def _start_write(self, write: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _write_admission(self, decision: Admit) -> None:
        info = decision.info
        workload = self._workloads.by_uid(info.uid)
        written, retry_after = False, 0.0
        try:
            if workload is not None:
                async with self._slots:
                    latest = await self._writer.write(
                        workload, lambda draft: self._admit(draft, decision), event_reasons.SCHEDULER_COMPONENT
                    )
                written = reserves_quota(latest)  # False if the Workload finished in the same write
                self._refusals.pop(info.uid, None)
        except Gone:
            pass
        except Exception as error:
            _report(error, "an admission could not be written", info)
            if _is_refusal(error):  # the quota is free for others until the retry
                retry_after = self._record_refusal(info, error)
            else:
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._quota_cache.resolve_assumption(info, written=written, retry_after=retry_after)

    def _record_refusal(self, info: Info, error: Exception) -> float:
        """The server rejects what we write about a Workload: record one Event, return the seconds until the retry."""
        before = self._refusals.get(info.uid, 0)
        workload = self._workloads.by_uid(info.uid)
        if workload is not None:
            self._refusals[info.uid] = before + 1
            if not before:
                text = f"Cannot be written: {error}"
                self._runtime.recorder(event_reasons.SCHEDULER_COMPONENT).event(
                    workload, "Warning", event_reasons.QUEUEING_REFUSED, text
                )
        return min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2.0 ** min(before, 32))

    def _admit(self, draft: Draft, decision: Admit) -> None:
        """Reserve quota, unless something on which the decision depends has changed."""
        newest = self._quota_cache.read(draft.workload)
        if not self._quota_cache.is_active(decision.cluster_queue) or self._quota_cache.queues.is_stopped(newest.queue):
            return
        if waits(draft.workload) and not newest.in_backoff(draft.now) and _same(newest, decision.info):
            transitions.reserve(draft, decision.cluster_queue, decision.assignment)
            flavors = {flavor for pod_set in decision.assignment.pod_sets for flavor in pod_set.flavors.values()}
            admission_checks.synchronise(draft, self._quota_cache.state.checks_of(decision.cluster_queue, flavors))
            admission_checks.confirm(draft)

    async def _write_refusal(self, refusal: Refuse) -> None:
        def refuse(draft: Draft) -> None:
            before = len(draft.events)
            if waits(draft.workload):
                transitions.refuse(draft, refusal.reason, refusal.message, refusal.info.requests)
            if (
                len(draft.events) > before
                and refusal.reason in NEVER_FITS_REASONS
                and self._is_strict(refusal.cluster_queue)
            ):
                text = f"Can never be admitted, and blocks ClusterQueue {refusal.cluster_queue}: {refusal.message}"
                draft.event("Warning", event_reasons.NEVER_FITS, text)

        await self._write_reason(refusal.info, refuse)

    async def _write_wait(self, decision: Admit) -> None:
        def wait(draft: Draft) -> None:
            if waits(draft.workload):
                transitions.block(draft, reasons.WAITING_FOR_PODS_READY, messages.WAITING_FOR_PODS_READY_MESSAGE)

        await self._write_reason(decision.info, wait)

    async def _write_reason(self, info: Info, transition: transitions.Transition) -> None:
        workload = self._workloads.by_uid(info.uid)
        if workload is None or info.uid in self._retry_timers or not _changes(workload, transition, self._runtime):
            return
        try:
            async with self._slots:
                await self._writer.write(workload, transition, event_reasons.SCHEDULER_COMPONENT)
        except Gone:
            return
        except Exception as error:
            if info.uid not in self._retry_timers:  # else a concurrent write has reported it
                _report(error, "a refusal could not be written", info)
                self._retry_reason_after(
                    workload, self._record_refusal(info, error) if _is_refusal(error) else RETRY_SECONDS
                )

    def _retry_reason_after(self, workload: Workload, seconds: float) -> None:
        """Do not write the reason of this Workload again for `seconds`, however often its queue changes."""

        def end() -> None:
            self._cancel_retry(workload.metadata.uid)
            local = self._quota_cache.queues.local_queues.get(workload.local_queue)
            self._quota_cache.requeue_inadmissible([local.spec.cluster_queue] if local else [])

        self._retry_timers[workload.metadata.uid] = asyncio.get_running_loop().call_later(seconds, end)

    def _cancel_retry(self, uid: str) -> None:
        timer = self._retry_timers.pop(uid, None)
        if timer is not None:
            timer.cancel()

    def _is_strict(self, cluster_queue: str) -> bool:
        pending = self._quota_cache.queues.cluster_queues.get(cluster_queue)
        return pending is not None and pending.strategy == policies.STRICT_FIFO and not pending.pass_by

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    def _record_metrics(self, outcomes: list[Admit | Refuse], seconds: float) -> None:
        admitted = sum(isinstance(outcome, Admit) for outcome in outcomes)
        result = {"result": "success" if admitted else "inadmissible"}
        self._runtime.metrics.inc("kueue_admission_attempts_total", result)
        self._runtime.metrics.observe("kueue_admission_attempt_duration_seconds", result, seconds)


def _backfilling(settings: Settings) -> Backfilling | None:
    return Backfilling(settings.backfill) if settings.backfill is not None else None


def _report(error: Exception, text: str, info: Info) -> None:
    """Log a failed write; with a traceback unless the server is busy or unreachable."""
    extra = {"key": str(info.key), "error": str(error)}
    if isinstance(error, ApiError | OSError):
        log.warning(text, extra=extra)
    else:
        log.error(text, extra=extra, exc_info=error)


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.is_rejected


def _same(a: Info, b: Info) -> bool:
    return (a.uid, a.queue, a.shape) == (b.uid, b.queue, b.shape)


def _changes(workload: Workload, transition: transitions.Transition, runtime: Runtime) -> bool:
    draft = Draft(workload, runtime.clock.now())
    transition(draft)
    return draft.changed

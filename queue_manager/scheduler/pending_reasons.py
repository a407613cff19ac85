"""When the reason of a pending Workload is written: QuotaReserved=False with reason and message, and its Event.

The scheduler tries the same Workloads again each time quota is released, and nearly every refusal has other numbers in
its message ("2 more needed"). So:

    the reason has changed (*)  it is queued for writing, behind whatever lets work run (`write_queue`)
    only the message or the     it is written once in `pendingReasonPeriod`, at a time in the period that depends on
    requests have changed       the Workload's uid: the writes of many Workloads are spread evenly
    neither                     nothing is written, and a queued write is withdrawn
    found while another         it is compared with that one when that is in the cache
    reason is being written
    the life cycle has set      the refusal that stands is written again
    PendingEvaluation since

(*) also to and from "kept for a workload that is ordered before it": the reason stays WaitingForQuota, but not why.

The newest refusal counts. A Workload that is admitted meanwhile gets no reason. BEHAVIOUR.md#q6-pending-reasons.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from queue_manager.api import condition_types, event_reasons, messages, policy_values, reasons
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle import transitions
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.queueing.outcomes import NEVER_FITS_REASONS
from queue_manager.queueing.refresh_turns import phase_of
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.rejection_delays import Rejections, report
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter
from queue_manager.scheduling.amounts import Amounts
from queue_manager.scheduling.workload_info import Info

SLOT = "scheduler"


@dataclass(slots=True)
class _Finding:
    """A reason of a pending Workload that is not written yet; a newer one replaces it."""

    info: Info
    why: PendingReason
    requests: Mapping[str, Amounts] | None
    workload: Workload  # as of which the write was found to be necessary
    timer: asyncio.TimerHandle | None = None  # until a mere message is written; None: the write is queued

    def is_like(self, workload: Workload, why: PendingReason) -> bool:
        """Whether `why` would be written for the same cause and at the same time as this finding."""
        if self.workload is not workload or _kind(why) != _kind(self.why):
            return False
        reserved = workload.condition(condition_types.QUOTA_RESERVED)
        return reserved is None or reserved.message != why.message


class PendingReasons:
    """Writes why Workloads stay pending (QuotaReserved=False), at most once per period unless the reason changes."""

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkloadSettings,
        quota_cache: QuotaCache,
        writer: WorkloadWriter,
        rejections: Rejections,
    ) -> None:
        self._runtime = runtime
        self._period = settings.pending_reason_period
        self._quota_cache = quota_cache
        self._writer = writer
        self._rejections = rejections
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._findings: dict[str, _Finding] = {}  # by uid
        self._begun: set[str] = set()  # uids whose write has begun, and has not reached the cache yet
        self._retry_timers: dict[str, asyncio.TimerHandle] = {}  # by uid: no write before
        self._workloads.subscribe(self._on_workload)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Apply a changed period to the next messages."""
        self._period = settings.pending_reason_period

    def close(self) -> None:
        """Stop all timers."""
        for uid in [*self._findings, *self._retry_timers]:
            self._forget(uid)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None and old is not None:
            self._forget(old.metadata.uid)
        elif new is not None and new.is_true(condition_types.QUOTA_RESERVED):
            self._begun.discard(new.metadata.uid)
            self._forget_finding(new.metadata.uid)
        elif new is not None:
            self._begun.discard(new.metadata.uid)
            self._correct(new)
            self._restore(new)

    def _restore(self, workload: Workload) -> None:
        """Write the refusal of a Workload again that the life cycle has set to PendingEvaluation meanwhile.

        A LocalQueue that was stopped for an instant leaves that behind, if the scheduler refused it again before.
        """
        reserved = workload.condition(condition_types.QUOTA_RESERVED)
        if reserved is None or reserved.reason != reasons.PENDING_EVALUATION or not waits(workload):
            return
        queues, key = self._quota_cache.queues, workload.metadata.key
        refusal, info = queues.refusal(key), queues.get(key)
        if refusal is not None and info is not None and workload.metadata.uid not in self._findings:
            self.report(info, refusal, requests=info.requests)

    def _correct(self, workload: Workload) -> None:
        """Write now what was found while another reason was being written, if that one has reached the cache."""
        finding = self._findings.get(workload.metadata.uid)
        if finding is not None and finding.timer is not None and _kind_written(workload) != _kind(finding.why):
            self._forget_finding(workload.metadata.uid)
            self.report(finding.info, finding.why, requests=finding.requests)

    def _forget(self, uid: str) -> None:
        self._forget_finding(uid)
        self._begun.discard(uid)
        timer = self._retry_timers.pop(uid, None)
        if timer is not None:
            timer.cancel()

    def _forget_finding(self, uid: str) -> None:
        finding = self._findings.pop(uid, None)
        if finding is not None and finding.timer is not None:
            finding.timer.cancel()

    def report(
        self,
        info: Info,
        why: PendingReason,
        cause: Cause = Cause.REASON,
        *,
        requests: Mapping[str, Amounts] | None = None,
    ) -> None:
        """Have written why the Workload stays pending. `cause`: what led to a new reason.

        `requests`: by pod set, of a Workload that was tried (`transitions.refuse`); without them, of one that was not
        (`transitions.block`). Most refusals repeat an earlier one with other numbers; they replace the one that is
        queued, without another check.
        """
        workload = self._workloads.by_uid(info.uid)
        if workload is None or info.uid in self._retry_timers:
            return
        known = self._findings.get(info.uid)
        if known is not None and self._period > 0 and known.is_like(workload, why):
            known.info, known.why, known.requests = info, why, requests
            return
        finding = _Finding(info, why, requests, workload)
        draft = Draft(workload, self._runtime.clock.now())
        self._apply(finding, draft)
        if not draft.changed and info.uid in self._begun:
            self._write_later(finding)  # the cache does not have what is being written
        elif not draft.changed:
            self._forget_finding(info.uid)
            self._writer.withdraw(info.key, SLOT)
        elif self._period <= 0 or _kind_written(draft.workload) != _kind_written(workload):
            self._forget_finding(info.uid)
            self._findings[info.uid] = finding
            self._write(finding, cause)
        elif known is not None and known.timer is None:  # its turn has come, and the write is queued
            known.info, known.why, known.requests, known.workload = info, why, requests, workload
        else:
            self._write_later(finding)

    def _apply(self, finding: _Finding, draft: Draft) -> None:
        """Draft the conditions of a finding, unless the Workload is not pending, or not a preemptor, any more."""
        info, why, requests = finding.info, finding.why, finding.requests
        awaits_victims = why.reason == reasons.WAITING_FOR_PREEMPTED
        if not waits(draft.workload) or (awaits_victims and info.uid not in self._quota_cache.state.reservations):
            return
        if requests is None:
            transitions.block(draft, why.reason, why.message)
            return
        before = len(draft.events)
        transitions.refuse(draft, why.reason, why.message, requests)
        if len(draft.events) > before and why.reason in NEVER_FITS_REASONS and (queue := self._blocked_queue(info)):
            text = f"Can never be admitted, and blocks ClusterQueue {queue}: {why.message}"
            draft.event("Warning", event_reasons.NEVER_FITS, text)

    def _blocked_queue(self, info: Info) -> str:
        """The StrictFIFO queue that this Workload blocks if it is refused; "" if others may pass it."""
        queues = self._quota_cache.queues
        local = queues.local_queues.get(info.queue)
        if local is None:
            return ""
        name = local.spec.cluster_queue
        pending = queues.cluster_queues.get(name)
        if pending is None or pending.strategy != policy_values.STRICT_FIFO or pending.pass_by:
            return ""
        return name

    def _write_later(self, finding: _Finding) -> None:
        uid = finding.info.uid
        known = self._findings.get(uid)
        finding.timer = known.timer if known is not None else None
        if finding.timer is None:
            loop = asyncio.get_running_loop()
            finding.timer = loop.call_at(next_turn(uid, self._period, loop.time()), self._refresh, uid)
        self._writer.withdraw(finding.info.key, SLOT)
        self._findings[uid] = finding

    def _refresh(self, uid: str) -> None:
        finding = self._findings[uid]
        finding.timer = None
        self._write(finding, Cause.REASON_REFRESH)

    def _write(self, finding: _Finding, cause: Cause) -> None:
        info = finding.info
        workload = self._workloads.by_uid(info.uid)
        if workload is None:
            return

        def write(draft: Draft) -> None:
            if self._findings.get(info.uid) is finding:  # from now on a newer one needs a write of its own
                del self._findings[info.uid]
            self._begun.add(info.uid)
            self._apply(finding, draft)

        def failed(error: Exception) -> None:
            self._begun.discard(info.uid)
            if not isinstance(error, Gone) and info.uid not in self._retry_timers:
                report(error, "the reason of a pending Workload could not be written", info)
                self._retry_after(info, self._rejections.record(self._workloads.by_uid(info.uid), error))

        component = event_reasons.SCHEDULER_COMPONENT
        never = finding.why.reason in NEVER_FITS_REASONS
        self._writer.explain(workload, write, component, cause, slot=SLOT, failed=failed, never=never)

    def _retry_after(self, info: Info, seconds: float) -> None:
        """Do not write the reason of this Workload again for `seconds`, however often its queue changes."""

        def end() -> None:
            self._retry_timers.pop(info.uid, None)
            local = self._quota_cache.queues.local_queues.get(info.queue)
            self._quota_cache.requeue_inadmissible([local.spec.cluster_queue] if local else [])

        self._retry_timers[info.uid] = asyncio.get_running_loop().call_later(seconds, end)


def next_turn(uid: str, period: float, now: float) -> float:
    """The next time at which a Workload may have a message refreshed: once per period, evenly spread over uids; `now`
    without a period.
    """
    return now + (phase_of(uid) * period - now) % period if period > 0 else now


def _kind(why: PendingReason) -> tuple[str, bool]:
    """What makes a reason another one; the rest of its message may change without a new reason."""
    return why.reason, why.message in messages.KEPT_MESSAGES


def _kind_written(workload: Workload) -> tuple[str, bool] | None:
    """The kind of the reason in the status; None without one."""
    reserved = workload.condition(condition_types.QUOTA_RESERVED)
    if reserved is None or reserved.is_true:
        return None
    return _kind(PendingReason(reserved.reason, reserved.message))

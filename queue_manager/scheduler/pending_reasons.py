"""When the reason of a pending Workload is written: QuotaReserved=False with reason and message, and its Event.

The scheduler tries the same Workloads again each time quota is released, and nearly every refusal has other numbers in
its message ("2 more needed"). So:

    the reason has changed (*)  it is queued for writing, behind whatever lets work run (`write_queue`)
    only the message or the     it is written once in `pendingReasonPeriod`, at a time in the period that depends on
    requests have changed       the Workload's uid: the writes of many Workloads are spread evenly
    neither                     nothing is written, and a queued write is withdrawn

(*) also to and from "kept for a workload that has waited longer": the reason stays WaitingForQuota then, but not why.

The newest refusal counts. A Workload that is admitted meanwhile gets no reason. BEHAVIOUR.md#q6-pending-reasons.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import NamedTuple

from queue_manager.api import condition_types, event_reasons, messages
from queue_manager.api.resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.transitions import Transition
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.rejections import Rejections, report
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter
from queue_manager.scheduling.workload_info import Info

SLOT = "scheduler"


class _Outdated(NamedTuple):
    """A message to be written when its time comes."""

    info: Info
    transition: Transition
    timer: asyncio.TimerHandle


class PendingReasons:
    """Writes what the scheduler has found about Workloads that stay pending."""

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
        self._outdated: dict[str, _Outdated] = {}  # by uid
        self._retry_timers: dict[str, asyncio.TimerHandle] = {}  # by uid: no write before
        self._workloads.subscribe(self._on_workload)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Use this period for the next messages."""
        self._period = settings.pending_reason_period

    def close(self) -> None:
        """Stop all timers."""
        for uid in [*self._outdated, *self._retry_timers]:
            self._forget(uid)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None and old is not None:
            self._forget(old.metadata.uid)
        elif new is not None and new.is_true(condition_types.QUOTA_RESERVED):
            self._forget_outdated(new.metadata.uid)

    def _forget(self, uid: str) -> None:
        self._forget_outdated(uid)
        timer = self._retry_timers.pop(uid, None)
        if timer is not None:
            timer.cancel()

    def _forget_outdated(self, uid: str) -> None:
        outdated = self._outdated.pop(uid, None)
        if outdated is not None:
            outdated.timer.cancel()

    def report(self, info: Info, transition: Transition, cause: Cause = Cause.REASON) -> None:
        """`transition` writes why the Workload stays pending, as of now. `cause` is that of a changed reason."""
        workload = self._workloads.by_uid(info.uid)
        if workload is None or info.uid in self._retry_timers:
            return
        draft = Draft(workload, self._runtime.clock.now())
        transition(draft)
        if not draft.changed:
            self._forget_outdated(info.uid)
            self._writer.withdraw(info.key, SLOT)
        elif self._period <= 0 or _reason(draft.workload) != _reason(workload):
            self._forget_outdated(info.uid)
            self._write(info, transition, cause)
        else:
            self._write_later(info, transition)

    def _write_later(self, info: Info, transition: Transition) -> None:
        known = self._outdated.get(info.uid)
        if known is None:
            loop = asyncio.get_running_loop()
            timer = loop.call_at(next_turn(info.uid, self._period, loop.time()), self._refresh, info.uid)
        else:
            timer = known.timer
        self._writer.withdraw(info.key, SLOT)
        self._outdated[info.uid] = _Outdated(info, transition, timer)

    def _refresh(self, uid: str) -> None:
        outdated = self._outdated.pop(uid)
        self._write(outdated.info, outdated.transition, Cause.REASON_REFRESH)

    def _write(self, info: Info, transition: Transition, cause: Cause) -> None:
        workload = self._workloads.by_uid(info.uid)
        if workload is None:
            return

        def failed(error: Exception) -> None:
            if not isinstance(error, Gone) and info.uid not in self._retry_timers:
                report(error, "the reason of a pending Workload could not be written", info)
                self._retry_after(info, self._rejections.record(self._workloads.by_uid(info.uid), error))

        component = event_reasons.SCHEDULER_COMPONENT
        self._writer.explain(workload, transition, component, cause, slot=SLOT, failed=failed)

    def _retry_after(self, info: Info, seconds: float) -> None:
        """Do not write the reason of this Workload again for `seconds`, however often its queue changes."""

        def end() -> None:
            self._retry_timers.pop(info.uid, None)
            local = self._quota_cache.queues.local_queues.get(info.queue)
            self._quota_cache.requeue_inadmissible([local.spec.cluster_queue] if local else [])

        self._retry_timers[info.uid] = asyncio.get_running_loop().call_later(seconds, end)


def next_turn(uid: str, period: float, now: float) -> float:
    """The next time at which a Workload may have a message refreshed: once per period, evenly spread over uids."""
    phase = zlib.crc32(uid.encode()) / 2**32 * period
    return now + (phase - now) % period


def _reason(workload: Workload) -> tuple[str, str, bool] | None:
    reserved = workload.condition(condition_types.QUOTA_RESERVED)
    if reserved is None:
        return None
    return reserved.status, reserved.reason, reserved.message == messages.KEPT_FOR_HEAD_MESSAGE

"""Attributes each decision of an admission cycle to the change that it follows from; logs and traces cycles.

A cycle serves all changes since the previous ones found nothing more to do. A decision about a Workload that is among
those changes follows from the change of that Workload; any other decision from the first change, for example the end
of the Workload whose quota it uses. BEHAVIOUR.md#q95-cause-ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from queue_manager.engine import tracing
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.scheduling.cycle import Admit, Preempt, Refuse

log = logging.getLogger(__name__)

Decision = Literal["admitted", "blocked", "preempting", "refused"]


class CycleTrigger(asyncio.Event):
    """Set when a cycle may admit something; `cause` is the first change since `forget`."""

    cause: CauseId | None = None

    def set(self) -> None:
        """Wake the scheduler. Its next cycle is attributed to the first change since `forget`."""
        if self.cause is None:
            self.cause = CURRENT.get()
        super().set()

    def forget(self) -> None:
        """Reset the cause after cycles have found nothing more to do, unless a change has set the trigger meanwhile."""
        if not self.is_set():
            self.cause = None


class CycleTrail:
    """Remembers which changes led to the next cycles, and records each cycle: log lines, writes and spans name them."""

    def __init__(self, trigger: CycleTrigger) -> None:
        self._trigger = trigger
        self._own: dict[str, CauseId] = {}  # by UID of the Workload that changed
        self._counts: Counter[str] = Counter()
        self._causes: list[CauseId | None] = []

    def changed(self, uid: str) -> None:
        """Remember that the current cause changed this Workload, so that `follow` can name it."""
        cause = CURRENT.get()
        if cause is not None:
            self._own[uid] = cause

    def settle(self) -> None:
        """Forget the changes: cycles have found nothing more to do."""
        self._own.clear()
        self._trigger.forget()

    def follow(self, uid: str) -> None:
        """Attribute the log lines and writes that follow to the decision on this Workload."""
        CURRENT.set(self._own.get(uid, self._trigger.cause))

    def record(self, decision: Decision, outcome: Admit | Preempt | Refuse) -> None:
        """Record a decision, after `follow`."""
        if tracing.tracer is not None:
            self._counts[decision] += 1
            self._causes.append(CURRENT.get())
        if log.isEnabledFor(logging.DEBUG):
            info = outcome.info
            extra = {"key": str(info.key), "uid": info.uid, "clusterQueue": outcome.cluster_queue}
            if not isinstance(outcome, Admit):
                extra |= {"reason": outcome.reason, "why": outcome.message}
            log.debug(decision, extra=extra)

    @contextmanager
    def cycle(self, heads: int) -> Iterator[None]:
        """Trace and record the block as one cycle with this number of heads."""
        try:
            if tracing.tracer is None:
                yield
                return
            with tracing.tracer.cycle(heads) as span:
                yield
                span.decided(self._counts, self._causes)
        finally:
            CURRENT.set(None)
            self._counts.clear()
            self._causes.clear()

"""Writes that the API server rejects: Events about each Workload, and a delay that doubles up to a minute."""

from __future__ import annotations

import logging
from datetime import datetime

from queue_manager.api import event_reasons
from queue_manager.api.types import Workload
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.refused_write_events import is_due
from queue_manager.scheduling.workload_info import Info

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0  # after a failed write, and after the first rejected one
MAX_RETRY_SECONDS = 60.0


class Rejections:
    """Counts the rejected writes of each Workload since its last admission was written."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._counts: dict[str, int] = {}  # by uid
        self._recorded: dict[str, datetime] = {}  # by uid: when the last Event was recorded

    def record(self, workload: Workload | None, error: Exception) -> float:
        """Seconds until the write is tried again. Records an Event at the first rejection, and again while they
        continue (`is_due`).
        """
        if not is_rejection(error) or workload is None:
            return RETRY_SECONDS
        uid = workload.metadata.uid
        before = self._counts.get(uid, 0)
        self._counts[uid] = before + 1
        now = self._runtime.clock.now()
        if is_due(self._recorded.get(uid), now):
            self._recorded[uid] = now
            recorder = self._runtime.recorder(event_reasons.SCHEDULER_COMPONENT)
            recorder.event(workload, "Warning", event_reasons.QUEUEING_REFUSED, f"Cannot be written: {error}")
        return float(min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2.0 ** min(before, 32)))

    def forget(self, uid: str) -> None:
        """Reset the count of rejections, after a written admission or when the Workload is gone. Other writes may
        succeed between rejected admissions, and would shorten their delays.
        """
        self._counts.pop(uid, None)
        self._recorded.pop(uid, None)


def is_rejection(error: Exception) -> bool:
    """Whether the server would reject the same write again."""
    return isinstance(error, ApiError) and error.is_rejected


def report(error: Exception, text: str, info: Info) -> None:
    """Log a failed write; with a traceback unless the server is busy or unreachable."""
    extra = {"key": str(info.key), "uid": info.uid, "error": str(error)}
    if isinstance(error, ApiError | OSError):
        log.warning(text, extra=extra)
    else:
        log.error(text, extra=extra, exc_info=error)

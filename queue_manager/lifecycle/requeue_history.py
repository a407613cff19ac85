"""The record of a Workload's last attempts, written with each eviction: status.requeueHistory (Sluice's own).

Conditions keep only the newest transition and events live an hour; this keeps the last ten attempts for as long as
the Workload lives. It also knows since when the pods have not been ready, which is what giveUpAfter counts from:
a run in which they got ready starts it anew.
"""

from __future__ import annotations

from datetime import datetime

from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Attempt, RequeueHistory, Workload
from queue_manager.lifecycle.status_draft import Draft

MAX_ATTEMPTS = 10


def record(draft: Draft, reason: str, cause: str, retry_at: datetime | None = None) -> None:
    """An attempt ends now, before the conditions that tell of it are reset. One that never was admitted is none."""
    admitted = draft.condition(condition_types.ADMITTED)
    if admitted is None or not admitted.is_true:
        return
    known = draft.status.requeue_history or RequeueHistory()
    since = not_ready_since(draft.workload)
    attempt = Attempt(start=admitted.last_transition_time, end=draft.now, reason=reason, cause=cause, retry_at=retry_at)
    draft.put(requeue_history=RequeueHistory(since=since, attempts=(*known.attempts, attempt)[-MAX_ATTEMPTS:]))


def not_ready_since(workload: Workload) -> datetime | None:
    """Since when its pods have not been ready, over all tries; None while there is nothing to count."""
    admitted, ready = workload.condition(condition_types.ADMITTED), workload.condition(condition_types.PODS_READY)
    if ready is not None and ready.is_true:
        return None
    if ready is not None and ready.reason == reasons.WAIT_FOR_RECOVERY:
        return ready.last_transition_time  # it was ready in between
    history = workload.status.requeue_history
    if history is not None and history.since is not None:
        return history.since
    return admitted.last_transition_time if admitted is not None and admitted.is_true else None


def forget_since(draft: Draft) -> None:
    """A new budget; the attempts stay."""
    known = draft.status.requeue_history
    if known is not None and known.since is not None:
        draft.put(requeue_history=RequeueHistory(attempts=known.attempts))

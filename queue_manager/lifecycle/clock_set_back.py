"""Corrects times in a Workload's status that lie in the future, because the clock was set back after they were
written.

Every deadline and backoff of a Workload counts from a time in its status: the PodsReady timeout from Admitted, the
retention from Evicted or Finished, requeueAt and giveUpAfter from the eviction and the first failed attempt. Without a
correction each of them would last until the clock has caught up, a day or a month later. So these times are set to now,
once, and requeueAt is moved together with the eviction that it counts from. After that no wait is longer than its
maximum.

From a finished Workload only its retention counts, so without a retention it keeps its times. DeactivationTarget keeps
its time always: nothing counts from it, and it identifies the announcement (keys.DEACTIVATED_FOR). See
BEHAVIOUR.md#q35-clock-set-back.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from job_controller.times import CLOCK_SKEW
from queue_manager.api import condition_types
from queue_manager.api.types import Condition, RequeueState, Workload
from queue_manager.lifecycle.status_draft import Draft

COUNTED_FROM = (
    condition_types.ADMITTED,
    condition_types.PODS_READY,
    condition_types.EVICTED,
    condition_types.FINISHED,
)


def is_ahead(workload: Workload, now: datetime) -> bool:
    """Whether a time from which something counts lies in the future, by more than the tolerated clock skew."""
    history = workload.status.requeue_history
    times = [c.last_transition_time for c in workload.status.conditions if c.type in COUNTED_FROM]
    times.append(history.since if history is not None else None)
    return any(time is not None and time > now + CLOCK_SKEW for time in times)


def correct(draft: Draft) -> None:
    """Set times that lie in the future to now."""
    if not is_ahead(draft.workload, draft.now):
        return
    state, evicted = draft.status.requeue_state, draft.condition(condition_types.EVICTED)
    since = evicted.last_transition_time if evicted is not None else None
    if state is not None and state.requeue_at is not None and since is not None and since > draft.now:
        wait = max(state.requeue_at - since, timedelta(0))
        draft.put(requeue_state=RequeueState(count=state.count, requeue_at=draft.now + wait))
    history = draft.status.requeue_history
    if history is not None and history.since is not None:
        draft.put(requeue_history=msgspec.structs.replace(history, since=min(history.since, draft.now)))
    draft.put(conditions=tuple(_not_after(condition, draft.now) for condition in draft.status.conditions))


def _not_after(condition: Condition, now: datetime) -> Condition:
    time = condition.last_transition_time
    if condition.type not in COUNTED_FROM or time is None or time <= now:
        return condition
    return msgspec.structs.replace(condition, last_transition_time=now)

"""Finds steps that no process recorded, from the first state of a Workload that a new process sees. Pure.

A hold by a queue, its end, and a change of spec.active within an eviction leave no dated trace in the object
(`step_reading`). If the process ended before the history had them, the last such step of the store contradicts the
object, and the step in between is recorded now:

    object            last step in the store    recorded
    held              not Held                  Held
    not held, active  Held                      Resumed
    spec.active       Deactivated               Reactivated
    not spec.active   not Deactivated           Deactivated, if an eviction for another reason came before

The recorded step has the time of the condition that follows from the step, or the present time. The resourceVersion of
the object identifies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from queue_manager.accounting.record_types import StepKind, StepRecord
from queue_manager.accounting.step_reading import change_step, is_held
from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Workload

MISSED = "found after a restart"
HOLDS = (StepKind.HELD, StepKind.RESUMED, StepKind.DEACTIVATED)  # a deactivation ends a hold
ACTIVATIONS = (StepKind.DEACTIVATED, StepKind.REACTIVATED)


def missed_steps(first: Workload, stored: Sequence[StepRecord], now: datetime) -> Iterator[StepRecord]:
    """The missing steps between `stored` and `first`, the state in which this process first saw the Workload."""
    if not first.job_uid or first.is_true(condition_types.FINISHED):
        return
    own = [step for step in stored if step.uid == first.metadata.uid]  # a Job may have had another Workload
    hold, activation = _last(own, HOLDS), _last(own, ACTIVATIONS)
    held = hold is not None and hold.kind is StepKind.HELD
    if is_held(first) and not held:
        condition = first.condition(condition_types.QUOTA_RESERVED)
        message = condition.message if condition is not None else ""
        held_since = _since(first, condition_types.QUOTA_RESERVED) or now
        yield change_step(first, StepKind.HELD, held_since, reasons.SUSPENDED, message)
    elif hold is not None and held and not is_held(first) and first.spec.active:
        reserved = first.is_true(condition_types.QUOTA_RESERVED)
        resumed = _step(
            first, StepKind.RESUMED, _since(first, condition_types.QUOTA_RESERVED) if reserved else None, now
        )
        yield msgspec.structs.replace(resumed, attempt=hold.attempt, at=max(resumed.at, hold.at))
    deactivated = activation is not None and activation.kind is StepKind.DEACTIVATED
    if first.spec.active and activation is not None and deactivated:
        requeued = first.condition(condition_types.REQUEUED)
        since = requeued.last_transition_time if requeued and requeued.reason == reasons.REACTIVATED else None
        yield _step(first, StepKind.REACTIVATED, since, now)
    elif not first.spec.active and not deactivated and _is_evicted_otherwise(first):
        yield _step(first, StepKind.DEACTIVATED, None, now, reasons.DEACTIVATED)


def _last(stored: Sequence[StepRecord], kinds: Sequence[StepKind]) -> StepRecord | None:
    return max((s for s in stored if s.kind in kinds), key=lambda s: (s.at, s.occurrence), default=None)


def _is_evicted_otherwise(workload: Workload) -> bool:
    """Whether the Workload's eviction has another reason than its deactivation, and so does not record that."""
    evicted = workload.condition(condition_types.EVICTED)
    return evicted is not None and evicted.is_true and not evicted.reason.startswith(reasons.DEACTIVATED)


def _since(workload: Workload, kind: str) -> datetime | None:
    condition = workload.condition(kind)
    return condition.last_transition_time if condition is not None else None


def _step(workload: Workload, kind: StepKind, since: datetime | None, now: datetime, reason: str = "") -> StepRecord:
    return change_step(workload, kind, since or now, reason, MISSED)

"""status.requeueHistory: the last attempts of a Workload, written with each eviction. Only Sluice has this field.

Conditions keep only the newest transition, and Events expire after an hour; this keeps the last ten attempts as long
as the Workload exists. It also records since when the pods have not been ready, from which giveUpAfter counts; a run
in which they became ready resets that. It keeps why the pods of a failed Job failed, because the pods may be deleted.
And it adds up how long the Workload held quota, and how long it was deactivated, over all attempts.

After a restart it shows how often a Workload has preempted which others. Their attempts name it. Preemptions that ended
before they were written are in no attempt; so it lists those that it may not preempt once more because of them.
BEHAVIOUR.md#q40-requeue-history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime

import msgspec

from job_controller.pod_facts import INT32_MAX
from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Attempt, RequeueHistory, Workload
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.scheduling.quota_state import MOST_RECLAIMS

MAX_ATTEMPTS = 10  # kept per Workload
MAX_SPARED = 64  # by the CRD


def record(
    draft: Draft,
    reason: str,
    cause: str,
    retry_at: datetime | None = None,
    pod_cause: str = "",
    preemptor: str = "",
) -> None:
    """Append the attempt that ends now, if Admitted is True. Call it before the conditions are reset.

    `pod_cause`: why its pods were not ready. The eviction deletes them, and with them their status. `preemptor`: the
    UID of the Workload for which it ends. After any other end how often it has preempted others begins anew.
    """
    if reason != reasons.PREEMPTED:
        spare(draft, ())
    admitted = draft.condition(condition_types.ADMITTED)
    if admitted is None or not admitted.is_true:
        return
    known = draft.status.requeue_history or RequeueHistory()
    since = not_ready_since(draft.workload)
    attempt = Attempt(
        start=admitted.last_transition_time,
        end=draft.now,
        reason=reason,
        cause=cause,
        pod_cause=pod_cause,
        retry_at=retry_at,
        preemptor=preemptor,
    )
    attempts = (*known.attempts, attempt)[-MAX_ATTEMPTS:]
    draft.put(requeue_history=msgspec.structs.replace(known, since=since, attempts=attempts, pod_cause=""))


def record_failure(draft: Draft, pod_cause: str) -> None:
    """Store why the pods of a failed Job failed, since a drain or a cleanup may delete them."""
    known = draft.status.requeue_history or RequeueHistory()
    draft.put(requeue_history=msgspec.structs.replace(known, pod_cause=pod_cause))


def spare(draft: Draft, uids: Collection[str]) -> None:
    """Store which others the Workload may not preempt once more, although their attempts do not show it; MAX_SPARED at
    most.
    """
    known, kept = draft.status.requeue_history or RequeueHistory(), tuple(sorted(uids)[:MAX_SPARED])
    if known.spared != kept:
        draft.put(requeue_history=msgspec.structs.replace(known, spared=kept))


def preemptions(workloads: Collection[Workload]) -> dict[str, Counter[str]]:
    """How often each of these Workloads has preempted which others of no lower priority, by UIDs.

    Counted are preemptions since the preemptor was last stopped for another reason than a preemption.
    """
    by_uid = {workload.metadata.uid: workload for workload in workloads}
    found: dict[str, Counter[str]] = {}
    for uid, victim in by_uid.items():
        for preemptor in {attempt.preemptor for attempt in _attempts(victim)} & by_uid.keys():
            if times := times_preempted(victim, by_uid[preemptor]):
                found.setdefault(preemptor, Counter())[uid] = times
    for uid, workload in by_uid.items():
        for other in spared(workload):
            found.setdefault(uid, Counter())[other] = MOST_RECLAIMS
    return found


def times_preempted(victim: Workload, preemptor: Workload) -> int:
    """How often the victim was preempted for another one of no higher priority, as its attempts record it."""
    if (victim.spec.priority or 0) < (preemptor.spec.priority or 0):
        return 0
    uid, others = preemptor.metadata.uid, _attempts(preemptor)
    return sum(attempt.preemptor == uid and _is_later(attempt, others) for attempt in _attempts(victim))


def spared(workload: Workload) -> tuple[str, ...]:
    """The UIDs of those that the Workload may not preempt once more, as its own status records it."""
    history = workload.status.requeue_history
    return history.spared if history is not None else ()


def _attempts(workload: Workload) -> tuple[Attempt, ...]:
    history = workload.status.requeue_history
    return history.attempts if history is not None else ()


def _is_later(attempt: Attempt, others: Collection[Attempt]) -> bool:
    """Whether an attempt ended after all of these `others` that did not end by a preemption."""
    ends = [other.end for other in others if other.reason != reasons.PREEMPTED and other.end is not None]
    return attempt.end is not None and all(end < attempt.end for end in ends)


def not_ready_since(workload: Workload) -> datetime | None:
    """Since when the pods have not been ready, over all attempts; None if they are, or were never expected to be."""
    admitted, ready = workload.condition(condition_types.ADMITTED), workload.condition(condition_types.PODS_READY)
    if ready is not None and ready.is_true:
        return None
    if ready is not None and ready.reason == reasons.WAIT_FOR_RECOVERY:
        return ready.last_transition_time  # the pods were ready before that
    history = workload.status.requeue_history
    if history is not None and history.since is not None:
        return history.since
    return admitted.last_transition_time if admitted is not None and admitted.is_true else None


def forget_since(draft: Draft) -> None:
    """Reset the time from which giveUpAfter counts; the attempts stay."""
    known = draft.status.requeue_history
    if known is not None and known.since is not None:
        draft.put(requeue_history=msgspec.structs.replace(known, since=None, pod_cause=""))


def add_run(draft: Draft, seconds: int) -> None:
    """Count a run that has stopped, and note it in its attempt."""
    known, start = draft.status.requeue_history or RequeueHistory(), draft.condition(condition_types.ADMITTED)
    total, attempts = min(INT32_MAX, known.ran_seconds + seconds), known.attempts
    if attempts and start is not None and attempts[-1].start == start.last_transition_time:
        attempts = (*attempts[:-1], msgspec.structs.replace(attempts[-1], ran_seconds=min(INT32_MAX, seconds)))
    draft.put(requeue_history=msgspec.structs.replace(known, ran_seconds=total, attempts=attempts))


def begin_inactivity(draft: Draft) -> None:
    """Note since when a deactivated Workload has no admission."""
    known = draft.status.requeue_history or RequeueHistory()
    if known.inactive_since is not None or draft.original.spec.active:
        return
    draft.put(requeue_history=msgspec.structs.replace(known, inactive_since=_unrecorded(draft) or draft.now))


def _unrecorded(draft: Draft) -> datetime | None:
    """When a Workload was deactivated whose inactive_since Kueue or an older Sluice has not written; None otherwise."""
    evicted, reserved = (draft.original.condition(t) for t in (condition_types.EVICTED, condition_types.QUOTA_RESERVED))
    if evicted is None or reserved is None or reserved.is_true or reserved.reason != reasons.DEACTIVATED:
        return None
    times = (evicted.last_transition_time, reserved.last_transition_time)
    return max((time for time in times if time is not None), default=None)


def end_inactivity(draft: Draft) -> None:
    """Add the time since `inactive_since` to `inactive_seconds` of a Workload that is active again."""
    known = draft.status.requeue_history
    if known is None or known.inactive_since is None or not draft.original.spec.active:
        return
    lasted = max(0, int((draft.now - known.inactive_since).total_seconds()))
    total = min(INT32_MAX, known.inactive_seconds + lasted)
    draft.put(requeue_history=msgspec.structs.replace(known, inactive_seconds=total, inactive_since=None))

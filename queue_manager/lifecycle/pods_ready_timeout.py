"""Pods that are not ready in time: the deadline, and the eviction or deactivation at the deadline (KEP-349, KEP-1282).

An admitted Workload whose pods are not ready has one deadline, the earlier of two:

    of its attempt    WaitForStart      admission + timeout; while no node can take a pod, + unschedulableTimeout in
                                        place of that
                      WaitForRecovery   loss of a ready pod + recoveryTimeout (unset: no deadline)
    the last          first time that its pods were not ready, over all attempts, + giveUpAfter

At the deadline of an attempt the Workload is evicted and backs off, or it is deactivated if it has used its retries.
At the last deadline it is deactivated. That also holds during a backoff, and at the end of a backoff that ends at the
last deadline. It does not hold while the Workload is pending for quota: one that is admitted at or after its last
deadline gets a whole attempt.

`Unscheduled` and the cause of the pods are read from the pods when the decision is made and are not part of the
Workload's state. They change the cause and the message of an eviction; `Unscheduled` also decides which timeout counts.
BEHAVIOUR.md#q20-podsready-timeout.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from job_controller.times import later
from queue_manager.api import condition_types, messages, reasons
from queue_manager.api.types import RequeueState, Workload
from queue_manager.lifecycle import requeue_history, transitions
from queue_manager.lifecycle.overrides import effective
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.queueing.requeue_backoff import backoff_seconds


class Deadline(NamedTuple):
    """`waits_for` is WaitForStart or WaitForRecovery. At the `last` one the Workload is deactivated, not requeued."""

    at: datetime
    waits_for: str
    last: bool = False


def settings_for(w: Workload, settings: WorkloadSettings) -> PodsReadySettings | None:
    """waitForPodsReady for one Workload, overrides applied; None if it is off."""
    return None if settings.pods_ready is None else effective(settings.pods_ready, w.metadata.annotations)


def pods_deadline(w: Workload, settings: WorkloadSettings, unscheduled: Unscheduled | None = None) -> Deadline | None:
    """The deadline by which the pods of an admitted Workload must be ready; None if it does not exist."""
    own, admitted = settings_for(w, settings), w.condition(condition_types.ADMITTED)
    if own is None or admitted is None or not admitted.is_true or w.is_true(condition_types.PODS_READY):
        return None
    attempt = _attempt_deadline(w, own, unscheduled)
    end = give_up_at(w, own)
    admitted_at = admitted.last_transition_time
    if end is None or admitted_at is None or end <= admitted_at or (attempt is not None and attempt.at < end):
        return attempt
    return None if attempt is None else Deadline(end, attempt.waits_for, last=True)


def _attempt_deadline(w: Workload, own: PodsReadySettings, unscheduled: Unscheduled | None) -> Deadline | None:
    admitted, ready = w.condition(condition_types.ADMITTED), w.condition(condition_types.PODS_READY)
    if ready is not None and ready.reason == reasons.WAIT_FOR_RECOVERY:
        since, seconds = ready.last_transition_time, own.recovery_timeout
        if since is None or seconds is None or seconds <= 0:
            return None
        return Deadline(_after(seconds, _not_before(since, own)), reasons.WAIT_FOR_RECOVERY)
    if admitted is None or admitted.last_transition_time is None:
        return None
    timeout = own.timeout
    if unscheduled is not None and own.unschedulable_timeout is not None:
        timeout = own.unschedulable_timeout
    admitted_at = _not_before(admitted.last_transition_time, own)
    return Deadline(_after(timeout, admitted_at), reasons.WAIT_FOR_START)


def _not_before(time: datetime, own: PodsReadySettings) -> datetime:
    return time if own.since is None else max(time, own.since)


def give_up_at(w: Workload, own: PodsReadySettings | None) -> datetime | None:
    """When the Workload is deactivated if its pods are not ready by then; None: never."""
    if own is None or own.give_up_after is None:
        return None
    since = requeue_history.not_ready_since(w)
    return None if since is None else _after(own.give_up_after, since)


def ends_instead_of_retry(w: Workload, settings: WorkloadSettings) -> datetime | None:
    """When a Workload in backoff is deactivated, because giveUpAfter ends by its requeueAt; None: it is retried."""
    state, evicted = w.status.requeue_state, w.condition(condition_types.EVICTED)
    at = state.requeue_at if state is not None else None
    if at is None or evicted is None or evicted.reason != reasons.PODS_READY_TIMEOUT:
        return None
    end = give_up_at(w, settings_for(w, settings))
    return end if end is not None and end <= at else None


def _after(seconds: float, time: datetime) -> datetime:
    """The time in whole seconds, rounded up: a draft's times have no fractions, so all comparisons must agree."""
    return later(time, ceil(seconds))


def time_out(
    draft: Draft,
    settings: WorkloadSettings,
    jitter: float,
    unscheduled: Unscheduled | None = None,
    pod_cause: str = "",
) -> None:
    """Evict or deactivate, if the deadline has also passed on the newest state: the pods may have become ready.

    `pod_cause`: why the pods are not ready (`pod_causes`).
    """
    w = draft.workload
    own, deadline = settings_for(w, settings), pods_deadline(w, settings, unscheduled)
    if own is None or deadline is None or deadline.at > draft.now or draft.is_true(condition_types.EVICTED):
        return
    end = give_up_at(w, own)
    if end is not None and end <= draft.now:
        give_up(draft, unscheduled if deadline.waits_for == reasons.WAIT_FOR_START else None, pod_cause)
        return
    evict_or_deactivate(draft, own, deadline.waits_for, jitter, unscheduled, pod_cause)


def give_up(draft: Draft, unscheduled: Unscheduled | None = None, pod_cause: str = "") -> None:
    """Announce the deactivation of a Workload whose giveUpAfter is over."""
    message = _with_pods(messages.REQUEUING_TIME_MESSAGE, unscheduled, pod_cause)
    transitions.target_deactivation(draft, reasons.REQUEUING_LIMIT_EXCEEDED, message)


def _with_pods(message: str, unscheduled: Unscheduled | None, pod_cause: str) -> str:
    """The message, with the pods that no node could take, else with why the pods did not become ready."""
    why = messages.pods_unschedulable(*unscheduled) if unscheduled is not None else pod_cause
    return f"{message}; {why}" if why else message


def evict_or_deactivate(
    draft: Draft,
    own: PodsReadySettings,
    waits_for: str,
    jitter: float,
    unscheduled: Unscheduled | None = None,
    pod_cause: str = "",
) -> None:
    """Evict with the next backoff; announce the deactivation if the number of retries is used up.

    `jitter` is a random number in [0, 1). count + 1 > limit deactivates, so limit 0 allows no retry.
    """
    state = draft.status.requeue_state or RequeueState()
    count = (state.count or 0) + 1
    unscheduled = unscheduled if waits_for == reasons.WAIT_FOR_START else None
    if own.limit is not None and count > own.limit:
        message = _with_pods(messages.REQUEUING_LIMIT_MESSAGE, unscheduled, pod_cause)
        transitions.target_deactivation(draft, reasons.REQUEUING_LIMIT_EXCEEDED, message)
        return
    at = draft.now + _wait(count, own, jitter)
    retry_at = at if state.requeue_at is None else max(at, state.requeue_at)
    draft.put(requeue_state=RequeueState(count=count, requeue_at=retry_at))
    cause = waits_for if unscheduled is None else reasons.UNSCHEDULABLE
    message = _with_pods(messages.pods_ready_timeout(str(draft.original.metadata.key)), unscheduled, pod_cause)
    timed_out = reasons.PODS_READY_TIMEOUT
    transitions.evict(draft, timed_out, message, cause=cause, retry_at=retry_at, pod_cause=pod_cause)


def _wait(count: int, own: PodsReadySettings, jitter: float) -> timedelta:
    """The backoff in whole seconds, as API times have no fractions.

    Kueue truncates. The waits of KEP-1282 are rounded: its first ones, 1.4 and 2.8 s, would fall far behind their sum.
    """
    seconds = backoff_seconds(count, own.base, own.maximum, jitter, own.formula)
    return timedelta(seconds=round(seconds) if own.formula == "KEP1282" else int(seconds))

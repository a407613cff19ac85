"""Admission checks (KEP-993): what other controllers must confirm before a Workload with quota may start.

The controller of a check sets its state in status.admissionChecks of the Workload. This module keeps the list equal to
the checks that the ClusterQueue requires, and reacts to the states:

    all Ready      the Workload is admitted
    any Rejected   it is deactivated
    any Retry      it is evicted, every check is Pending again, and it backs off for the longest requeueAfterSeconds

Rejected has precedence over Retry. Every eviction resets all checks to Pending. See BEHAVIOUR.md#q18-admission-checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from queue_manager.api import condition_types, event_reasons, messages, reasons
from queue_manager.api.check_states import CheckState
from queue_manager.api.types import AdmissionCheckState, RequeueState
from queue_manager.lifecycle import transitions
from queue_manager.lifecycle.status_draft import Draft


def synchronise(draft: Draft, names: Sequence[str]) -> None:
    """Keep one entry per required check: new ones are Pending, existing ones keep their state."""
    known = {check.name: check for check in draft.status.admission_checks}
    new = tuple(
        known.get(name)
        or AdmissionCheckState(name=name, state=CheckState.PENDING, message="", last_transition_time=draft.now)
        for name in names
    )
    if new != draft.status.admission_checks:
        draft.put(admission_checks=new)


def act(draft: Draft, pod_error: str = "") -> None:
    """Deactivate, evict or admit a Workload with quota by the states of its checks; do nothing for an evicted one.

    `pod_error`: an error of its pods, which goes into status.requeueHistory with an eviction.
    """
    if not draft.is_true(condition_types.QUOTA_RESERVED) or draft.is_true(condition_types.EVICTED):
        return
    rejected, retried = in_state(draft, CheckState.REJECTED), in_state(draft, CheckState.RETRY)
    if rejected:
        _reject(draft, _listed(CheckState.REJECTED, rejected))
    elif retried:
        _retry(draft, retried, pod_error)
    elif not draft.is_true(condition_types.ADMITTED):
        confirm(draft)


def in_state(draft: Draft, state: CheckState) -> list[AdmissionCheckState]:
    """The checks in this state."""
    return [check for check in draft.status.admission_checks if check.state == state]


def confirm(draft: Draft) -> None:
    """Set Admitted: True if every check is Ready, else False with UnsatisfiedAdmissionChecks."""
    if any(check.state != CheckState.READY for check in draft.status.admission_checks):
        draft.set(condition_types.ADMITTED, "False", reasons.UNSATISFIED_CHECKS, messages.UNSATISFIED_CHECKS_MESSAGE)
        return
    admission, reserved = draft.status.admission, draft.condition(condition_types.QUOTA_RESERVED)
    since = reserved.last_transition_time if reserved is not None else None
    waited = transitions.whole_seconds(draft.now - since) if since is not None else 0
    draft.set(condition_types.ADMITTED, "True", reasons.ADMITTED, messages.ADMITTED_MESSAGE)
    name = admission.cluster_queue if admission is not None else ""
    draft.event(
        "Normal", event_reasons.ADMITTED, f"Admitted by ClusterQueue {name}, wait time since reservation was {waited}s"
    )


def _reject(draft: Draft, message: str) -> None:
    if draft.is_true(condition_types.DEACTIVATION_TARGET):
        return
    transitions.target_deactivation(draft, reasons.ADMISSION_CHECK, message)
    draft.event("Warning", event_reasons.ADMISSION_CHECK_REJECTED, f"Deactivated due to {message}")


def _retry(draft: Draft, retried: Sequence[AdmissionCheckState], pod_error: str) -> None:
    message = f"Evicted due to {_listed(CheckState.RETRY, retried)}"
    delay = max((check.requeue_after_seconds or 0 for check in retried), default=0)
    transitions.evict(draft, reasons.ADMISSION_CHECK, message, pod_cause=pod_error)
    if delay:
        state, at = draft.status.requeue_state or RequeueState(), draft.now + timedelta(seconds=delay)
        later = at if state.requeue_at is None else max(at, state.requeue_at)
        draft.put(requeue_state=RequeueState(count=state.count, requeue_at=later))


def _listed(state: CheckState, checks: Sequence[AdmissionCheckState]) -> str:
    texts = [f'"{check.name}"' + (f" ({check.message})" if check.message else "") for check in checks]
    noun = "AdmissionCheck" if len(texts) == 1 else "AdmissionChecks"
    return f"{noun} in {state} state: {', '.join(texts)}"

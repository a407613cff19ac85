"""The `cause` in the machine formats of all commands and in notices: why a Job failed or is deactivated. Pure.

If pods can have led to the end, why they failed or were not ready is the cause (`lifecycle.pod_causes`); else, and if
that is not known, the end itself in the words of `sluice ps`. If a user or a limit of time ends a Job whose pods have
failed, the cause names both: `by anna (before: exit 3: boom)`. BEHAVIOUR.md#q215-one-cause-in-all-outputs.
"""

from __future__ import annotations

from job_controller.reasons import DEADLINE_EXCEEDED
from queue_manager.api import reasons
from queue_manager.lifecycle.pod_causes import READINESS, STARTING
from queue_manager.visibility.short_messages import PODS_NOT_READY, TAKEN_BACK, plain

_BY_OTHERS = (DEADLINE_EXCEEDED, reasons.MAX_EXEC_TIME_EXCEEDED, reasons.DEACTIVATED, *TAKEN_BACK)


def cause_of_end(reason: str, message: str, of_pods: str = "", unready: str = PODS_NOT_READY) -> str:
    """Return the cause of an end with this reason and message: of the failure of a Job, or of a deactivation.

    `of_pods`: why its pods failed or were not ready, "" if that is not known; `unready`: what to call that then.
    """
    ended_by = reason.removeprefix(reasons.DEACTIVATED_DUE_TO)
    if ended_by in _BY_OTHERS:
        return with_error_before(plain(reason, message), of_pods)
    if of_pods:
        return of_pods
    return unready if ended_by == reasons.REQUEUING_LIMIT_EXCEEDED else plain(reason, message)


def end_of_attempt(reason: str, end: str, of_pods: str) -> str:
    """Return why an attempt ended: the cause of its pods first, unless something else ended it in spite of them.

    `reason`: of its eviction. `end`: a text about that.
    """
    if reason.removeprefix(reasons.DEACTIVATED_DUE_TO) in _BY_OTHERS:
        return with_error_before(end, of_pods)
    return "; ".join(part for part in (of_pods, end) if part)


def with_error_before(end: str, of_pods: str) -> str:
    """Return the text of an end that its pods did not cause, with their error before it, unless they only started."""
    is_error = of_pods and of_pods != READINESS and not of_pods.startswith(STARTING)
    return f"{end} (before: {of_pods})" if is_error else end

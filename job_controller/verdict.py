"""Whether a Job ends, and how (upstream syncJob and enactJobFinished, BEHAVIOUR.md#b17-verdict).

A verdict is reached once. The sync writes it to status as the interim condition FailureTarget or SuccessCriteriaMet
before the pods that caused it can disappear and before any pod is deleted for it. From then on it is final. If a Job
fails and succeeds in the same sync, it fails. Whether a policy matches is decided in pod_failure_policy.py and
success_policy.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from job_controller import conditions, messages, pod_phases, reasons, success_policy
from job_controller.condition_types import COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET
from job_controller.model import Job, Pod
from job_controller.pod_facts import finish_time
from job_controller.pod_failure_policy import FAIL_JOB
from job_controller.situation import Situation


class Verdict(NamedTuple):
    """The terminal condition that a Job will get. The interim condition before it has the same reason and message."""

    type: Literal["Complete", "Failed"]
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The type of the interim condition."""
        return SUCCESS_CRITERIA_MET if self.type == COMPLETE else FAILURE_TARGET

    @property
    def deletes_pods(self) -> bool:
        """Whether pods may be running when the verdict is reached; false only for CompletionsReached."""
        return self.reason != reasons.COMPLETIONS_REACHED


def recorded_verdict(job: Job) -> Verdict | None:
    """The verdict recorded in status earlier, by this controller or by a user who wrote the interim condition."""
    met = conditions.find(job.status.conditions, SUCCESS_CRITERIA_MET)
    if met is not None and met.is_true:
        return Verdict(COMPLETE, met.reason, met.message)
    target = conditions.find(job.status.conditions, FAILURE_TARGET)
    if target is not None and target.is_true:
        return Verdict(FAILED, target.reason, target.message)
    return None


def decide_verdict(s: Situation) -> Verdict | None:
    """The verdict before pods are created or deleted; None if the Job continues."""
    known = recorded_verdict(s.job)
    if known is not None:
        return known
    return _failure(s, s.failed) or _success(s)


def completed(s: Situation, active: int) -> Verdict | None:
    """Success by the number of succeeded pods, when `active` pods are left (BEHAVIOUR.md#b22-completion)."""
    if active > 0:
        return None
    enough = s.succeeded_count > 0 if s.completions is None else s.succeeded_count >= s.completions
    return Verdict(COMPLETE, reasons.COMPLETIONS_REACHED, messages.COMPLETIONS_MESSAGE) if enough else None


def deadline_in(s: Situation) -> float | None:
    """Seconds until activeDeadlineSeconds expires, negative afterwards; None while no deadline runs."""
    limit = s.job.spec.active_deadline_seconds
    if limit is None or s.start is None or s.suspended:
        return None
    return limit - (s.now - s.start.effective).total_seconds()


def _success(s: Situation) -> Verdict | None:
    if not s.indexed:
        return None
    message = success_policy.matched(s.job.spec.success_policy, s.completed, s.completions or 0)
    return Verdict(COMPLETE, reasons.SUCCESS_POLICY, message) if message is not None else None


def _failure(s: Situation, failed: Sequence[Pod]) -> Verdict | None:
    message = _failed_by_policy(s, failed)
    if message is not None:
        return Verdict(FAILED, reasons.POD_FAILURE_POLICY, message)
    if _past_backoff_limit(s, failed):
        return Verdict(FAILED, reasons.BACKOFF_LIMIT_EXCEEDED, messages.BACKOFF_LIMIT_MESSAGE)
    left = deadline_in(s)
    if left is not None and left <= 0:
        return Verdict(FAILED, reasons.DEADLINE_EXCEEDED, messages.DEADLINE_MESSAGE)
    return _failed_by_indexes(s, failed) if s.per_index else None


def _failed_by_policy(s: Situation, failed: Sequence[Pod]) -> str | None:
    """The FailJob message of the pod that failed first, whatever the order of the cache; None if no pod matched."""
    matched = [pod for pod in failed if s.outcomes[pod.metadata.uid].action == FAIL_JOB]
    if not matched:
        return None
    return s.outcomes[min(matched, key=_finish_order).metadata.uid].message


def _finish_order(pod: Pod) -> tuple[datetime, str]:
    return finish_time(pod), pod.metadata.name


def _past_backoff_limit(s: Situation, failed: Sequence[Pod]) -> bool:
    limit = s.job.spec.backoff_limit
    if limit is None:
        return False
    if s.failed_count(failed) > limit:
        return True
    template = s.job.spec.template.get("spec") or {}
    if template.get("restartPolicy") != "OnFailure":
        return False
    restarts = _restarts_in_place(s)
    return restarts > 0 if limit == 0 else restarts >= limit


def _restarts_in_place(s: Situation) -> int:
    """Container restarts, of init containers too, of Running and Pending pods (upstream pastBackoffLimitOnFailure)."""
    return sum(
        status.restart_count
        for pod in (*s.active, *s.terminating)
        if pod.status.phase in (pod_phases.RUNNING, pod_phases.PENDING)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def _failed_by_indexes(s: Situation, failed: Sequence[Pod]) -> Verdict | None:
    indexes = s.failed_indexes(failed)
    maximum = s.job.spec.max_failed_indexes
    if maximum is not None and len(indexes) > maximum:
        return Verdict(FAILED, reasons.MAX_FAILED_INDEXES_EXCEEDED, messages.MAX_FAILED_INDEXES_MESSAGE)
    if indexes and len(indexes) + len(s.completed) >= (s.completions or 0):
        return Verdict(FAILED, reasons.FAILED_INDEXES, messages.FAILED_INDEXES_MESSAGE)
    return None

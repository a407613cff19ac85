"""Whether a Job is to end, and how (spec 2.2, steps 15 and 17).

A verdict is reached once. It is written to status as an interim condition (FailureTarget or SuccessCriteriaMet)
before anything that led to it can disappear, and before any pod is deleted for it; from then on it stands,
whatever else becomes true. Failure beats success when both become true in one sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from job_controller import conditions, reasons, success_policy
from job_controller.model import Job, Pod
from job_controller.pod_facts import finish_time
from job_controller.pod_failure_policy import FAIL_JOB
from job_controller.situation import Situation


class Verdict(NamedTuple):
    """The terminal condition a Job is heading for."""

    type: Literal["Complete", "Failed"]
    reason: str
    message: str

    @property
    def interim(self) -> str:
        return reasons.SUCCESS_CRITERIA_MET if self.type == "Complete" else reasons.FAILURE_TARGET

    @property
    def deletes_pods(self) -> bool:
        """Whether pods may be running when it is reached: all but the success of the last pod."""
        return self.reason != reasons.COMPLETIONS_REACHED


def standing(job: Job) -> Verdict | None:
    """A verdict reached earlier, by this controller or by a user who wrote the interim condition."""
    met = conditions.find(job.status.conditions, reasons.SUCCESS_CRITERIA_MET)
    if met is not None and met.is_true:
        return Verdict("Complete", met.reason, met.message)
    target = conditions.find(job.status.conditions, reasons.FAILURE_TARGET)
    if target is not None and target.is_true:
        return Verdict("Failed", target.reason, target.message)
    return None


def judge(s: Situation) -> Verdict | None:
    """The verdict on the Job, before pods are created or removed."""
    known = standing(s.job)
    if known is not None:
        return known
    return _failure(s, s.failed) or _success(s)


def completed(s: Situation, active: int) -> Verdict | None:
    """Success by the number of succeeded pods, when `active` pods are left."""
    if active > 0:
        return None
    enough = s.succeeded_count > 0 if s.completions is None else s.succeeded_count >= s.completions
    return Verdict("Complete", reasons.COMPLETIONS_REACHED, reasons.COMPLETIONS_MESSAGE) if enough else None


def deadline_in(s: Situation) -> float | None:
    """Seconds until activeDeadlineSeconds is over, negative if it is; None if the clock is not running."""
    limit = s.job.spec.active_deadline_seconds
    if limit is None or s.start is None or s.suspended:
        return None
    return limit - (s.now - s.start.counted).total_seconds()


def _success(s: Situation) -> Verdict | None:
    if not s.indexed:
        return None
    message = success_policy.matched(s.job.spec.success_policy, s.completed, s.completions or 0)
    return Verdict("Complete", reasons.SUCCESS_POLICY, message) if message is not None else None


def _failure(s: Situation, failed: Sequence[Pod]) -> Verdict | None:
    message = _failed_by_policy(s, failed)
    if message is not None:
        return Verdict("Failed", reasons.POD_FAILURE_POLICY, message)
    if _past_backoff_limit(s, failed):
        return Verdict("Failed", reasons.BACKOFF_LIMIT_EXCEEDED, reasons.BACKOFF_LIMIT_MESSAGE)
    left = deadline_in(s)
    if left is not None and left <= 0:
        return Verdict("Failed", reasons.DEADLINE_EXCEEDED, reasons.DEADLINE_MESSAGE)
    return _failed_by_indexes(s, failed) if s.per_index else None


def _failed_by_policy(s: Situation, failed: Sequence[Pod]) -> str | None:
    """The message of the pod that failed the Job: of the one that failed first, whatever the cache's order."""
    guilty = [pod for pod in failed if s.outcomes[pod.metadata.uid].action == FAIL_JOB]
    if not guilty:
        return None
    return s.outcomes[min(guilty, key=_by_finish).metadata.uid].message


def _by_finish(pod: Pod) -> tuple[datetime, str]:
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
    """Container restarts of pods that have not ended, init containers included (spec 2.5)."""
    return sum(
        status.restart_count
        for pod in (*s.active, *s.terminating)
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def _failed_by_indexes(s: Situation, failed: Sequence[Pod]) -> Verdict | None:
    indexes = s.failed_indexes(failed)
    maximum = s.job.spec.max_failed_indexes
    if maximum is not None and len(indexes) > maximum:
        return Verdict("Failed", reasons.MAX_FAILED_INDEXES_EXCEEDED, reasons.MAX_FAILED_INDEXES_MESSAGE)
    if indexes and len(indexes) + len(s.completed) >= (s.completions or 0):
        return Verdict("Failed", reasons.FAILED_INDEXES, reasons.FAILED_INDEXES_MESSAGE)
    return None

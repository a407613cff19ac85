"""The history of a Job as a list of dated steps. Pure.

A condition keeps only its last transition, so the list shows when each condition last changed, not how often. Events
add earlier transitions until they expire (an hour).
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from job_controller.model import Condition, Job
from job_controller.pod_facts import LONG_AGO
from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Workload

# Order of steps within the same second.
_ORDER = (
    "Created",
    condition_types.DEACTIVATION_TARGET,
    condition_types.EVICTED,
    condition_types.PREEMPTED,
    condition_types.REQUEUED,
    condition_types.QUOTA_RESERVED,
    condition_types.ADMITTED,
    "Suspended",
    "Started",
    condition_types.PODS_READY,
    "SuccessCriteriaMet",
    "FailureTarget",
    "Complete",
    "Failed",
    condition_types.FINISHED,
)


class Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step. `what` is a condition type, "Created" or "Started"; `status` "True" or "False".

    `note`: what it means, where reason and message mislead.
    """

    at: datetime | None
    object: str
    what: str
    status: str
    reason: str
    message: str
    note: str = ""

    @property
    def is_true(self) -> bool:
        """Whether the status is True, as it is for "Created" and "Started"."""
        return self.status == "True"

    @property
    def text(self) -> str:
        """`Admitted`, or `not Admitted`."""
        return self.what if self.is_true else f"not {self.what}"


def history(job: Job | None, workload: Workload | None) -> list[Step]:
    """Return the steps recorded in the Job and its Workload, oldest first."""
    steps: list[Step] = []
    if job is not None:
        steps.append(_plain(job.metadata.creation_timestamp, "Job", "Created"))
        if job.status.start_time is not None:
            steps.append(_plain(job.status.start_time, "Job", "Started"))
        steps += [_step("Job", condition) for condition in job.status.conditions]
    if workload is not None:
        if job is None or workload.metadata.creation_timestamp != job.metadata.creation_timestamp:
            steps.append(_plain(workload.metadata.creation_timestamp, "Workload", "Created"))
        steps += [_step("Workload", condition, _note(condition, workload)) for condition in workload.status.conditions]
    return sorted(steps, key=lambda step: (step.at or LONG_AGO, _rank(step.what), step.object))


def _plain(at: datetime | None, kind: str, what: str) -> Step:
    return Step(at=at, object=kind, what=what, status="True", reason="", message="")


def _note(condition: Condition, workload: Workload) -> str:
    """Explain PodsReady=False that an eviction caused by stopping the pods; "" for any other condition."""
    evicted = workload.condition(condition_types.EVICTED)
    if evicted is None or not evicted.is_true or condition.type != condition_types.PODS_READY or condition.is_true:
        return ""
    since, stopped = evicted.last_transition_time or LONG_AGO, condition.last_transition_time or LONG_AGO
    return "its pods were stopped" if condition.reason == reasons.WAIT_FOR_RECOVERY and since <= stopped else ""


def _step(kind: str, condition: Condition, note: str = "") -> Step:
    return Step(
        at=condition.last_transition_time,
        object=kind,
        what=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        note=note,
    )


def _rank(what: str) -> int:
    return _ORDER.index(what) if what in _ORDER else len(_ORDER)

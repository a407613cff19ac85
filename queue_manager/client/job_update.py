"""The state of a Job, computed from the Job and its Workload by the same rules as `sluice ps`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from job_controller import conditions
from job_controller.condition_types import FAILED
from job_controller.model import Job
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.lifecycle.refused_pods import newest_refusal, refusal_text
from queue_manager.visibility.followed_states import ShownState, continued
from queue_manager.visibility.job_causes import job_cause
from queue_manager.visibility.job_states import (
    MAY_LACK_PODS,
    JobState,
    explain_state,
    job_state,
    lost_quota_for,
    workloads_by_job,
)
from queue_manager.visibility.short_messages import plain
from queue_manager.visibility.wire_types import Pod

if TYPE_CHECKING:
    from kubernetes.client import V1Job

ENDED = (JobState.SUCCEEDED, JobState.FAILED)
UNSEEN_WORKLOAD = "you may not list Workloads, which say why"
LOST = (JobState.REFUSED, JobState.DEACTIVATED)  # only a person can let it start again


@dataclass(frozen=True, slots=True, repr=False)
class JobUpdate:
    """A Job at one time. `state` is that of `sluice ps`; `reason` and `message` explain it.

    `cause`: why its pods are not ready, or were not in its last attempt: `no such program: /no/such/program`. Texts are
    "" where there is nothing to explain.
    """

    job: V1Job
    state: JobState
    reason: str = ""
    message: str = ""
    cause: str = ""

    def __repr__(self) -> str:
        """One line, without all fields of the Job: `<JobUpdate default/train Pending: needs 1 more cpu>`."""
        meta = self.job.metadata
        name = f"{meta.namespace}/{meta.name} " if meta is not None else ""
        why = f": {self.why}" if self.why else ""
        return f"<JobUpdate {name}{self.state}{why}>"

    @property
    def why(self) -> str:
        """The cause, else reason and message in the words of `sluice ps`, in one line: `needs 1 more cpu`."""
        return self.cause or plain(self.reason, self.message)


class Seen(NamedTuple):
    """An update, and the objects that it was computed from."""

    update: JobUpdate
    job: Job
    workload: Workload | None


def see(official: V1Job, job: Job, workloads: Sequence[Workload] | None, pods: Sequence[Pod], now: datetime) -> Seen:
    """The state of a Job. `now` and `workloads` were read before the Job, as `visibility.job_states` requires.

    `workloads`: None if the user may not list them.
    """
    workload = workloads_by_job(workloads or ()).get(job.metadata.uid)
    state = job_state(job, workload, now)
    reason, message = explain_state(job, workload, state, now)
    if workloads is None and state == JobState.PENDING:
        reason, message = "", UNSEEN_WORKLOAD
    cause = "" if state == JobState.DELETING else job_cause(job, workload, pods)
    return Seen(JobUpdate(official, state, reason, message, cause), job, workload)


def lacks_cause(seen: Seen) -> bool:
    """Whether the API server may refuse the pods of the Job: it has none, and nothing else says why."""
    has_none = seen.update.state in MAY_LACK_PODS and not seen.job.status.active
    return has_none and not seen.update.cause and not lost_quota_for(seen.workload, seen.update.state)


def with_refusal(seen: Seen, events: Sequence[Event]) -> Seen:
    """Return the update of a Job that `lacks_cause` with what the API server says of its pods, by these Events."""
    event = newest_refusal(seen.job, events)
    return seen if event is None else seen._replace(update=replace(seen.update, cause=refusal_text(event)))


def follow(last: Seen | None, now: Seen) -> Seen:
    """Return `now`, adjusted so that no state goes backwards for a reader who was shown `last` (`followed_states`)."""
    update = now.update
    state = ShownState(update.state, update.reason, update.message)
    before = ShownState(last.update.state, last.update.reason, last.update.message) if last is not None else None
    shown = continued(before, state)
    return now._replace(update=replace(update, reason=shown.reason, message=shown.message))


def may_have_cause(job: Job) -> bool:
    """Whether the pods of the Job may say what is wrong with it: it runs, or has failed."""
    end = conditions.finished(job.status)
    return not job.spec.suspend if end is None else end.type == FAILED


def differs(new: Seen, old: Seen | None) -> bool:
    """Whether a user has something new to see: another state or explanation, or other counts of pods."""
    if old is None:
        return True
    return _visible(new) != _visible(old)


def _visible(seen: Seen) -> tuple[str | int, ...]:
    """The parts of an update that users see; times, conditions and pod UIDs change without a visible change."""
    update, status = seen.update, seen.job.status
    counts = (status.active, status.ready or 0, status.succeeded, status.failed)
    return update.state, update.reason, update.message, update.cause, *counts

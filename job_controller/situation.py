"""Everything one sync knows about a Job and its pods, worked out once (spec 2.2, steps 9 to 13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from job_controller import conditions
from job_controller.completion_indexes import exhausts_index, last_failures, stored_completed, stored_failed
from job_controller.index_set import IndexSet
from job_controller.model import Job, Pod, UncountedTerminatedPods
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import LONG_AGO, completion_index, failed_by_itself, replaces_only_failed
from job_controller.pod_failure_policy import COUNTED, PolicyOutcome, evaluate
from job_controller.pod_sorting import Parts, join, split
from job_controller.reasons import FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED
from job_controller.times import Since, since

NOTHING_UNCOUNTED = UncountedTerminatedPods()
NO_INDEXES = IndexSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`stamp` is now in whole seconds, as the API stores times. Pods are those of this Job's UID, sorted (sorting.py).

    only_terminal   a pod that is being deleted has not failed yet (pod_facts.replaces_only_failed)
    outcomes        what the pod failure policy says of each failed pod, by UID
    exhausted       the index that a failed pod fails for good, by UID; only with backoffLimitPerIndex
    start           startTime, and where activeDeadlineSeconds counts from
    waiting         failed pods that keep their finalizer until they are replaced, by index; likewise (spec 2.7)
    permitted       new pods may be created (ports.PodPermits)
    doomed_since    when the end of the Job was announced, or its deletion: from then on its pods are deleted with it
    """

    job: Job
    now: datetime
    stamp: datetime
    options: JobControllerOptions
    indexed: bool
    completions: int | None
    only_terminal: bool
    parts: Parts
    active: tuple[Pod, ...]
    active_ready: int
    active_indexes: frozenset[int]
    terminating: tuple[Pod, ...]
    tracked: tuple[Pod, ...]
    succeeded: tuple[Pod, ...]
    failed: tuple[Pod, ...]
    loose: tuple[Pod, ...]
    interrupted: tuple[Pod, ...]
    uncounted: UncountedTerminatedPods
    outcomes: Mapping[str, PolicyOutcome]
    exhausted: Mapping[str, int]
    waiting: Mapping[int, Pod]
    stored_completed: IndexSet
    completed: IndexSet
    stored_failed: IndexSet
    start: Since | None
    resumed: bool
    permitted: bool
    doomed_since: datetime | None

    @property
    def start_time(self) -> datetime | None:
        return self.start.time if self.start is not None else None

    @property
    def deleting(self) -> bool:
        return self.job.metadata.deletion_timestamp is not None

    @property
    def suspended(self) -> bool:
        return self.job.spec.suspend

    @property
    def per_index(self) -> bool:
        return self.indexed and self.job.spec.backoff_limit_per_index is not None

    @property
    def succeeded_count(self) -> int:
        """Successes so far: noted, counted and new."""
        if self.indexed:
            return len(self.completed)
        return self.job.status.succeeded + len(self.succeeded) + len(self.uncounted.succeeded)

    def failed_count(self, new: Sequence[Pod]) -> int:
        """Failures so far, with these new ones; what the pod failure policy ignores is left out."""
        counted = sum(self.outcomes[pod.metadata.uid].counts for pod in new)
        return self.job.status.failed + counted + len(self.uncounted.failed)

    def failed_indexes(self, new: Sequence[Pod]) -> IndexSet:
        """Indexes that failed for good, with these new failures."""
        fresh = {self.exhausted[pod.metadata.uid] for pod in new if pod.metadata.uid in self.exhausted}
        return self.stored_failed | fresh if fresh else self.stored_failed

    def failed_by_itself(self, pod: Pod) -> bool:
        """Whether the pod has failed, other than by being deleted with its Job."""
        return failed_by_itself(pod, self.only_terminal, self.doomed_since)


def look(
    job: Job,
    pods: Iterable[Pod],
    now: datetime,
    options: JobControllerOptions,
    before: Parts = (),
    started: Since | None = None,
    permitted: bool = True,
) -> Situation:
    """Sort the pods of a Job. O(pods), and little for unchanged ones.

    `before` and `started` are the parts and the start of the last Situation.
    """
    spec, status = job.spec, job.status
    indexed = spec.completion_mode == "Indexed"
    limit = spec.completions or 0
    only_terminal = replaces_only_failed(job)
    uncounted = status.uncounted_terminated_pods or NOTHING_UNCOUNTED
    noted = {*uncounted.succeeded, *uncounted.failed}
    stored = stored_completed(job) if indexed else NO_INDEXES
    parts = split(tuple(pods), before)
    found = join(parts, noted, only_terminal, limit if indexed else None)
    completed = stored | found.completed if found.completed else stored
    active_indexes = frozenset(found.indexes) if indexed else frozenset()
    deleting = job.metadata.deletion_timestamp is not None  # then Suspended stays, and would start it at every look
    may_start = permitted and not spec.suspend
    resumed = may_start and not deleting and conditions.is_true(status.conditions, SUSPENDED)
    stamp = now.replace(microsecond=0)
    starts = resumed or (status.start_time is None and may_start)
    start_time = stamp if starts else status.start_time
    failed = found.failed
    outcomes = {pod.metadata.uid: _outcome(job, pod) for pod in failed}
    per_index = indexed and spec.backoff_limit_per_index is not None
    exhausted = _exhausted(job, failed, outcomes) if per_index else {}
    lost = stored_failed(job) if per_index else NO_INDEXES
    waiting: Mapping[int, Pod] = {}
    if per_index and failed:
        waiting = last_failures(failed, active_indexes, completed, lost, set(exhausted.values()))
    return Situation(
        job=job,
        now=now,
        stamp=stamp,
        options=options,
        indexed=indexed,
        completions=limit if indexed else spec.completions,
        only_terminal=only_terminal,
        parts=parts,
        active=tuple(found.active),
        active_ready=found.ready,
        active_indexes=active_indexes,
        terminating=tuple(found.terminating),
        tracked=tuple(found.tracked),
        loose=tuple(found.loose),
        succeeded=tuple(found.succeeded),
        failed=tuple(failed),
        interrupted=tuple(found.interrupted),
        uncounted=uncounted,
        outcomes=outcomes,
        exhausted=exhausted,
        waiting=waiting,
        stored_completed=stored,
        completed=completed,
        stored_failed=lost,
        start=since(start_time, started, now) if start_time is not None else None,
        resumed=resumed,
        permitted=permitted,
        doomed_since=_doomed_since(job),
    )


def _doomed_since(job: Job) -> datetime | None:
    """A condition that a user wrote without a time may be of any."""
    stamps = [
        condition.last_transition_time or LONG_AGO
        for condition in job.status.conditions
        if condition.is_true and condition.type in (SUCCESS_CRITERIA_MET, FAILURE_TARGET)
    ]
    if job.metadata.deletion_timestamp is not None:
        stamps.append(job.metadata.deletion_timestamp)
    return min(stamps, default=None)


def _exhausted(job: Job, failed: Iterable[Pod], outcomes: Mapping[str, PolicyOutcome]) -> Mapping[str, int]:
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return {}
    return {
        pod.metadata.uid: completion_index(pod)
        for pod in failed
        if exhausts_index(pod, outcomes[pod.metadata.uid], limit)
    }


def _outcome(job: Job, pod: Pod) -> PolicyOutcome:
    policy = job.spec.pod_failure_policy
    return COUNTED if policy is None else evaluate(policy, pod)

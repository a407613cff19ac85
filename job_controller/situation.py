"""The state of a Job and its pods, computed once per sync; everything that sync decides is a function of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from job_controller import conditions
from job_controller.completion_indexes import exhausts_index, last_failures, stored_completed, stored_failed
from job_controller.condition_types import FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED
from job_controller.index_set import IndexSet
from job_controller.model import Job, Pod, UncountedTerminatedPods
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import LONG_AGO, completion_index, failed_by_itself, replaces_only_failed
from job_controller.pod_failure_policy import COUNTED, PolicyOutcome, evaluate
from job_controller.pods_by_state import Parts, join, split
from job_controller.times import WaitStart, wait_start

NOTHING_UNCOUNTED = UncountedTerminatedPods()
NO_INDEXES = IndexSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The state of a Job and its pods at `now`. `stamp` is `now` in whole seconds, as the API stores times.

    only_terminal   a pod that is being deleted has not failed yet (pod_facts.replaces_only_failed)
    parts, active, terminating, tracked, succeeded, failed, countable, interrupted   see pods_by_state.py
    outcomes        the outcome of the pod failure policy for each failed pod, by UID
    exhausted       with backoffLimitPerIndex: the index that a failed pod fails for good, by UID
    waiting         with backoffLimitPerIndex: failed pods that stay uncounted until they are replaced, by index
    stored_*        the indexes in status; `completed` has the newly succeeded ones too
    start           startTime, and when activeDeadlineSeconds starts to count
    resumed         this sync resumes a suspended Job
    permitted       new pods may be created (ports.PodPermits)
    ending_since    when the end of the Job was recorded in status, or its deletion
                    (from then on the Job deletes its pods)
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
    countable: tuple[Pod, ...]
    interrupted: tuple[Pod, ...]
    uncounted: UncountedTerminatedPods
    outcomes: Mapping[str, PolicyOutcome]
    exhausted: Mapping[str, int]
    waiting: Mapping[int, Pod]
    stored_completed: IndexSet
    completed: IndexSet
    stored_failed: IndexSet
    start: WaitStart | None
    resumed: bool
    permitted: bool
    ending_since: datetime | None

    @property
    def start_time(self) -> datetime | None:
        """status.startTime as this sync will write it."""
        return self.start.time if self.start is not None else None

    @property
    def deleting(self) -> bool:
        """Whether the Job is being deleted."""
        return self.job.metadata.deletion_timestamp is not None

    @property
    def suspended(self) -> bool:
        """Whether spec.suspend is true."""
        return self.job.spec.suspend

    @property
    def per_index(self) -> bool:
        """Whether backoffLimitPerIndex applies."""
        return self.indexed and self.job.spec.backoff_limit_per_index is not None

    @property
    def succeeded_count(self) -> int:
        """The number of succeeded pods: status.succeeded, those in status.uncountedTerminatedPods, and new ones.

        Of an Indexed Job, the number of completed indexes.
        """
        if self.indexed:
            return len(self.completed)
        return self.job.status.succeeded + len(self.succeeded) + len(self.uncounted.succeeded)

    def failed_count(self, new: Sequence[Pod]) -> int:
        """The number of failed pods: status.failed, those in status.uncountedTerminatedPods, and those of `new` that
        the pod failure policy does not ignore.
        """
        counted = sum(self.outcomes[pod.metadata.uid].counts for pod in new)
        return self.job.status.failed + counted + len(self.uncounted.failed)

    def failed_indexes(self, new: Sequence[Pod]) -> IndexSet:
        """The indexes that failed for good, including those failed by these `new` failures."""
        fresh = {self.exhausted[pod.metadata.uid] for pod in new if pod.metadata.uid in self.exhausted}
        return self.stored_failed | fresh if fresh else self.stored_failed

    def failed_by_itself(self, pod: Pod) -> bool:
        """Whether the pod failed, and not only because the ending Job deleted it (pod_facts.failed_by_itself)."""
        return failed_by_itself(pod, self.only_terminal, self.ending_since)


def assess(
    job: Job,
    pods: Iterable[Pod],
    now: datetime,
    options: JobControllerOptions,
    before: Parts = (),
    started: WaitStart | None = None,
    permitted: bool = True,
) -> Situation:
    """Compute the situation. O(pods), and little for unchanged ones.

    `before` and `started` are `parts` and `start` of the previous situation of this Job.
    """
    spec, status = job.spec, job.status
    indexed = spec.completion_mode == "Indexed"
    limit = spec.completions or 0
    only_terminal = replaces_only_failed(job)
    uncounted = status.uncounted_terminated_pods or NOTHING_UNCOUNTED
    recorded = {*uncounted.succeeded, *uncounted.failed}
    stored = stored_completed(job) if indexed else NO_INDEXES
    parts = split(tuple(pods), before)
    sorted_pods = join(parts, recorded, only_terminal, limit if indexed else None)
    completed = stored | sorted_pods.completed if sorted_pods.completed else stored
    active_indexes = frozenset(sorted_pods.indexes) if indexed else frozenset()
    stamp = now.replace(microsecond=0)
    start_time, resumed = _start(job, stamp, permitted)
    failed = sorted_pods.failed
    outcomes = {pod.metadata.uid: _outcome(job, pod) for pod in failed}
    per_index = indexed and spec.backoff_limit_per_index is not None
    exhausted = _exhausted(job, failed, outcomes) if per_index else {}
    failed_for_good = stored_failed(job) if per_index else NO_INDEXES
    waiting: Mapping[int, Pod] = {}
    if per_index and failed:
        waiting = last_failures(failed, active_indexes, completed, failed_for_good, set(exhausted.values()))
    return Situation(
        job=job,
        now=now,
        stamp=stamp,
        options=options,
        indexed=indexed,
        completions=limit if indexed else spec.completions,
        only_terminal=only_terminal,
        parts=parts,
        active=tuple(sorted_pods.active),
        active_ready=sorted_pods.ready,
        active_indexes=active_indexes,
        terminating=tuple(sorted_pods.terminating),
        tracked=tuple(sorted_pods.tracked),
        countable=tuple(sorted_pods.countable),
        succeeded=tuple(sorted_pods.succeeded),
        failed=tuple(failed),
        interrupted=tuple(sorted_pods.interrupted),
        uncounted=uncounted,
        outcomes=outcomes,
        exhausted=exhausted,
        waiting=waiting,
        stored_completed=stored,
        completed=completed,
        stored_failed=failed_for_good,
        start=wait_start(start_time, started, now) if start_time is not None else None,
        resumed=resumed,
        permitted=permitted,
        ending_since=_ending_since(job),
    )


def _start(job: Job, stamp: datetime, permitted: bool) -> tuple[datetime | None, bool]:
    """startTime as this sync writes it, and whether this sync resumes the Job."""
    # A Job that is being deleted keeps Suspended=True, so without this check it would resume at every sync.
    deleting = job.metadata.deletion_timestamp is not None
    may_start = permitted and not job.spec.suspend
    resumed = may_start and not deleting and conditions.is_true(job.status.conditions, SUSPENDED)
    starts = resumed or (job.status.start_time is None and may_start)
    return (stamp if starts else job.status.start_time), resumed


def _ending_since(job: Job) -> datetime | None:
    """See Situation.ending_since. A condition without a time, written by a user, counts as older than everything."""
    stamps = [
        condition.last_transition_time or LONG_AGO
        for condition in job.status.conditions
        if condition.is_true and condition.type in (SUCCESS_CRITERIA_MET, FAILURE_TARGET)
    ]
    if job.metadata.deletion_timestamp is not None:
        stamps.append(job.metadata.deletion_timestamp)
    return min(stamps, default=None)


def _exhausted(job: Job, failed: Iterable[Pod], outcomes: Mapping[str, PolicyOutcome]) -> Mapping[str, int]:
    """See Situation.exhausted."""
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return {}
    return {
        pod.metadata.uid: completion_index(pod)
        for pod in failed
        if exhausts_index(pod, outcomes[pod.metadata.uid], limit)
    }


def _outcome(job: Job, pod: Pod) -> PolicyOutcome:
    """The outcome of the pod failure policy for a failed pod."""
    policy = job.spec.pod_failure_policy
    return COUNTED if policy is None else evaluate(policy, pod)

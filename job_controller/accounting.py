"""Counting each finished pod exactly once (KEP-2307, upstream trackJobStatusAndRemoveFinalizers).

A pod passes through these states, each of them readable from the API alone (BEHAVIOUR.md#b21-counting):

    tracked               carries the tracking finalizer, so it cannot disappear
    tracked and recorded  its UID is in status.uncountedTerminatedPods (or its index in status.completedIndexes)
    recorded              the finalizer is removed; the UID is not yet part of a counter
    counted               one status write removed the UID from the list and incremented succeeded or failed

Each transition is one API write, and depends only on the current state. So a controller that restarts continues where
the last one stopped: a recorded UID without a tracked pod moves into the counter, and a tracked pod that is recorded
already is not recorded again. A pod recorded as failed stays failed, whatever its phase becomes.

Surplus and suspended pods are deleted uncounted: they lose the finalizer before they are deleted. If the deletion then
fails, the annotation labels.DELETING identifies the pod; it is tracked again, so that its result is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import msgspec

from job_controller import condition_types, conditions
from job_controller.index_set import IndexSet
from job_controller.model import JobStatus, Pod, UncountedTerminatedPods
from job_controller.pod_facts import completion_index, is_active, is_failed
from job_controller.pod_failure_policy import IGNORE, PolicyOutcome, evaluate
from job_controller.situation import Situation
from job_controller.sync_steps import Count
from job_controller.verdict import Verdict


@dataclass(slots=True)
class PodAccounting:
    """What this sync records: UIDs and indexes that are new in status, actions of the pod failure policy, and the pods
    whose finalizer can be removed.

    `full`: the status has reached options.max_uncounted; the remaining pods follow in the next sync.
    """

    succeeded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    indexes: set[int] = field(default_factory=set)
    actions: Counter[str] = field(default_factory=Counter)
    release: list[Pod] = field(default_factory=list)
    full: bool = False


def record_finished(s: Situation, verdict: Verdict | None, keep: Set[str], removed: Set[str]) -> PodAccounting:
    """Record every tracked pod that has finished, up to options.max_uncounted UIDs and indexes.

    Pods that are recorded already come first: a controller that stopped between recording and releasing may have left
    the status full, and only removing their finalizers makes room.

    `keep`: UIDs of failed pods that stay uncounted until they are replaced (BEHAVIOUR.md#b27-per-index). `removed`:
    UIDs of pods that this sync deletes because the Job ends.
    """
    accounts = PodAccounting()
    pods: Sequence[Pod] = s.countable
    if s.active and (s.deleting or verdict is not None):
        pods = sorted(s.tracked, key=completion_index) if s.indexed else s.tracked
    recorded = {*s.uncounted.succeeded, *s.uncounted.failed}
    if recorded:
        pods = sorted(pods, key=lambda pod: pod.metadata.uid not in recorded)
    for pod in pods:
        if _is_final(s, pod, verdict, keep, recorded, removed):
            if len(recorded) + len(accounts.indexes) >= s.options.max_uncounted and pod.metadata.uid not in recorded:
                accounts.full = True
                break
            accounts.release.append(pod)
            _record(s, pod, verdict, accounts, recorded)
    return accounts


def _is_final(
    s: Situation, pod: Pod, verdict: Verdict | None, keep: Set[str], recorded: Set[str], removed: Set[str]
) -> bool:
    """Whether the result of the pod is final, so that its finalizer can be removed."""
    uid = pod.metadata.uid
    if s.deleting or pod.status.has_succeeded or uid in recorded:
        return True
    if verdict is not None:
        return uid in removed or not is_active(pod)
    return is_failed(pod, s.only_terminal) and uid not in keep


def _record(s: Situation, pod: Pod, verdict: Verdict | None, accounts: PodAccounting, recorded: set[str]) -> None:
    """Enter the result of an ended pod in `accounts`, and its UID in `recorded`, unless it is there already.

    A pod without a valid index is left out. A failure that the pod failure policy ignores enters only the counts by
    action; of an index that has succeeded, the index is entered, once.
    """
    uid = pod.metadata.uid
    if uid in recorded:
        return
    index = completion_index(pod) if s.indexed else 0
    if not 0 <= index < (s.completions if s.indexed and s.completions is not None else 1):
        return
    if pod.status.has_succeeded:
        if not s.indexed:
            accounts.succeeded.append(uid)
            recorded.add(uid)
        elif index not in s.stored_completed:
            accounts.indexes.add(index)
    elif _has_failed(s, pod, verdict):
        outcome = _outcome(s, pod)
        if outcome.action is not None:
            accounts.actions[outcome.action] += 1
        if outcome.action != IGNORE:
            accounts.failed.append(uid)
            recorded.add(uid)


def _has_failed(s: Situation, pod: Pod, verdict: Verdict | None) -> bool:
    """Whether the pod counts as failed.

    When the Job fails, its running pods count as failed too. When it succeeds or is deleted, only pods that failed by
    themselves do.
    """
    if verdict is not None and verdict.type == condition_types.FAILED:
        return True
    if s.deleting or (verdict is not None and verdict.deletes_pods):
        return s.failed_by_itself(pod)
    return is_failed(pod, s.only_terminal)


def _outcome(s: Situation, pod: Pod) -> PolicyOutcome:
    """The outcome of the pod failure policy; evaluated here for pods that `s.outcomes` lacks."""
    known = s.outcomes.get(pod.metadata.uid)
    return known if known is not None else evaluate(s.job.spec.pod_failure_policy, pod)


def recorded_status(s: Situation, accounts: PodAccounting, failed_indexes: IndexSet) -> JobStatus:
    """The status to write before any finalizer is removed.

    UIDs without a tracked pod move into the counters, new UIDs are added, indexes are merged. Conditions and the
    numbers of active, ready and terminating pods are set by the caller.
    """
    known = bool(s.uncounted.succeeded or s.uncounted.failed)
    tracked = {pod.metadata.uid for pod in s.tracked} if known else set()
    uncounted = UncountedTerminatedPods(
        succeeded=(*(u for u in s.uncounted.succeeded if u in tracked), *accounts.succeeded),
        failed=(*(u for u in s.uncounted.failed if u in tracked), *accounts.failed),
    )
    status = s.job.status
    gone_succeeded = sum(u not in tracked for u in s.uncounted.succeeded)
    gone_failed = sum(u not in tracked for u in s.uncounted.failed)
    per_index = s.job.spec.backoff_limit_per_index is not None
    return msgspec.structs.replace(
        status,
        succeeded=_succeeded(s) if s.indexed else status.succeeded + gone_succeeded,
        failed=status.failed + gone_failed,
        completed_indexes=s.completed.text if s.indexed else "",
        failed_indexes=failed_indexes.text if per_index else None,
        uncounted_terminated_pods=uncounted,
    )


def _succeeded(s: Situation) -> int:
    """status.succeeded of an Indexed Job: the number of completed indexes.

    It falls when completions is lowered. The API accepts a lower value only while completions equals parallelism
    (BEHAVIOUR.md#b7-status-validation); otherwise the old value is kept, because every status write would be rejected.
    """
    done = len(s.completed)
    return done if s.completions == s.job.spec.pods_at_once else max(done, s.job.status.succeeded)


def counted_status(status: JobStatus, released: Set[str], indexed: bool) -> JobStatus:
    """The status after the finalizers of the `released` UIDs were removed: these UIDs move into the counters."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(u for u in uncounted.succeeded if u not in released)
    failed = tuple(u for u in uncounted.failed if u not in released)
    return msgspec.structs.replace(
        status,
        succeeded=status.succeeded + (0 if indexed else len(uncounted.succeeded) - len(succeeded)),
        failed=status.failed + len(uncounted.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def terminal_status(s: Situation, status: JobStatus, verdict: Verdict) -> JobStatus:
    """The status with the terminal condition.

    A finished Job must have a startTime (BEHAVIOUR.md#b7-status-validation): a Job that never started gets one here.
    Only a suspended Job with completions=0 may finish without one. completionTime is the transition time of Complete.
    """
    start = s.start_time
    if start is None and not (s.suspended and s.completions == 0):
        start = s.stamp
    ended = s.stamp if start is None else max(s.stamp, start)
    return msgspec.structs.replace(
        status,
        conditions=conditions.put(status.conditions, verdict.type, "True", verdict.reason, verdict.message, ended),
        start_time=start,
        completion_time=ended if verdict.type == condition_types.COMPLETE else status.completion_time,
    )


def pod_counts(s: Situation, old: JobStatus, new: JobStatus) -> list[Count]:
    """Increments of job_pods_finished_total for the pods that moved into the counters between two statuses."""
    mode = s.job.spec.completion_mode
    succeeded = len(s.completed) - len(s.stored_completed) if s.indexed else new.succeeded - old.succeeded
    if s.indexed and old.completed_indexes == new.completed_indexes:
        succeeded = 0
    found = (("succeeded", succeeded), ("failed", new.failed - old.failed))
    return [
        Count("job_pods_finished_total", {"completion_mode": mode, "result": result}, number)
        for result, number in found
        if number > 0
    ]


def index_counts(s: Situation, failed_indexes: Set[int]) -> list[Count]:
    """Increments of job_finished_indexes_total for the indexes settled by this sync; empty unless Indexed."""
    if not s.indexed:
        return []
    limit = "perIndex" if s.per_index else "global"
    found = (
        ("succeeded", len(s.completed) - len(s.stored_completed)),
        ("failed", len(failed_indexes) - len(s.stored_failed)),
    )
    return [
        Count("job_finished_indexes_total", {"status": status, "backoffLimit": limit}, number)
        for status, number in found
        if number > 0
    ]


def action_counts(accounts: PodAccounting) -> list[Count]:
    """Increments of pod_failures_handled_by_failure_policy_total for the failures that this sync records."""
    return [
        Count("pod_failures_handled_by_failure_policy_total", {"action": action}, number)
        for action, number in sorted(accounts.actions.items())
    ]

"""Counting each finished pod exactly once (spec 2.3).

A pod goes through these states, each of them readable from the API alone:

    tracked                 carries the finalizer, so it cannot vanish
    tracked and noted       its UID stands in status.uncountedTerminatedPods (or its index in completedIndexes)
    noted                   the finalizer is gone; the UID waits to become a number
    counted                 succeeded or failed went up by one as the UID left the list, in one write

Each arrow is one API write, and whoever finds a pod in a state can take the next arrow without knowing how it got
there. A UID that is noted and has no tracked pod any more moves to the counter; a tracked pod that is
noted already is not noted again. What is noted as failed stays failed.

Pods that are deleted because there are too many of them leave this sequence at its start: they lose the
finalizer first, so that nobody counts them. Should their deletion then fail they carry a mark (labels.DELETING)
by which they are found and tracked again, so that a pod that runs on is still counted when it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import msgspec

from job_controller import conditions, reasons
from job_controller.decision import Count
from job_controller.index_set import IndexSet
from job_controller.model import JobStatus, Pod, UncountedTerminatedPods
from job_controller.pod_facts import completion_index, is_active, is_failed
from job_controller.pod_failure_policy import IGNORE, PolicyOutcome, evaluate
from job_controller.situation import Situation
from job_controller.verdict import Verdict


@dataclass(slots=True)
class PodAccounting:
    """What this sync notes: new UIDs, policy actions taken, and the pods that may lose their finalizer."""

    succeeded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    indexes: set[int] = field(default_factory=set)
    actions: Counter[str] = field(default_factory=Counter)
    release: list[Pod] = field(default_factory=list)
    full: bool = False


def settle(s: Situation, verdict: Verdict | None, keep: Set[str], removed: Set[str]) -> PodAccounting:
    """Note every tracked pod that has ended, up to the limit of one status.

    Those that are noted already come first: a controller that died between noting and releasing may have left the
    status full, and only their release makes room.

    `keep`: failed pods that must stay until they are replaced. `removed`: UIDs that this sync deletes because
    the Job ends.
    """
    ledger = PodAccounting()
    pods: Sequence[Pod] = s.loose
    if s.active and (s.deleting or verdict is not None):
        pods = sorted(s.tracked, key=completion_index) if s.indexed else s.tracked
    noted = {*s.uncounted.succeeded, *s.uncounted.failed}
    if noted:
        pods = sorted(pods, key=lambda pod: pod.metadata.uid not in noted)
    for pod in pods:
        if _is_over(s, pod, verdict, keep, noted, removed):
            if len(noted) + len(ledger.indexes) >= s.options.max_uncounted and pod.metadata.uid not in noted:
                ledger.full = True
                break
            ledger.release.append(pod)
            _note(s, pod, verdict, ledger, noted)
    return ledger


def _is_over(
    s: Situation, pod: Pod, verdict: Verdict | None, keep: Set[str], noted: Set[str], removed: Set[str]
) -> bool:
    """Whether nothing more is to be learned from the pod."""
    uid = pod.metadata.uid
    if s.deleting or pod.status.phase == "Succeeded" or uid in noted:
        return True
    if verdict is not None:
        return uid in removed or not is_active(pod)
    return is_failed(pod, s.only_terminal) and uid not in keep


def _note(s: Situation, pod: Pod, verdict: Verdict | None, ledger: PodAccounting, noted: set[str]) -> None:
    uid = pod.metadata.uid
    if uid in noted:
        return
    index = completion_index(pod) if s.indexed else 0
    if not 0 <= index < (s.completions if s.indexed and s.completions is not None else 1):
        return
    if pod.status.phase == "Succeeded":
        if not s.indexed:
            ledger.succeeded.append(uid)
            noted.add(uid)
        elif index not in s.stored_completed:
            ledger.indexes.add(index)
    elif _has_failed(s, pod, verdict):
        outcome = _outcome(s, pod)
        if outcome.action is not None:
            ledger.actions[outcome.action] += 1
        if outcome.action != IGNORE:
            ledger.failed.append(uid)
            noted.add(uid)


def _has_failed(s: Situation, pod: Pod, verdict: Verdict | None) -> bool:
    """A failing Job takes its running pods along as failures; one that succeeds, or is deleted, does not."""
    if verdict is not None and verdict.type == "Failed":
        return True
    if s.deleting or (verdict is not None and verdict.deletes_pods):
        return s.failed_by_itself(pod)
    return is_failed(pod, s.only_terminal)


def _outcome(s: Situation, pod: Pod) -> PolicyOutcome:
    known = s.outcomes.get(pod.metadata.uid)
    return known if known is not None else evaluate(s.job.spec.pod_failure_policy, pod)


def noted_status(s: Situation, ledger: PodAccounting, failed_indexes: IndexSet) -> JobStatus:
    """The status to be written before any finalizer comes off.

    UIDs without a tracked pod are counted, new ones noted, indexes merged. Conditions and numbers of pods are the
    caller's.
    """
    known = bool(s.uncounted.succeeded or s.uncounted.failed)
    tracked = {pod.metadata.uid for pod in s.tracked} if known else set()
    uncounted = UncountedTerminatedPods(
        succeeded=(*(u for u in s.uncounted.succeeded if u in tracked), *ledger.succeeded),
        failed=(*(u for u in s.uncounted.failed if u in tracked), *ledger.failed),
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
    """The number of completed indexes. It falls as completions do, which the API allows only as long as parallelism is
    the same (spec 1.7, 8): where that has been changed since, the number stays, or nothing could be written at all."""
    done = len(s.completed)
    return done if s.completions == s.job.spec.pods_at_once else max(done, s.job.status.succeeded)


def counted_status(status: JobStatus, released: Set[str], indexed: bool) -> JobStatus:
    """The status after the finalizers of these pods came off: their UIDs become numbers."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(u for u in uncounted.succeeded if u not in released)
    failed = tuple(u for u in uncounted.failed if u not in released)
    return msgspec.structs.replace(
        status,
        succeeded=status.succeeded + (0 if indexed else len(uncounted.succeeded) - len(succeeded)),
        failed=status.failed + len(uncounted.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def concluded_status(s: Situation, status: JobStatus, verdict: Verdict) -> JobStatus:
    """The final status. A Job that never ran gets its startTime here: a finished Job must have one."""
    start = s.start_time
    if start is None and not (s.suspended and s.completions == 0):
        start = s.stamp
    ended = s.stamp if start is None else max(s.stamp, start)
    return msgspec.structs.replace(
        status,
        conditions=conditions.put(status.conditions, verdict.type, "True", verdict.reason, verdict.message, ended),
        start_time=start,
        completion_time=ended if verdict.type == reasons.COMPLETE else status.completion_time,
    )


def pod_counts(s: Situation, old: JobStatus, new: JobStatus) -> list[Count]:
    """Metrics of pods that became numbers between two statuses (spec 3.2)."""
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
    """Metrics of indexes that this sync settled."""
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


def action_counts(ledger: PodAccounting) -> list[Count]:
    """Metrics of what the pod failure policy did."""
    return [
        Count("pod_failures_handled_by_failure_policy_total", {"action": action}, number)
        for action, number in sorted(ledger.actions.items())
    ]

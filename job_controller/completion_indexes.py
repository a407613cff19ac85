"""Indexes of an Indexed Job: which are completed, which failed, which needs the next pod (KEP-3850).

An index is settled if it succeeded or failed for good. See BEHAVIOUR.md#b27-per-index.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import filterfalse

from job_controller.backoff import FailureHistory, failure_count, ignored_count, remaining_of_index
from job_controller.index_intervals import parse_intervals
from job_controller.index_set import IndexSet
from job_controller.model import Job, Pod
from job_controller.pod_facts import completion_index, finish_time
from job_controller.pod_failure_policy import FAIL_INDEX, PolicyOutcome
from job_controller.sync_steps import PodPlan


def stored_completed(job: Job) -> IndexSet:
    """The indexes of status.completedIndexes that are below spec.completions."""
    return _numbers(job.status.completed_indexes, job.spec.completions or 0)


def stored_failed(job: Job) -> IndexSet:
    """The indexes of status.failedIndexes that are below spec.completions."""
    return _numbers(job.status.failed_indexes or "", job.spec.completions or 0)


# Cached: a large Job is synced many times between two changes of its indexes.
@lru_cache(maxsize=32)
def _numbers(text: str, completions: int) -> IndexSet:
    return IndexSet(parse_intervals(text, completions))


def exhausts_index(pod: Pod, outcome: PolicyOutcome, limit: int) -> bool:
    """Whether the failure of this pod fails its index for good (upstream isIndexFailed).

    `limit` is backoffLimitPerIndex. It is compared with the failures before this pod: limit 1 allows two pods, whose
    annotations count 0 and 1 failures.
    """
    return outcome.action == FAIL_INDEX or (outcome.counts and failure_count(pod) >= limit)


def last_failures(failed: Iterable[Pod], *settled: Container[int]) -> dict[int, Pod]:
    """For each unsettled index without an active pod, the failed pod that carries the failure counts for its
    replacement.

    `settled`: containers of the indexes that are active, succeeded or failed. The pod returned for an index keeps its
    finalizer, and stays uncounted, until its replacement is active; otherwise the failure counts would be lost
    (upstream getPodsWithDelayedDeletionPerIndex).
    """
    last: dict[int, Pod] = {}
    for pod in failed:
        index = completion_index(pod)
        if any(index in some for some in settled):
            continue
        current = last.get(index)
        if current is None or _follows(pod, current):
            last[index] = pod
    return last


def _follows(pod: Pod, current: Pod) -> bool:
    """Whether `pod` is the later attempt of the two: more failures before it, else finished later."""
    mine = failure_count(pod) + ignored_count(pod)
    other = failure_count(current) + ignored_count(current)
    if mine != other:
        return mine > other
    return (finish_time(pod), pod.metadata.uid) >= (finish_time(current), current.metadata.uid)


def free_indexes(completions: int, settled: IndexSet, taken: Container[int]) -> Iterator[int]:
    """The indexes below `completions` that need a pod, lowest first: neither settled nor taken by a pod."""
    return filterfalse(taken.__contains__, settled.missing(completions))


def replacement(index: int, replaced: Pod | None, outcome: PolicyOutcome | None) -> PodPlan:
    """The plan for the next pod of an index of a Job with backoffLimitPerIndex.

    Its counts are those of the failed pod that it replaces plus one: ignored failures if the pod failure policy ignored
    that failure, failures otherwise. Without a failed pod the count is 0.
    """
    if replaced is None:
        return PodPlan(index=index, failures=0)
    failures, ignored = failure_count(replaced), ignored_count(replaced)
    if outcome is None or outcome.counts:
        return PodPlan(index=index, failures=failures + 1, ignored=ignored)
    return PodPlan(index=index, failures=failures, ignored=ignored + 1)


def index_delay(history: FailureHistory, replaced: Pod | None, now: datetime, base: float, maximum: float) -> timedelta:
    """How long an index still delays its next pod; zero without a failed pod. `base` and `maximum` in seconds."""
    return remaining_of_index(history, replaced, now, base, maximum) if replaced is not None else timedelta(0)

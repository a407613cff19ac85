"""Metrics of one sync: each end of a pod, of an index and of a Job is counted once (BEHAVIOUR.md#b33-metrics)."""

from __future__ import annotations

from job_controller.sync_steps import Decision
from tests.unit.job_controller.build import indexed, job, pod, run

PODS = "job_pods_finished_total"
INDEXES = "job_finished_indexes_total"
JOBS = "jobs_finished_total"


def counted(decision: Decision) -> dict[tuple[str, ...], int]:
    """The increments by name and label values, in the order of the label names."""
    found: dict[tuple[str, ...], int] = {}
    for step in decision.steps:
        for count in getattr(step, "counts", ()):
            key = (count.name, *(value for _, value in sorted(count.labels.items())))
            found[key] = found.get(key, 0) + count.by
    return found


def test_pods_count_as_they_become_numbers() -> None:
    """Including pods that an earlier sync recorded and that are gone."""
    status = {"succeeded": 4, "failed": 2, "uncountedTerminatedPods": {"succeeded": ["gone"], "failed": ["lost"]}}
    pods = [pod("a", "Succeeded"), pod("b", "Failed"), pod("c", "Failed"), pod("d")]
    assert counted(run(job(parallelism=2, completions=9, status=status), *pods)) == {
        (PODS, "NonIndexed", "succeeded"): 2,
        (PODS, "NonIndexed", "failed"): 3,
    }


def test_indexes_count_once_and_not_those_that_status_has() -> None:
    a_job = indexed(5, status={"completedIndexes": "0,1", "succeeded": 2})
    pods = [pod("a", "Succeeded", 0), pod("b", "Succeeded", 2), pod("c", "Succeeded", 2), pod("d", index=3)]
    assert counted(run(a_job, *pods)) == {
        (PODS, "Indexed", "succeeded"): 1,
        (INDEXES, "global", "succeeded"): 1,
    }


def test_indexes_that_failed_for_good_count_too() -> None:
    a_job = indexed(4, backoff_limit_per_index=0, status={"failedIndexes": "0", "failed": 1})
    pods = [pod("b", "Failed", 1), pod("c", "Failed", 2), pod("d", "Succeeded", 3)]
    assert counted(run(a_job, *pods)) == {
        (PODS, "Indexed", "succeeded"): 1,
        (PODS, "Indexed", "failed"): 2,
        (INDEXES, "perIndex", "succeeded"): 1,
        (INDEXES, "perIndex", "failed"): 2,
        (JOBS, "Indexed", "FailedIndexes", "failed"): 1,
    }


def test_the_end_of_a_job_counts_with_its_last_pods() -> None:
    assert counted(run(job(), pod("a", "Succeeded"))) == {
        (PODS, "NonIndexed", "succeeded"): 1,
        (JOBS, "NonIndexed", "CompletionsReached", "succeeded"): 1,
    }


def test_nothing_counts_where_nothing_ended() -> None:
    assert counted(run(indexed(2), pod("a", index=0))) == {}

"""Pods as attempts, the index map, and the time of the next pod."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from job_controller.model import Job
from job_controller.options import JobControllerOptions
from job_controller.sync import decide
from queue_manager.cli.show import map_lines
from queue_manager.visibility.index_map import DRAWN, IndexRow, index_map
from queue_manager.visibility.pod_attempts import next_pod_at, pod_rows
from queue_manager.visibility.wire_types import Pod
from tests.unit.visibility.build import at, cond, job, pod, wire

OPTIONS = JobControllerOptions(backoff_base=10, backoff_max=60)
FAILED = cond("Failed", reason="BackoffLimitExceeded", seconds=50)


def runs(**spec: object) -> Job:
    return job(suspend=False, **spec)


def indexed(completions: int, **more: object) -> Job:
    return runs(completionMode="Indexed", completions=completions, parallelism=completions, **more)


@pytest.mark.parametrize(
    ("made", "state", "code", "reason", "message"),
    [
        (pod(phase="Pending"), "Starting", None, "", ""),
        (pod(phase="Pending", node="", stuck="0/1 nodes"), "Unschedulable", None, "Unschedulable", "0/1 nodes"),
        (pod(phase="Pending", waiting="no such file"), "Starting", None, "CreateContainerError", "no such file"),
        (pod(), "Unready", None, "", ""),
        (pod(ready=True), "Ready", None, "", ""),
        (pod(ready=True, deleted=9), "Terminating", None, "", ""),
        (pod(phase="Succeeded", exit=0), "Succeeded", 0, "", ""),
        (pod(phase="Failed", exit=137, reason="OOMKilled"), "Failed", 137, "OOMKilled", ""),
        (pod(phase="Failed", exit=143, verdict="Terminated"), "Failed", 143, "Terminated", ""),
        (pod(ready=True, before="NodeShutdown"), "Ready", None, "Restarted", "after NodeShutdown"),
        (pod(ready=True, before="Error"), "Ready", None, "", ""),
    ],
)
def test_a_pod_has_a_state_an_exit_code_and_an_error(
    made: Pod, state: str, code: int | None, reason: str, message: str
) -> None:
    (row,) = pod_rows(runs(), [made])
    assert (row.state, row.exit_code, row.reason, row.message) == (state, code, reason, message)


def test_a_container_that_waits_for_its_restart_has_the_error_that_ended_it() -> None:
    crashed = {"terminated": {"exitCode": 3, "reason": "Error", "message": "boom"}}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
    status = {"name": "c", "state": waits, "lastState": crashed, "restartCount": 1}
    its = msgspec.convert({"status": {"phase": "Running", "containerStatuses": [status]}}, Pod)
    (row,) = pod_rows(runs(), [its])
    assert (row.state, row.reason, row.message) == ("Unready", "CrashLoopBackOff", "exit 3: boom")


@pytest.mark.parametrize(
    ("its", "started"),
    [
        (pod(phase="Failed", exit=128, reason="StartError"), None),
        (pod(waiting="no such image"), None),
        (pod(phase="Failed", exit=3), at(0)),
        (pod(phase="Failed", verdict="Evicted"), at(0)),
    ],
    ids=["its program does not exist", "its image does not exist", "it failed", "its containers are not known"],
)
def test_a_pod_of_which_no_container_ran_has_not_started(its: Pod, started: datetime | None) -> None:
    assert [row.started for row in pod_rows(job(), [its])] == [started]


def test_attempts_count_in_order_of_creation() -> None:
    pods = [pod("j-c", created=20), pod("j-a", "Failed", created=0, exit=1), pod("j-b", "Failed", created=10, exit=2)]
    rows = pod_rows(runs(), pods)
    assert [(row.name, row.attempt, row.exit_code) for row in rows] == [("j-a", 1, 1), ("j-b", 2, 2), ("j-c", 3, None)]


def test_attempts_of_an_index_continue_the_count_of_its_annotation() -> None:
    """Earlier pods of the index may have been deleted."""
    pods = [pod("j-1-b", index=1, failures=4), pod("j-0-a", index=0, failures=0)]
    rows = pod_rows(indexed(2, backoffLimitPerIndex=9), pods)
    assert [(row.index, row.attempt) for row in rows] == [(0, 1), (1, 5)]


def test_the_index_map_has_one_character_for_each_index() -> None:
    pods = [
        pod("j-3", index=3, ready=True),
        pod("j-4", "Pending", index=4),
        pod("j-5", "Failed", index=5, failures=0, exit=3, ended=100),
        pod("j-6", "Succeeded", index=6, exit=0),
    ]
    asked = indexed(8, backoffLimitPerIndex=1, status={"completedIndexes": "0,1", "failedIndexes": "2"})
    seen = index_map(asked, pods, OPTIONS, at(500))
    assert seen is not None
    assert seen.map == "..xrsb._"
    assert seen.counts == {
        "succeeded": 3,
        "failed": 1,
        "running": 1,
        "starting": 1,
        "in backoff": 1,
        "not started": 1,
    }
    assert seen.troubled == [
        IndexRow(index=5, state="in backoff", attempts=1, exit_codes=[3], last_error="Error", next_retry=at(110))
    ]


def test_indexes_beyond_the_completions_are_ignored() -> None:
    seen = index_map(
        indexed(2, status={"completedIndexes": "0-5", "failedIndexes": "x"}), [pod(index=7)], OPTIONS, at(500)
    )
    assert seen is not None
    assert seen.map == ".."


def test_the_map_of_two_billion_indexes_has_the_first_and_counts_all() -> None:
    most = 2**31 - 1
    status = {"completedIndexes": f"1,7-{most - 3}", "failedIndexes": "7-9"}
    pods = [pod(index=3, ready=True), pod(index=most - 1, ready=True)]
    seen = index_map(indexed(most, backoffLimitPerIndex=1, status=status), pods, OPTIONS, at(500))
    assert seen is not None
    assert (seen.map[:12], len(seen.map)) == ("_._r___.....", DRAWN)
    assert seen.counts == {"succeeded": most - 8, "running": 2, "not started": 6}
    assert map_lines(seen)[-2].endswith(" more (-o json has 1000000 of them)")


def test_a_failed_index_of_an_ended_job_has_no_next_pod() -> None:
    seen = index_map(indexed(1, conditions=[FAILED]), [pod(phase="Failed", index=0, exit=1)], OPTIONS, at(500))
    assert seen is not None
    assert (seen.map, seen.troubled[0].next_retry) == ("x", None)


FAILED_POD = pod("j-1", "Failed", index=1, exit=3)
DEADLINE = cond("Failed", reason="DeadlineExceeded", seconds=50)


@pytest.mark.parametrize(
    ("ended", "pods", "drawn"),
    [
        (indexed(3, backoffLimit=0, conditions=[FAILED], status={"failed": 3}), [FAILED_POD], "-x-"),
        (indexed(3, backoffLimit=6, conditions=[FAILED], status={"failed": 3}), [FAILED_POD], "-x-"),
        (indexed(2, conditions=[DEADLINE], status={"failed": 2}), [], "--"),
        (indexed(3, conditions=[FAILED], status={"failed": 1}), [FAILED_POD], "_x_"),
        (indexed(3, conditions=[FAILED], status={"failed": 2}), [FAILED_POD], "?x?"),
        (indexed(3, conditions=[FAILED], status={"failed": 3}), [], "???"),
        (indexed(2, conditions=[FAILED], status={"failed": 2}), [pod("j-0", "Failed", index=0, deleted=9)], "--"),
        (indexed(3, conditions=[cond("Complete")], status={"completedIndexes": "0"}), [], ".??"),
    ],
)
def test_an_index_whose_pod_the_end_of_the_job_stopped_is_not_called_not_started(
    ended: Job, pods: list[Pod], drawn: str
) -> None:
    started = msgspec.structs.replace(ended, status=msgspec.structs.replace(ended.status, start_time=at(0)))
    seen = index_map(started, pods, OPTIONS, at(500))
    assert seen is not None
    assert seen.map == drawn


def test_an_index_without_retries_had_one_pod_although_not_all_ran_at_once() -> None:
    status = {"failed": 2, "startTime": wire(0), "completedIndexes": "0,2"}
    ended = runs(
        completionMode="Indexed", completions=4, parallelism=2, backoffLimit=0, conditions=[FAILED], status=status
    )
    seen = index_map(ended, [FAILED_POD], OPTIONS, at(500))
    assert seen is not None
    assert seen.counts == {"succeeded": 2, "failed": 1, "stopped": 1}


def test_an_index_is_stopping_while_its_pod_is_terminating() -> None:
    seen = index_map(indexed(1), [pod(index=0, deleted=9)], OPTIONS, at(500))
    assert seen is not None
    assert seen.counts == {"stopping": 1}


def test_only_indexed_jobs_have_a_map() -> None:
    assert index_map(runs(), [], OPTIONS, at(500)) is None


def failures(*ended: float) -> list[Pod]:
    return [pod(f"j-{i}", "Failed", created=end - 1, exit=1, ended=end) for i, end in enumerate(ended)]


@pytest.mark.parametrize(
    ("asked", "pods", "due"),
    [
        (runs(), [], None),
        (runs(), failures(100), at(110)),
        (runs(), failures(100, 120), at(140)),
        (runs(), failures(10, 20, 30, 40, 50, 60), at(120)),
        (runs(annotations={"sluice/backoff-seconds": "1"}), failures(100), at(101)),
        (runs(parallelism=2), [*failures(100), pod("j-alive")], at(110)),
        (runs(), [*failures(100), pod("j-alive")], None),
        (runs(), [*failures(100), pod("j-ok", "Succeeded", exit=0, ended=200)], None),
        (job(), failures(100), None),
        (runs(conditions=[FAILED]), failures(100), None),
        (indexed(1, backoffLimitPerIndex=1), failures(100), None),
    ],
    ids=["none", "one", "two", "capped", "own base", "room", "no room", "success", "suspended", "ended", "per index"],
)
def test_the_time_of_the_next_pod_is_that_of_the_job_controller(
    asked: Job, pods: list[Pod], due: datetime | None
) -> None:
    assert next_pod_at(asked, pods, OPTIONS, at(500)) == due


@pytest.mark.parametrize(
    ("counted", "pods", "due"),
    [
        (3, failures(120), at(160)),
        (1, failures(120), at(130)),
        (3, [], None),
        (3, [*failures(120), pod("j-ok", "Succeeded", exit=0, ended=110)], at(130)),
    ],
    ids=["two are gone", "none is gone", "all are gone", "since a success"],
)
def test_failed_pods_that_are_gone_count_for_the_time_of_the_next(
    counted: int, pods: list[Pod], due: datetime | None
) -> None:
    """The time at which the decision of a Job controller without a memory creates the next pod."""
    succeeded = sum(one.status.has_succeeded for one in pods)
    wanted = {"completions": 2, "backoffLimit": 9, "selector": {"matchLabels": {"a": "b"}}}
    asked = runs(status={"failed": counted, "succeeded": succeeded}, **wanted)
    assert next_pod_at(asked, pods, OPTIONS, at(121)) == due
    decision = decide(asked, pods, None, at(121), OPTIONS)
    assert decision.requeue_after == (None if due is None else (due - at(121)).total_seconds())


def test_the_next_pod_comes_within_its_delay_after_the_clock_was_set_back() -> None:
    """Finish times in the future: the Job controller counts from when it first observes that."""
    day = 86_400
    assert next_pod_at(runs(), failures(day, day + 20), OPTIONS, at(5)) == at(25)
    seen = index_map(
        indexed(1, backoffLimitPerIndex=3), [pod("j-0-a", "Failed", index=0, exit=1, ended=day)], OPTIONS, at(5)
    )
    assert seen is not None
    assert [row.next_retry for row in seen.troubled] == [at(15)]

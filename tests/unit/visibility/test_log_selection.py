"""Which logs of a Job are printed."""

from __future__ import annotations

import msgspec

from queue_manager.visibility.log_selection import has_several_pods, log_sources
from queue_manager.visibility.wire_types import Pod
from tests.unit.visibility.build import job, pod

SINGLE = job(suspend=False)
INDEXED = job(suspend=False, completionMode="Indexed", completions=3, parallelism=3)
PARALLEL = job(suspend=False, parallelism=2, completions=None)
FIRST = pod("a", "Failed", exit=1, created=1)
SECOND = pod("b", "Failed", exit=1, created=2)
RUNNING = pod("c", before="NodeShutdown", created=3)
INDEXES = [
    pod("i0", "Succeeded", index=0, exit=0, created=1),
    pod("i1-old", "Failed", index=1, exit=1, created=1),
    pod("i1-new", index=1, before="x", created=5),
    pod("i2", "Failed", index=2, exit=2, created=1),
]


def pods_of(*args: object, **options: object) -> list[str]:
    return [source.pod for source in log_sources(*args, **options)]  # type: ignore[arg-type]


def restarted(one: Pod, times: int) -> Pod:
    (status,) = one.status.container_statuses
    statuses = (msgspec.structs.replace(status, restart_count=times),)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, container_statuses=statuses))


def test_of_a_single_pod_the_newest_attempt_is_chosen_or_the_one_before() -> None:
    assert pods_of(SINGLE, [RUNNING, FIRST, SECOND]) == ["c"]
    assert pods_of(SINGLE, [RUNNING, FIRST, SECOND], previous=True) == ["b"]
    assert pods_of(SINGLE, [RUNNING, FIRST, SECOND], failed=True) == ["b"]
    assert pods_of(SINGLE, [RUNNING, FIRST, SECOND], all_attempts=True) == ["a", "b", "c"]
    assert pods_of(SINGLE, [RUNNING], previous=True) == []


def test_of_an_indexed_job_each_index_has_one_log_labelled_by_it() -> None:
    found = log_sources(INDEXED, INDEXES)
    assert [(source.pod, source.label) for source in found] == [("i0", "0"), ("i1-new", "1"), ("i2", "2")]
    assert pods_of(INDEXED, INDEXES, index=1) == ["i1-new"]
    assert pods_of(INDEXED, INDEXES, index=1, previous=True) == ["i1-old"]
    assert pods_of(INDEXED, INDEXES, failed=True) == ["i1-old", "i2"]


def test_parallel_pods_without_index_are_all_chosen_labelled_by_name() -> None:
    found = log_sources(PARALLEL, [RUNNING, FIRST, SECOND])
    assert [(source.pod, source.label) for source in found] == [("a", "a"), ("b", "b"), ("c", "c")]


def test_a_restarted_container_has_its_previous_log_in_the_same_pod() -> None:
    (source,) = log_sources(SINGLE, [FIRST, restarted(RUNNING, 2)], previous=True)
    assert (source.pod, source.before_restart, source.restarts) == ("c", True, 2)
    (source,) = log_sources(SINGLE, [FIRST, restarted(RUNNING, 2)])
    assert not source.before_restart


def test_a_pod_whose_container_has_not_started_has_no_log() -> None:
    assert pods_of(SINGLE, [pod("w", "Pending", waiting="no such file"), pod("u", "Pending")]) == []


def test_an_unknown_container_has_no_log() -> None:
    assert pods_of(SINGLE, [RUNNING], container="c") == ["c"]
    assert pods_of(SINGLE, [RUNNING], container="sidecar") == []


def test_only_jobs_that_want_several_pods_at_once_need_labels() -> None:
    assert [has_several_pods(one) for one in (SINGLE, INDEXED, PARALLEL)] == [False, True, True]


def test_of_a_running_pod_the_failed_container_is_chosen_if_wanted() -> None:
    (runs,), (ended,) = RUNNING.status.container_statuses, FIRST.status.container_statuses
    statuses = (msgspec.structs.replace(runs, name="main"), msgspec.structs.replace(ended, name="side"))
    both = msgspec.structs.replace(RUNNING, status=msgspec.structs.replace(RUNNING.status, container_statuses=statuses))
    assert [source.container for source in log_sources(SINGLE, [both])] == ["main"]
    assert [source.container for source in log_sources(SINGLE, [both], failed=True)] == ["side"]
    assert log_sources(SINGLE, [RUNNING], failed=True) == []

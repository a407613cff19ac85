"""Why pods are not ready: the words, and which cause is the worst."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.model import JobStatus, Pod
from queue_manager.lifecycle.pod_causes import (
    MAX_CHARACTERS,
    CauseRank,
    PodCause,
    cause_at_deadline,
    cause_of,
    cause_of_failure,
    error_of,
    exit_code_in,
    one_line,
    restart_of,
    restarted_before,
    worst_cause,
)
from tests.unit.queueing.builders import at, wire

Tree = dict[str, Any]


def ended(code: int, reason: str = "Error", message: str = "", seconds: float = 0) -> Tree:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": wire(seconds)}}


def waiting(reason: str, message: str = "") -> Tree:
    return {"waiting": {"reason": reason, "message": message}}


def pod(phase: str, state: Tree | None = None, last: Tree | None = None, **more: Any) -> Pod:
    """`more`: name, ready, init (state of an init container), deleted, disrupted, stuck and unready (messages),
    verdict."""
    meta: Tree = {"name": more.get("name", "p"), "creationTimestamp": wire(0)}
    if more.get("deleted"):
        meta["deletionTimestamp"] = wire(5)
    status: Tree = {"phase": phase, "conditions": []}
    if state is not None:
        entry = {"name": "c", "ready": more.get("ready", False), "state": state, "lastState": last or {}}
        status["containerStatuses"] = [entry]
    if "init" in more:
        status["initContainerStatuses"] = [{"name": "i", "state": more["init"]}]
    if more.get("disrupted"):
        status["conditions"].append({"type": "DisruptionTarget", "status": "True"})
    if "stuck" in more:
        found = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": more["stuck"]}
        status["conditions"].append(found)
    if "unready" in more:
        found = {"type": "ContainersReady", "status": "False", "message": more["unready"]}
        status["conditions"].append(found)
    if "verdict" in more:
        status["reason"], status["message"] = more["verdict"]
    return msgspec.convert({"metadata": meta, "status": status}, Pod)


UNREADY = "containers with unready status: [c]"
RUNS: Tree = {"running": {"startedAt": wire(0)}}
KUBELET = 'failed to create containerd task: exec: "/no/such": stat /no/such: no such file or directory: unknown'
NODES = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims."


@pytest.mark.parametrize(
    ("its", "rank", "text"),
    [
        (pod("Failed", ended(3, message="starts\nboom: no file\n\n")), CauseRank.FAILED, "exit 3: boom: no file"),
        (pod("Failed", ended(3)), CauseRank.FAILED, "exit 3"),
        (pod("Failed", ended(137, "OOMKilled", "loading")), CauseRank.OUT_OF_MEMORY, "OOMKilled"),
        (pod("Failed", ended(1, "OOMKilled")), CauseRank.OUT_OF_MEMORY, "OOMKilled (exit 1)"),
        (pod("Failed", ended(128, "StartError", KUBELET)), CauseRank.NOT_STARTABLE, "no such program: /no/such"),
        (
            pod("Failed", ended(128, "StartError", 'exec: "/etc/x": permission denied: unknown')),
            CauseRank.NOT_STARTABLE,
            "not executable: /etc/x",
        ),
        (
            pod("Failed", ended(128, "StartError", "argument list too long")),
            CauseRank.NOT_STARTABLE,
            "StartError (exit 128): argument list too long",
        ),
        (
            pod("Failed", ended(1, message='exec: "/etc/x": permission denied')),  # of another program
            CauseRank.FAILED,
            'exit 1: exec: "/etc/x": permission denied',
        ),
        (pod("Failed", ended(0), verdict=("Evicted", "low on memory")), CauseRank.FAILED, "Evicted: low on memory"),
        (pod("Failed", ended(3), init=ended(5, message="x")), CauseRank.FAILED, "exit 5: x"),
        (pod("Running", waiting("CrashLoopBackOff"), ended(3, message="x")), CauseRank.FAILED, "exit 3: x"),
        (pod("Running", RUNS, ended(3, message="x")), CauseRank.FAILED, "exit 3: x"),
        (
            pod("Pending", waiting("CreateContainerError", 'exec: "a b": executable file not found in $PATH')),
            CauseRank.NOT_STARTABLE,
            "no such program: a b",
        ),
        (pod("Pending", waiting("ErrImagePull", "no x\ty")), CauseRank.NOT_STARTABLE, "ErrImagePull: no x y"),
        (pod("Pending", waiting("ImagePullBackOff")), CauseRank.NOT_STARTABLE, "ImagePullBackOff"),
        (pod("Pending", stuck=NODES), CauseRank.UNSCHEDULABLE, "0/3 nodes: Insufficient cpu"),
        (
            pod("Pending", stuck="0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had taints."),
            CauseRank.UNSCHEDULABLE,
            "0/3 nodes: 1 Insufficient cpu, 2 node(s) had taints",
        ),
        (pod("Pending", stuck="no nodes"), CauseRank.UNSCHEDULABLE, "no nodes"),
        (pod("Running", RUNS), CauseRank.UNREADY, "readiness probe failed"),
        (pod("Running", RUNS, unready=UNREADY), CauseRank.UNREADY, "readiness probe failed"),
        (
            pod("Running", RUNS, unready=f"{UNREADY}; Readiness probe failed: no db; retry"),
            CauseRank.UNREADY,
            "readiness probe failed: no db; retry",
        ),
        (
            pod(
                "Running", RUNS, unready=f"{UNREADY}; Startup probe errored and resulted in unknown state: no such file"
            ),
            CauseRank.UNREADY,
            "startup probe errored and resulted in unknown state: no such file",
        ),
    ],
)
def test_the_cause_of_a_pod_follows_from_its_status(its: Pod, rank: CauseRank, text: str) -> None:
    found = cause_of(its)
    assert found is not None
    assert (found.rank, found.text) == (rank, text)


@pytest.mark.parametrize(
    "its",
    [
        pod("Succeeded", ended(0)),
        pod("Running", RUNS, ready=True),
        pod("Running", RUNS, ended(3), ready=True),
        pod("Pending", waiting("ContainerCreating")),
        pod("Pending"),
        pod("Running", RUNS, deleted=True),
        pod("Failed", ended(143), disrupted=True),
    ],
)
def test_a_pod_that_starts_runs_or_was_stopped_has_no_cause(its: Pod) -> None:
    assert cause_of(its) is None


def failed_job(since: float, reason: str = "BackoffLimitExceeded") -> JobStatus:
    end = {"type": "Failed", "status": "True", "reason": reason}
    return msgspec.convert({"startTime": wire(since), "conditions": [end]}, JobStatus)


def disruption(seconds: float) -> PodCause:
    return PodCause(CauseRank.FAILED, "pod evicted from n1 (X)", at(seconds), "p")


def test_a_disruption_is_the_cause_of_a_job_that_failed_by_it() -> None:
    evicted = pod("Failed", ended(143), disrupted=True)
    assert cause_of_failure(failed_job(0), [evicted]) == "pod evicted"
    assert cause_of_failure(failed_job(0), [], disruption(5)) == "pod evicted from n1 (X)"
    assert cause_of_failure(failed_job(9), [], disruption(5)) == ""  # in an earlier attempt
    assert cause_of_failure(failed_job(0, "DeadlineExceeded"), [], disruption(5)) == "pod evicted from n1 (X)"
    assert cause_of_failure(JobStatus(), [evicted], disruption(5)) == ""


def test_of_a_job_that_its_deadline_ended_the_pods_count_that_had_failed_before() -> None:
    late = failed_job(0, "DeadlineExceeded")
    assert cause_of_failure(late, [pod("Failed", ended(3, seconds=10))]) == "exit 3"
    assert cause_of_failure(late, [pod("Failed", ended(143, seconds=10), deleted=True)]) == ""
    assert cause_of_failure(late, []) == ""


def test_of_a_job_that_failed_indexes_ended_only_their_pods_count() -> None:
    def of_index(index: str, code: int, seconds: float) -> Pod:
        its = pod("Failed", ended(code, seconds=seconds))
        notes = {"batch.kubernetes.io/job-completion-index": index}
        return msgspec.structs.replace(its, metadata=msgspec.structs.replace(its.metadata, annotations=notes))

    def cause(reason: str, past: PodCause | None = None) -> str:
        end = {"type": "Failed", "status": "True", "reason": reason}
        status = msgspec.convert({"conditions": [end], "failedIndexes": "2"}, JobStatus)
        return cause_of_failure(status, [of_index("2", 1, 10), of_index("1", 4, 20)], past)

    assert cause("FailedIndexes") == "exit 1"
    assert cause("FailedIndexes", PodCause(CauseRank.FAILED, "pod evicted", at(30), "p")) == "exit 1"
    assert cause("PodFailurePolicy") == "exit 4"


def test_of_a_disruption_and_a_failure_the_newest_is_the_cause() -> None:
    failed = pod("Failed", ended(3, seconds=10))
    assert cause_of_failure(failed_job(0), [failed], disruption(5)) == "exit 3"
    assert cause_of_failure(failed_job(0), [failed], disruption(15)) == "pod evicted from n1 (X)"


def test_a_container_that_a_node_shutdown_interrupted_has_not_failed() -> None:
    found = cause_of(pod("Running", RUNS, ended(143, "NodeShutdown")))
    assert found is None or found.rank == CauseRank.UNREADY


def test_the_worst_cause_counts_and_of_equal_ones_the_newest() -> None:
    stuck, unready = pod("Pending", stuck=NODES, name="a"), pod("Running", RUNS, name="b")
    first, last = (pod("Failed", ended(s, seconds=s), name=f"f{s}") for s in (10, 20))
    texts = [
        worst.text
        for known in ([unready], [unready, stuck], [unready, stuck, first], [first, last, stuck])
        if (worst := worst_cause(known)) is not None
    ]
    assert texts == ["readiness probe failed", "0/3 nodes: Insufficient cpu", "exit 10", "exit 20"]


def test_an_old_failure_counts_only_while_the_attempt_has_no_pod() -> None:
    old, new = pod("Failed", ended(3, seconds=10), name="old"), pod("Pending", waiting("ContainerCreating"))
    alone = worst_cause([old], since=at(50))
    assert alone is not None
    assert alone.text == "exit 3"
    assert worst_cause([old, new], since=at(50)) is None
    assert worst_cause([old, new], since=at(10)) == alone


@pytest.mark.parametrize(
    ("its", "error"),
    [
        (pod("Failed", ended(3, seconds=60)), "exit 3"),
        (pod("Pending", stuck="0/1 nodes are available: 1 Insufficient cpu."), "0/1 nodes: Insufficient cpu"),
        (pod("Running", {"running": {}}), ""),  # not ready yet
        (pod("Pending", waiting("ContainerCreating")), ""),
    ],
)
def test_pods_that_only_start_are_no_error_of_an_attempt_that_something_else_ends(its: Pod, error: str) -> None:
    assert error_of([its], at(50)) == error


def test_an_attempt_without_a_pod_ended_before_the_retry() -> None:
    late = " (no retry before the timeout)"
    failed, newer = pod("Failed", ended(3, seconds=10), name="old"), pod("Failed", ended(4, seconds=60), name="new")
    assert cause_at_deadline([failed], at(50)) == f"exit 3{late}"
    assert cause_at_deadline([failed], at(10)) == "exit 3"
    assert cause_at_deadline([failed, newer], at(50)) == "exit 4"
    assert cause_at_deadline([pod("Failed", ended(128, "StartError"), name="old")], at(50)) == "StartError (exit 128)"
    long = cause_at_deadline([pod("Failed", ended(3, message="x" * 500, seconds=10))], at(50))
    assert (len(long), long.endswith(f"x…{late}")) == (MAX_CHARACTERS, True)


def test_a_long_text_is_cut_and_has_no_control_characters() -> None:
    text = one_line("\x1b[31mred\r\n" + "x" * 500)
    assert (len(text), text[:9], text[-1]) == (MAX_CHARACTERS, "[31mred x", "…")


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (ended(139), "exit 139 (SIGSEGV)"),
        (ended(143), "exit 143 (SIGTERM)"),
        (ended(137, message="last line"), "exit 137 (SIGKILL): last line"),
        (ended(137, "OOMKilled"), "OOMKilled"),
        (ended(137, "ContainerStatusUnknown"), "ContainerStatusUnknown (exit 137)"),
        (ended(3), "exit 3"),
    ],
)
def test_an_exit_code_names_the_signal_unless_a_reason_explains_it(end: Tree, text: str) -> None:
    cause = cause_of(pod("Failed", end))
    assert cause is not None
    assert cause.text == text


def test_a_container_that_is_being_created_is_the_cause_at_the_deadline_alone() -> None:
    creating, stuck = pod("Pending", waiting("ContainerCreating")), pod("Pending", stuck=NODES)
    assert worst_cause([creating]) is None
    assert cause_at_deadline([creating], at(0)) == "ContainerCreating: container c has not started"
    initializing = pod("Pending", waiting("PodInitializing"), init={"running": {}})
    assert cause_at_deadline([initializing], at(0)) == "PodInitializing: init container i has not ended"
    assert cause_at_deadline([creating, stuck], at(0)) == "0/3 nodes: Insufficient cpu"
    assert cause_at_deadline([pod("Pending", waiting("ContainerCreating"), deleted=True)], at(0)) == ""


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ("exit 3: boom", 3),
        ("exit 139 (SIGSEGV)", 139),
        ("Odd (exit 1): x", 1),
        ("OOMKilled", 137),
        ("exited", None),
    ],
)
def test_a_cause_names_an_exit_code(cause: str, code: int | None) -> None:
    assert exit_code_in(cause) == code


def test_the_restart_of_a_container_is_a_cause_of_a_pod_that_goes_on() -> None:
    again = pod("Running", waiting("CrashLoopBackOff"), ended(8, message="attempt failed"))
    found = restart_of(again)
    assert found is not None
    assert found.text == restarted_before(again) == "exit 8: attempt failed"
    assert restart_of(pod("Failed", ended(8))) is None, "it does not go on"
    ready = pod("Running", {"running": {}}, ended(8, message="attempt failed", seconds=7), ready=True)
    assert restart_of(ready) == PodCause(CauseRank.FAILED, "exit 8: attempt failed", at(7), "p")
    assert restarted_before(ready) == "restarted after exit 8: attempt failed"
    assert restart_of(pod("Running", {"running": {}}, ended(1, "NodeShutdown"), ready=True)) is None
    assert restart_of(pod("Pending", waiting("ErrImagePull"))) is None, "it has not ended"
    assert restarted_before(pod("Running", ended(143))) == "", "its deletion has ended it"

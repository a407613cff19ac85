"""Whether a Job has run: a Job none of whose pods has started only held quota."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.cli import ps
from queue_manager.cli.output import columns_of
from queue_manager.cli.show import _times
from queue_manager.visibility.job_causes import job_cause
from queue_manager.visibility.job_states import job_row
from queue_manager.visibility.pod_starts import has_run
from queue_manager.visibility.predictions import PredictionContext
from queue_manager.visibility.show_record import job_view
from queue_manager.visibility.wire_types import Pod
from tests.unit.visibility.build import admitted, at, cond, job, wire, workload

STARTING: dict[str, Any] = {"suspend": False, "status": {"active": 1, "startTime": wire(10)}}
LOST = cond("PodsReady", "False", "WaitForRecovery")


def pod(*, phase: str = "Pending", unscheduled: bool = False, **state: Any) -> Pod:
    container = {"name": "c", "state": state} if not unscheduled else None
    no_node = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: full"}
    status = {
        "phase": phase,
        "containerStatuses": [container] if container else [],
        "conditions": [no_node] if unscheduled else [],
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
    meta = {"name": "j-aaaaa", "namespace": "default", "creationTimestamp": wire(11), "ownerReferences": [owner]}
    return msgspec.convert({"metadata": meta, "status": status}, Pod)


def ended(reason: str = "Error", message: str = "", code: int = 3) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": wire(20)}}


NO_PROGRAM = ended("StartError", 'exec: "/x": stat /x: no such file or directory', 128)
FAILED_ONCE: dict[str, Any] = {"suspend": False, "status": {"failed": 1, "startTime": wire(10)}}


def after(**attempt: str) -> Workload:
    history = {"attempts": [{"start": wire(0), "end": wire(30), "ranSeconds": 30, **attempt}], "ranSeconds": 30}
    return workload(status={"requeueHistory": history})


@pytest.mark.parametrize(
    ("its", "of", "pods", "run"),
    [
        (job(**STARTING), workload(conditions=admitted()), [pod(unscheduled=True)], False),
        (job(**STARTING), workload(conditions=admitted()), [pod(waiting={"reason": "ErrImagePull"})], False),
        (job(**STARTING), workload(conditions=admitted()), [pod(waiting={"reason": "ContainerCreating"})], False),
        (job(**STARTING), workload(conditions=admitted()), [pod(phase="Running")], True),
        (job(**STARTING), workload(conditions=[*admitted(), LOST]), [], True),
        (job(**FAILED_ONCE), workload(conditions=admitted()), [pod(phase="Failed", **NO_PROGRAM)], False),
        (job(**FAILED_ONCE), workload(conditions=admitted()), [pod(phase="Failed", **ended())], True),
        (job(**FAILED_ONCE), workload(conditions=admitted()), [], True),
        (job(suspend=False, status={"ready": 1, "active": 1}), workload(conditions=admitted()), [], True),
        (job(), after(reason="PodsReadyTimeout", cause="Unschedulable", podCause="0/1 nodes: full"), [], False),
        (job(), after(reason="PodsReadyTimeout", cause="WaitForStart", podCause="no such program: /x"), [], False),
        (job(), after(reason="PodsReadyTimeout", cause="WaitForStart", podCause="exit 3: boom"), [], True),
        (job(), after(reason="Preempted", cause="for priority 1 of ClusterQueue a"), [], True),
        (job(), workload(status={"accumulatedPastExecutionTimeSeconds": 30}), [], True),
    ],
    ids=[
        "no node",
        "no image",
        "its container is created",
        "runs and is not ready",
        "was ready",
        "no such program",
        "a program failed",
        "failed pods that are gone",
        "ready",
        "an attempt without a node",
        "an attempt without a program",
        "an attempt that failed",
        "preempted",
        "runs of another queue manager",
    ],
)
def test_a_job_has_run_once_a_pod_has_started(its: Job, of: Workload, pods: list[Pod], run: bool) -> None:
    assert has_run(its, of, pods, job_cause(its, of, pods)) is run


def test_of_several_pods_one_may_have_found_a_node() -> None:
    timeout = after(reason="PodsReadyTimeout", cause="Unschedulable", podCause="0/1 nodes: full")
    its = job(parallelism=2, completions=2)
    assert has_run(its, timeout, [], job_cause(its, timeout, []))


def test_tables_show_no_run_of_a_job_whose_pods_never_started() -> None:
    its, of, pods = job(**STARTING), workload(conditions=admitted(10)), [pod(unscheduled=True)]
    row = job_row(its, of, at(100), None, pods)
    assert (row.waited_seconds, row.ran_seconds, ps.time(row)) == (10, 90, "1m40s wait")
    (ran,) = [column for column in columns_of("wide", ps.COLUMNS) if column.heading == "RAN"]
    assert ran.cell(row) == "-"
    view = job_view(its, of, pods, [], PredictionContext(), at(100))
    assert _times(view) == "waited 10s, held quota 1m30s, and no container has started"
    runs = job_row(its, of, at(100), None, [pod(phase="Running")])
    assert (ps.time(runs), ran.cell(runs)) == ("1m30s run", "1m30s")

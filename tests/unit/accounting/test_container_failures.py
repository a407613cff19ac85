"""Which failures of containers that are started again become steps of the history."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from job_controller.model import Pod
from job_controller.times import timestamp
from queue_manager.accounting.record_types import StepKind, StepRecord
from queue_manager.accounting.step_reading import pod_records
from tests.unit.accounting.history_samples import at

NOW = at(1000)
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1", "controller": True}


def container(restarts: int, code: int = 3, seconds: float = 40, reason: str = "Error") -> dict[str, Any]:
    """A container that runs again after this end of it; it has not ended if `restarts` is 0."""
    end = {"exitCode": code, "reason": reason, "message": "boom", "finishedAt": timestamp(at(seconds))}
    return {"name": "main", "restartCount": restarts, "lastState": {"terminated": end} if restarts else {}}


def pod(*containers: dict[str, Any], owner: dict[str, Any] = OWNER) -> Pod:
    meta = {"name": "train-x1", "namespace": "team", "uid": "p1", "ownerReferences": [owner]}
    status = {"phase": "Running", "containerStatuses": containers}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "node-1"}, "status": status}, Pod)


def steps(old: Pod | None, new: Pod | None) -> list[StepRecord]:
    found = list(pod_records(old, new, NOW))
    assert all(isinstance(record, StepRecord) for record in found)
    return [record for record in found if isinstance(record, StepRecord)]


def test_each_restart_has_a_step_with_the_failure_before_it() -> None:
    [first] = steps(pod(container(0)), pod(container(1)))
    assert (first.job_uid, first.kind, first.at) == ("j1", StepKind.CONTAINER_FAILED, at(40))
    assert first.message == "train-x1 on node-1: exit 3: boom (restart 1)"
    [second] = steps(pod(container(1)), pod(container(2, 4, 70)))
    assert (second.at, second.message) == (at(70), "train-x1 on node-1: exit 4: boom (restart 2)")
    assert first.key != second.key


def test_a_state_that_is_read_again_has_the_same_step() -> None:
    crashed = pod(container(2))
    assert steps(crashed, crashed) == []
    assert [step.key for step in steps(None, crashed)] == [step.key for step in steps(pod(container(1)), crashed)]


def test_of_two_containers_the_last_failure_counts() -> None:
    [step] = steps(pod(container(1, seconds=40), container(0)), pod(container(1, seconds=40), container(1, 7, 90)))
    assert (step.at, step.message) == (at(90), "train-x1 on node-1: exit 7: boom (restart 2)")


def test_a_restart_whose_end_comes_later_has_its_step_then() -> None:
    without_end = pod({**container(1), "lastState": {}})
    assert steps(pod(container(0)), without_end) == []
    assert len(steps(without_end, pod(container(1)))) == 1


@pytest.mark.parametrize(
    ("code", "reason"), [(0, "Completed"), (143, "NodeShutdown")], ids=["no failure", "the node was stopped"]
)
def test_another_end_before_a_restart_is_no_step(code: int, reason: str) -> None:
    assert steps(pod(container(0)), pod(container(1, code, reason=reason))) == []


def test_a_pod_of_no_job_has_no_steps() -> None:
    assert steps(pod(container(0)), pod(container(1), owner={**OWNER, "kind": "ReplicaSet"})) == []


def test_a_pod_that_fails_for_long_has_few_steps() -> None:
    states = [pod(container(restarts, seconds=restarts)) for restarts in range(1001)]
    found = [step for old, new in pairwise(states) for step in steps(old, new)]
    assert [step.occurrence for step in found] == [*range(1, 11), 20, 40, 80, 160, 320, 640]
    assert found[-1].message == "train-x1 on node-1: exit 3: boom (restart 640)"


def test_the_end_of_a_pod_comes_beside_its_last_restart() -> None:
    ended = pod(container(1))
    ended = msgspec.structs.replace(ended, status=msgspec.structs.replace(ended.status, phase="Failed"))
    assert [type(record).__name__ for record in pod_records(pod(container(0)), ended, NOW)] == [
        "StepRecord",
        "PodRecord",
    ]

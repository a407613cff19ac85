"""Findings about Jobs that preempt others and never get ready."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.messages import preempted
from queue_manager.api.types import Workload
from queue_manager.visibility.diagnosis.preemption_rules import repeated_preemptions
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from tests.unit.visibility.build import at, cond, wire, workload

BY_HIGH = preempted("uid-w-high", "uid-high", "InClusterQueue", "/cq", "/cq")


def attempt(cause: str = "Unschedulable", reason: str = "PodsReadyTimeout") -> dict[str, Any]:
    return {
        "start": wire(0),
        "end": wire(30),
        "reason": reason,
        "cause": cause,
        "podCause": "0/1 nodes: Insufficient cpu",
    }


def high(*attempts: dict[str, Any], **more: Any) -> Workload:
    return workload("high", status={"requeueHistory": {"attempts": list(attempts)}}, **more)


LOW = workload("low", conditions=[cond("Preempted", message=BY_HIGH)])
READMITTED = workload("back", conditions=[cond("Preempted", "False", message=f"Previously: {BY_HIGH}")])


def found(*workloads: Workload) -> list[str]:
    return [one.sentence for one in repeated_preemptions(ClusterSnapshot(now=at(100), workloads=workloads))]


def test_a_preempting_job_that_never_gets_ready_is_named_with_its_victims() -> None:
    [problem] = repeated_preemptions(
        ClusterSnapshot(now=at(100), workloads=[high(attempt(), attempt()), LOW, READMITTED])
    )
    assert (problem.code, problem.place) == ("RepeatedPreemption", "job/high -n default")
    assert problem.sentence == (
        "Job default/high preempts others (2, such as default/back), and its pods were not ready in time in any of "
        "its 2 attempts: 0/1 nodes: Insufficient cpu."
    )
    assert problem.command == "sluice explain default/high; sluice deactivate default/high"


@pytest.mark.parametrize(
    "preemptor",
    [
        high(attempt()),
        high(attempt(), attempt("WaitForRecovery")),
        high(attempt(), attempt("", "Preempted")),
        high(attempt(), attempt(), conditions=[cond("Finished")]),
    ],
    ids=["one attempt", "it was ready", "it was preempted itself", "it has finished"],
)
def test_a_preemptor_that_may_get_ready_is_no_finding(preemptor: Workload) -> None:
    assert found(preemptor, LOW) == []


def test_a_job_that_preempted_no_other_is_no_finding() -> None:
    assert found(high(attempt(), attempt()), workload("low")) == []

"""What people see of a running Job of which an index has failed for good."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from queue_manager.cli.show import render
from queue_manager.visibility.job_causes import job_cause
from queue_manager.visibility.prediction_types import Prediction
from queue_manager.visibility.predictions import PredictionContext
from queue_manager.visibility.show_record import job_view
from tests.unit.visibility.build import admitted, at, job, pod, workload
from tests.unit.visibility.test_explain_record import explained, holding

INDEXED = {"completions": 20, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
RUNNING = {"suspend": False, **INDEXED}
ALL_READY = {"active": 2, "ready": 2, "failed": 2, "failedIndexes": "1"}
PODS = [
    pod("j-0", index=0, ready=True),
    pod("j-1-a", "Failed", index=1, exit=4, ended=5),
    pod("j-1-b", "Failed", index=1, exit=3, ended=9),
    pod("j-2", "Failed", index=2, exit=7, ended=20),
]


@pytest.mark.parametrize(
    ("failed", "pods", "cause"),
    [
        ("1", PODS, "index 1 failed: exit 3"),
        ("1-2", PODS, "indexes 1,2 failed, one with exit 7"),
        ("0,2,4,6,8,10,12,14,16", PODS, "9 indexes failed, one with exit 7"),
        ("1", PODS[:1], "index 1 failed"),
        ("", PODS, ""),
    ],
    ids=["the newest of its failures", "of several the newest", "long list", "its pods are gone", "is tried again"],
)
def test_an_index_that_has_failed_for_good_is_the_cause(failed: str, pods: list[Any], cause: str) -> None:
    its = job(**RUNNING, status={**ALL_READY, "failedIndexes": failed})
    assert job_cause(its, workload(conditions=admitted()), pods) == cause


def test_an_index_does_not_count_once_the_job_is_suspended() -> None:
    its = job(**{**RUNNING, "suspend": True}, status=ALL_READY)
    assert job_cause(its, workload(), PODS) == ""


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({}, "the Job fails when all other indexes have ended: index 1 failed"),
        (
            {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
            "the Job ends when all its pods have succeeded (0 of 20 pods have)",
        ),
    ],
)
def test_a_job_with_a_failed_index_fails_unless_it_has_a_success_policy(more: dict[str, Any], what: str) -> None:
    its = job(**RUNNING, **more, status=ALL_READY)
    view = job_view(its, holding("j", "1"), PODS, [], PredictionContext(), at(60))
    assert view.next[-1] == Prediction(at=None, what=what)


def test_explain_names_an_index_that_has_failed_for_good() -> None:
    found = explained(job(**RUNNING, status=ALL_READY), holding("j", "1"))
    assert found.sentence == "It runs, although index 1 failed for good."


@pytest.mark.parametrize(("attempts", "are_shown"), [([], True), ([{"reason": "PodsReadyTimeout"}], False)])
def test_indexes_that_an_eviction_has_reset_are_not_shown(attempts: list[Any], are_shown: bool) -> None:
    its = job(**{**RUNNING, "suspend": True})
    record = workload(status={"requeueHistory": {"attempts": attempts}})
    console = Console(record=True, file=StringIO())
    console.print(render(job_view(its, record, [], [], PredictionContext(), at(60)), at(60)))
    assert ("INDEXES" in console.export_text()) == are_shown

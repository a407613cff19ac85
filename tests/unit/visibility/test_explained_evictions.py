"""What `explain` says to a Job that is being stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from tests.unit.visibility.build import ADMISSION, admitted, cluster_queue, cond, job, local_queue, wire, workload
from tests.unit.visibility.test_explain_record import explained

DRAINED = cluster_queue(stopPolicy="HoldAndDrain", namespaceSelector={})
OPEN = cluster_queue(namespaceSelector={})
STOPS = "It was evicted, and its pods are being stopped; then it is pending again."


@pytest.mark.parametrize(
    ("reason", "around", "rest", "change", "command"),
    [
        (
            "ClusterQueueStopped",
            {"above": DRAINED},
            " ClusterQueue cq is drained (sluice release cq/cq).",
            "its last pod has stopped, and the queue is released",
            "sluice release cq/cq",
        ),
        (
            "LocalQueueStopped",
            {"above": OPEN, "local": local_queue(stop="HoldAndDrain")},
            " LocalQueue q is drained (sluice release q).",
            "its last pod has stopped, and the queue is released",
            "sluice release q",
        ),
        (
            "ClusterQueueStopped",
            {"above": OPEN},  # it was released meanwhile
            "",
            "its last pod has stopped, and its queue admits it again",
            "sluice show j",
        ),
    ],
    ids=["drained", "drained by its LocalQueue", "released since"],
)
def test_a_drained_job_waits_for_the_release_of_its_queue(
    reason: str, around: dict[str, Any], rest: str, change: str, command: str
) -> None:
    stopping = workload(conditions=[*admitted(), cond("Evicted", reason=reason)], status={"admission": ADMISSION})
    found = explained(job(), stopping, **around)
    assert (found.code, found.sentence) == ("WAIT/Evicted", f"{STOPS}{rest}")
    assert (found.changes, found.next_command) == ([change], command)


def test_a_drained_job_in_backoff_needs_three_things() -> None:
    status = {"admission": ADMISSION, "requeueState": {"count": 1, "requeueAt": wire(119)}}
    stopping = workload(conditions=[*admitted(), cond("Evicted", reason="PodsReadyTimeout")], status=status)
    found = explained(job(), stopping, above=DRAINED)
    assert found.changes == ["its last pod has stopped, the backoff ends, and the queue is released"]


@pytest.mark.parametrize(
    ("conditions", "code", "sentence"),
    [
        (
            [cond("QuotaReserved", "False")],
            "WAIT/Backoff",
            "It was evicted, and is deactivated instead of a retry",
        ),
        (admitted(), "WAIT/Evicted", "It was evicted, and its pods are being stopped; then it is deactivated"),
    ],
    ids=["backs off", "stops"],
)
def test_a_job_whose_backoff_ends_after_give_up_after_is_promised_no_retry(
    conditions: list[Any], code: str, sentence: str
) -> None:
    settings = WorkloadSettings(pods_ready=PodsReadySettings(timeout=30, give_up_after=60))
    status = {
        "requeueState": {"count": 1, "requeueAt": wire(119)},
        "requeueHistory": {"since": wire(20), "attempts": []},
    }
    if code == "WAIT/Evicted":
        status["admission"] = ADMISSION
    not_ready = cond("PodsReady", "False", seconds=20)
    its = workload(conditions=[*conditions, not_ready, cond("Evicted", reason="PodsReadyTimeout")], status=status)
    found = explained(job(), its, settings=settings)
    assert (found.code, found.changes) == (code, ["an operator reactivates it after that"])
    assert found.sentence == f"{sentence}: its pods were not ready for too long (giveUpAfter)."
    patient = replace(settings, pods_ready=PodsReadySettings(timeout=30, give_up_after=600))
    assert "it is pending again" in explained(job(), its, settings=patient).sentence

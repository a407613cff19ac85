"""What a new process adds to the history because the last one ended before it was written."""

from __future__ import annotations

import pytest

from queue_manager.accounting.missed_steps import MISSED, missed_steps
from queue_manager.accounting.record_types import StepKind, StepRecord
from queue_manager.api.types import Workload
from tests.unit.accounting.history_samples import at
from tests.unit.accounting.test_step_reading import RUNNING, condition, workload

HELD = workload(condition("QuotaReserved", False, 30, "Suspended", "it is stopped"), version=7)
FREE = workload(condition("QuotaReserved", False, 30, "WaitingForQuota"), version=8)
EVICTED = (condition("QuotaReserved", False, 25), condition("Evicted", True, 20, "PodsReadyTimeout"))
INACTIVE = workload(*EVICTED, evictions=1, active=False, version=9)
REACTIVATED = workload(*EVICTED, condition("Requeued", True, 40, "Reactivated"), evictions=1, version=10)


def step_of(kind: StepKind, seconds: float, occurrence: int = 1, uid: str = "w1") -> StepRecord:
    return StepRecord(job_uid="j1", uid=uid, attempt=1, kind=kind, at=at(seconds), occurrence=occurrence)


WAS_HELD = [step_of(StepKind.HELD, 5)]
WAS_RESUMED = [*WAS_HELD, step_of(StepKind.RESUMED, 5, 2)]
DEACTIVATED_WHILE_HELD = workload(
    condition("QuotaReserved", False, 25, "Deactivated"), condition("Evicted", True, 20, "Deactivated"), active=False
)
WAS_DEACTIVATED = [step_of(StepKind.DEACTIVATED, 21)]


@pytest.mark.parametrize(
    ("first", "stored", "missed"),
    [
        (RUNNING, WAS_HELD, [("Resumed", 10)]),
        (FREE, WAS_HELD, [("Resumed", 1000)]),
        (HELD, [], [("Held", 30)]),
        (HELD, WAS_RESUMED, [("Held", 30)]),
        (INACTIVE, [], [("Deactivated", 1000)]),
        (REACTIVATED, WAS_DEACTIVATED, [("Reactivated", 40)]),
        (HELD, WAS_HELD, []),
        (RUNNING, WAS_RESUMED, []),
        (INACTIVE, WAS_DEACTIVATED, []),
        (DEACTIVATED_WHILE_HELD, WAS_HELD, []),
        (RUNNING, [*WAS_HELD, *WAS_DEACTIVATED, step_of(StepKind.REACTIVATED, 22, 3)], []),
        (RUNNING, [step_of(StepKind.HELD, 5, uid="another")], []),
    ],
    ids=[
        "resumed and admitted",
        "resumed",
        "held",
        "held again",
        "deactivated",
        "reactivated",
        "still held",
        "nothing is missing",
        "still inactive",
        "deactivated while held",
        "deactivated while held, reactivated and admitted",
        "the hold of another Workload",
    ],
)
def test_a_step_without_a_trace_follows_from_the_last_one_in_the_store(
    first: Workload, stored: list[StepRecord], missed: list[tuple[str, float]]
) -> None:
    found = list(missed_steps(first, stored, at(1000)))
    assert [(s.kind, (s.at - at(0)).total_seconds()) for s in found] == missed
    told = {"Held": "it is stopped", "Resumed": MISSED, "Deactivated": MISSED, "Reactivated": MISSED}
    assert [s.message for s in found] == [told[s.kind] for s in found]
    again = list(missed_steps(first, [*stored, *found], at(2000)))
    assert again == []

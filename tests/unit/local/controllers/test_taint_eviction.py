"""When pods leave a node with NoExecute taints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from job_controller.times import WaitStart
from queue_manager.local.controllers.taint_eviction import Tainted, evicted_at, no_execute

T0 = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = {"key": "broken", "value": "yes", "effect": "NoExecute"}
TOLERATES = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def since(taint: dict[str, Any], seconds: float) -> Tainted:
    return Tainted(taint, WaitStart(at(seconds), at(seconds)))


@pytest.mark.parametrize(
    ("tolerations", "bound", "due"),
    [
        ([], 0, 5),
        ([TOLERATES], 0, None),
        ([TOLERATES | {"tolerationSeconds": 10}], 0, 15),
        ([TOLERATES | {"tolerationSeconds": 10}], 60, 70),
        ([TOLERATES | {"tolerationSeconds": 0}], 0, 5),
        ([TOLERATES | {"tolerationSeconds": -3}], 0, 5),
        ([TOLERATES | {"tolerationSeconds": 10}, TOLERATES], 0, 15),
        ([TOLERATES | {"tolerationSeconds": 2**63 - 1}], 0, None),
        ([TOLERATES | {"effect": "NoSchedule"}], 0, 5),
    ],
    ids=[
        "none",
        "forever",
        "for a time",
        "bound later",
        "0 s",
        "less than 0 s",
        "the first counts",
        "ages",
        "other effect",
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates(tolerations: list[Any], bound: float, due: float | None) -> None:
    assert evicted_at(tolerations, [since(BROKEN, 5)], at(bound)) == (None if due is None else at(due))


def test_the_earliest_untolerated_taint_counts() -> None:
    other = {"key": "other", "effect": "NoExecute"}
    tolerations = [
        TOLERATES | {"tolerationSeconds": 100},
        {"key": "other", "operator": "Exists", "tolerationSeconds": 30},
    ]
    assert evicted_at(tolerations, [since(BROKEN, 0), since(other, 50)], at(0)) == at(80)


def test_a_taint_counts_from_its_time_or_from_when_it_was_first_seen() -> None:
    timed = BROKEN | {"timeAdded": "2026-01-01T00:00:07Z"}
    assert no_execute([timed], [], at(90)) == [since(timed, 7)]
    first = no_execute([BROKEN, {"key": "a", "effect": "NoSchedule"}], [], at(10))
    assert no_execute([BROKEN], first, at(90)) == [since(BROKEN, 10)]


@pytest.mark.parametrize("timed", [{}, {"timeAdded": "2026-01-02T00:00:00Z"}], ids=["first seen", "timeAdded"])
def test_a_taint_counts_from_now_when_the_clock_was_set_back(timed: dict[str, Any]) -> None:
    before = no_execute([BROKEN | timed], [], at(86_400))
    (back,) = no_execute([BROKEN | timed], before, at(0))
    assert back.start.effective == at(0)
    assert no_execute([BROKEN | timed], [back], at(30)) == [back]

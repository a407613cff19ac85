"""What happens to each Workload of Kueue when Sluice takes over."""

from __future__ import annotations

import pytest

from queue_manager.adoption.workload_fates import MEANING, Fate, count_fates, fate
from tests.unit.visibility.build import Tree, cond, job, workload

RESERVED, ADMITTED, EVICTED, FINISHED = cond("QuotaReserved"), cond("Admitted"), cond("Evicted"), cond("Finished")
POD_OWNER = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]


@pytest.mark.parametrize(
    ("conditions", "active", "owners", "expected"),
    [
        ([], True, None, Fate.REQUEUED),
        ([cond("QuotaReserved", "False")], True, None, Fate.REQUEUED),
        ([EVICTED, cond("QuotaReserved", "False")], True, None, Fate.REQUEUED),
        ([RESERVED], True, None, Fate.KEPT),
        ([RESERVED, ADMITTED], True, None, Fate.KEPT),
        ([RESERVED, ADMITTED, EVICTED], True, None, Fate.LEAVING),
        ([RESERVED, ADMITTED], False, None, Fate.LEAVING),
        ([EVICTED], False, None, Fate.INACTIVE),
        ([RESERVED, ADMITTED, FINISHED], True, None, Fate.FINISHED),
        ([RESERVED, ADMITTED], True, POD_OWNER, Fate.FOREIGN),
        ([RESERVED, FINISHED], True, POD_OWNER, Fate.FINISHED),
        ([], True, POD_OWNER, Fate.UNSTARTED),
        ([], False, POD_OWNER, Fate.INACTIVE),
    ],
)
def test_the_fate_follows_the_table(
    conditions: list[Tree], active: bool, owners: list[Tree] | None, expected: Fate
) -> None:
    more = {"owners": owners} if owners is not None else {}
    assert fate(workload("j", conditions=conditions, active=active, **more)) == expected


def test_a_workload_with_quota_that_its_job_does_not_match_is_replaced() -> None:
    for conditions, expected in (([RESERVED, ADMITTED], Fate.REPLACED), ([], Fate.REQUEUED)):
        found = workload("j", conditions=conditions)
        assert fate(found, job("j", suspend=False, requests={"cpu": "2"})) == expected
    ended = job("j", suspend=False, requests={"cpu": "2"}, conditions=[cond("Complete")])
    assert fate(workload("j", conditions=[RESERVED]), ended) == Fate.KEPT
    assert fate(workload("j", conditions=[RESERVED]), job("j", suspend=False)) == Fate.KEPT


def test_fates_are_counted_in_the_order_in_which_they_are_shown() -> None:
    workloads = [workload("a"), workload("b", conditions=[RESERVED]), workload("c")]
    assert list(count_fates(workloads).items()) == [(Fate.KEPT, 1), (Fate.REQUEUED, 2)]


def test_each_fate_has_a_meaning() -> None:
    assert set(MEANING) == set(Fate)

"""Texts of conditions and records."""

from __future__ import annotations

import pytest

from queue_manager.api import reasons
from queue_manager.api.messages import MAX_CAUSE, needed_by


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (reasons.IN_CLUSTER_QUEUE, "for priority 7 of ClusterQueue a"),
        (reasons.IN_COHORT_RECLAMATION, "for ClusterQueue a, to take back quota that b had borrowed"),
        (reasons.IN_COHORT_FAIR_SHARING, "for ClusterQueue a, to give it its fair share of quota that b had borrowed"),
        (
            reasons.IN_COHORT_RECLAIM_WHILE_BORROWING,
            "for priority 7 of ClusterQueue a, which needed quota that b had borrowed",
        ),
    ],
)
def test_a_victim_of_its_cohort_is_told_whose_quota_it_had(reason: str, says: str) -> None:
    assert needed_by("a", 7, reason, "b") == says
    long = needed_by("a" * 253, -(2**31), reason, "b" * 253)
    assert long.startswith("for priority -2147483648 of ClusterQueue aaa")
    assert len(long) <= MAX_CAUSE

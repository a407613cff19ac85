"""When released quota makes refused Workloads eligible again."""

from __future__ import annotations

import pytest

from queue_manager.scheduler.released_quota import EARLY_SECONDS, PAUSE_SECONDS, ReleasedQuota
from queue_manager.scheduling.quota_tree import QuotaNode

ONE, OTHER = QuotaNode("one"), QuotaNode("other")


def test_the_first_release_of_a_cohort_is_tried_at_once_and_others_after_a_pause() -> None:
    released = ReleasedQuota()
    assert released.add("a", ONE, 10.0) == 0.0
    assert released.take(10.0) == ["a"]
    assert not released.is_held(ONE), "nothing waits"
    assert released.add("a", ONE, 10.0 + PAUSE_SECONDS / 4) == pytest.approx(PAUSE_SECONDS * 3 / 4)
    assert released.add("b", ONE, 10.0 + PAUSE_SECONDS / 2) is None, "it is tried with the one before"
    assert released.is_held(ONE)
    assert released.take(10.0 + PAUSE_SECONDS / 2) == []
    assert released.take(10.0 + PAUSE_SECONDS - EARLY_SECONDS / 2) == ["a", "b"], "a timer may be early"
    assert not released.is_held(ONE)


def test_cohorts_do_not_wait_for_one_another() -> None:
    released = ReleasedQuota()
    released.add("a", ONE, 10.0)
    released.take(10.0)
    released.add("a", ONE, 10.01)
    assert released.add("c", OTHER, 10.01) == 0.0
    assert released.take(10.01) == ["c"]
    assert (released.is_held(ONE), released.is_held(OTHER)) == (True, False)

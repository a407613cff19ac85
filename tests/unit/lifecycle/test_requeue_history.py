"""What recorded attempts show after a restart: how often a Workload has preempted which others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from queue_manager.api.types import Workload
from queue_manager.lifecycle.requeue_history import preemptions

START = datetime(2026, 1, 1, tzinfo=UTC)
Tree = dict[str, Any]


def attempt(minute: int, reason: str = "Preempted", preemptor: str = "") -> Tree:
    """One that ended at this minute."""
    end = START + timedelta(minutes=minute)
    return {"end": end.strftime("%Y-%m-%dT%H:%M:%SZ"), "reason": reason, "preemptor": preemptor}


def workload(uid: str, *attempts: Tree, priority: int | None = None) -> Workload:
    metadata, spec = {"name": uid, "namespace": "ns", "uid": uid}, {"priority": priority}
    status = {"requeueHistory": {"attempts": attempts}} if attempts else {}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Workload)


def test_preemptions_are_counted_by_preemptor_and_victim() -> None:
    victim = workload("v", attempt(1, preemptor="p"), attempt(2, preemptor="q"), attempt(3, preemptor="p"))
    other = workload("o", attempt(1, preemptor="q"), attempt(5, "PodsReadyTimeout"))
    assert preemptions([victim, other, workload("p"), workload("q")]) == {"p": {"v": 2}, "q": {"v": 1, "o": 1}}


def test_a_deleted_preemptor_and_a_preemption_that_names_none_do_not_count() -> None:
    assert preemptions([workload("v", attempt(1, preemptor="deleted"), attempt(2))]) == {}


@pytest.mark.parametrize(("priority", "count"), [(3, {"p": {"v": 1}}), (2, {})], ids=["equal", "lower"])
def test_victims_of_a_lower_priority_do_not_count(priority: int, count: Tree) -> None:
    victim = workload("v", attempt(1, preemptor="p"), priority=priority)
    assert preemptions([victim, workload("p", priority=3)]) == count


@pytest.mark.parametrize(
    ("reason", "count"), [("PodsReadyTimeout", {"v": 1}), ("Preempted", {"v": 2})], ids=["another reason", "preempted"]
)
def test_what_was_before_the_preemptor_was_stopped_counts_only_if_it_was_preempted(reason: str, count: Tree) -> None:
    victim = workload("v", attempt(1, preemptor="p"), attempt(5, preemptor="p"))
    assert preemptions([victim, workload("p", attempt(3, reason))]) == {"p": count}

"""What recorded attempts show after a restart: how often a Workload has preempted which others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from queue_manager.api.types import Workload, WorkloadStatus
from queue_manager.lifecycle.requeue_history import preemptions, record, spared
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.scheduling.quota_state import MOST_RECLAIMS

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


def spares(uid: str, *others: str) -> Workload:
    status = {"requeueHistory": {"attempts": [attempt(1)], "spared": others}}
    return msgspec.structs.replace(workload(uid), status=msgspec.convert(status, WorkloadStatus))


def test_one_that_is_spared_counts_as_preempted_as_often_as_allowed() -> None:
    victim = workload("v", attempt(1, preemptor="p"))
    assert preemptions([victim, spares("p", "v", "gone")]) == {"p": {"v": MOST_RECLAIMS, "gone": MOST_RECLAIMS}}


@pytest.mark.parametrize(
    ("reason", "left"), [("PodsReadyTimeout", ()), ("Preempted", ("v",))], ids=["another reason", "preempted"]
)
def test_a_stop_for_another_reason_than_a_preemption_ends_what_is_spared(reason: str, left: tuple[str, ...]) -> None:
    draft = Draft(spares("p", "v"), START)
    record(draft, reason, "")
    assert spared(draft.workload) == left
    patch = draft.patch()["status"].get("requeueHistory", {})
    assert patch.get("spared", "unchanged") == ("unchanged" if left else None)
    assert len(patch.get("attempts", ())) == (0 if left else 1)

"""Which Lease and Deployment show that no manager runs, and what an explanation says then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from job_controller.model import Job, Key
from queue_manager.api.types import Workload
from queue_manager.visibility.absent_manager import NOT_SEEN, ONE_RUNS, is_in_doubt, without_manager
from queue_manager.visibility.dominant_reason import Surroundings
from queue_manager.visibility.explain_record import Explanation, explain
from queue_manager.visibility.manager_presence import DeploymentFacts, LeaseFacts, Presence, notice, presence
from tests.unit.visibility.build import ADMISSION, admitted, at, cluster_queue, job, local_queue, workload

NOW = at(1000)
ABSENT = Presence("no manager holds Lease ns/l", command="kubectl get lease l -n ns")
PERHAPS = Presence("no manager holds Lease ns/l", is_certain=False, command="kubectl get lease l -n ns")
RUNS = "`sluice manager` or `sluice up` runs"


def lease(holder: str, age: float, name: str = "ns/l") -> LeaseFacts:
    return LeaseFacts(name, holder, NOW - timedelta(seconds=age), 15)


def deployment(ready: int) -> DeploymentFacts:
    return DeploymentFacts(Key("ns", "manager"), 2, ready)


@pytest.mark.parametrize(
    ("leases", "found", "absent"),
    [
        ([], None, ""),
        ([], deployment(1), ""),
        ([], deployment(0), "no pod of deployment manager -n ns is ready, and none has held a Lease"),
        ([lease("m", 60)], None, ""),
        ([lease("m", 61)], None, "m renewed Lease ns/l 61 s ago as the last manager"),
        ([lease("", 1)], None, "no manager holds Lease ns/l"),
        ([lease("", 9), lease("m", 1, "b/l")], None, ""),
        ([lease("old", 900), lease("m", 100, "b/l")], None, "m renewed Lease b/l 100 s ago as the last manager"),
        ([LeaseFacts("ns/l", "m", None, 15)], None, "no manager holds Lease ns/l"),
    ],
)
def test_no_manager_runs_if_no_lease_that_may_be_its_is_renewed(
    leases: list[LeaseFacts], found: DeploymentFacts | None, absent: str
) -> None:
    seen = presence(leases, found, NOW, all_read=True)
    assert (seen.absent, seen.is_certain, bool(seen.command)) == (absent, True, bool(absent))
    assert notice(seen) == (f"no manager runs: {absent}" if absent else "")


def test_what_another_lease_may_show_is_not_certain() -> None:
    seen = presence([lease("", 1)], None, NOW, all_read=False)
    assert notice(seen) == "perhaps no manager runs: no manager holds Lease ns/l"
    assert presence([], None, NOW, all_read=False) == Presence(is_certain=False)


def explained(j: Job, w: Workload | None) -> Explanation:
    return explain(j, w, Surroundings(local=local_queue(), above=cluster_queue(namespaceSelector={})), NOW)


WAITING = explained(job(), workload())
OVERDUE = explained(job(), None)
STUCK = explained(job(), workload(conditions=admitted(), status={"admission": ADMISSION}))


@pytest.mark.parametrize(
    ("found", "seen", "code", "sentence"),
    [
        (WAITING, ABSENT, "FAULT/ControllerStale", "No manager runs, so nothing is admitted or started: no"),
        (OVERDUE, ABSENT, "FAULT/ControllerStale", "No manager runs, so nothing is admitted or started: no"),
        (STUCK, ABSENT, "FAULT/AdmittedNotRunning", "No manager runs, so nothing is admitted or started: no"),
        (WAITING, PERHAPS, "WAIT/PendingEvaluation", f"{WAITING.sentence} Perhaps no manager runs: no manager holds"),
        (OVERDUE, PERHAPS, "FAULT/ControllerStale", f"{OVERDUE.sentence} Perhaps no manager runs: no manager holds"),
    ],
)
def test_the_absence_of_a_manager_comes_first(found: Explanation, seen: Presence, code: str, sentence: str) -> None:
    said = without_manager(found, seen)
    assert (said.code, said.sentence[: len(sentence)]) == (code, sentence)
    assert said.next_command == "kubectl get lease l -n ns"
    assert said.changes[0] == ONE_RUNS
    assert not any(change.startswith(RUNS) for change in said.changes)


def test_a_fault_says_that_the_lease_could_not_be_read() -> None:
    forbidden = Presence(is_certain=False)
    assert without_manager(OVERDUE, forbidden).not_seen == [NOT_SEEN]
    assert without_manager(WAITING, forbidden) == WAITING
    assert without_manager(OVERDUE, Presence()) == OVERDUE


def test_what_needs_no_manager_is_not_in_doubt() -> None:
    held = explained(job(), workload(active=False))
    assert held.code == "HOLD/Deactivated"
    assert not is_in_doubt(held)
    assert is_in_doubt(WAITING)
    assert is_in_doubt(OVERDUE)

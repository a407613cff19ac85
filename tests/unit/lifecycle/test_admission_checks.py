"""What the states of admission checks do to a Workload."""

import pytest

from queue_manager.lifecycle import admission_checks, transitions
from queue_manager.lifecycle.status_draft import Draft, WorkloadEvent
from tests.unit.queueing.builders import at, condition, wire, workload

RESERVED = condition("QuotaReserved", "True", seconds=10)
UNSATISFIED = condition("Admitted", "False", "UnsatisfiedAdmissionChecks")


def answered(name: str, state: str, **more) -> dict:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": wire(11), **more}


def draft(*answers: dict, conditions=(RESERVED, UNSATISFIED), **status) -> Draft:
    tree = {"admissionChecks": list(answers), "admission": {"clusterQueue": "cq"}, **status}
    return Draft(workload(conditions=conditions, status=tree), at(20))


def states(d: Draft) -> dict[str, str]:
    return {check.name: check.state for check in d.status.admission_checks}


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        (("a", "b"), {"a": "Ready", "b": "Pending"}),
        (("b", "a"), {"b": "Pending", "a": "Ready"}),
        (("b",), {"b": "Pending"}),
        ((), {}),
    ],
)
def test_the_list_has_the_required_checks_and_keeps_their_states(asked, after):
    d = draft(answered("a", "Ready"))
    admission_checks.synchronise(d, asked)
    assert list(states(d).items()) == list(after.items())
    times = {check.name: check.last_transition_time for check in d.status.admission_checks}
    assert times == {name: at(11) if name == "a" else at(20) for name in after}


def test_an_unchanged_list_of_checks_is_not_written():
    d = draft(answered("a", "Pending"))
    admission_checks.synchronise(d, ("a",))
    assert not d.changed


@pytest.mark.parametrize(
    ("given", "conditions", "changed"),
    [
        (("Ready", "Ready"), (RESERVED, UNSATISFIED), {"Admitted": "Admitted"}),
        (("Ready", "Pending"), (RESERVED,), {"Admitted": "UnsatisfiedAdmissionChecks"}),
        (("Retry", "Pending"), (RESERVED, UNSATISFIED), {"Evicted": "AdmissionCheck"}),
        (("Retry", "Rejected"), (RESERVED, UNSATISFIED), {"DeactivationTarget": "AdmissionCheck"}),
        (("Ready", "Retry"), (RESERVED, condition("Admitted", "True")), {"Evicted": "AdmissionCheck"}),
        (("Ready", "Ready"), (RESERVED, condition("Admitted", "True")), {}),
        (("Ready", "Pending"), (RESERVED, condition("Admitted", "True")), {}),
        (("Retry", "Rejected"), (RESERVED, condition("Evicted", "True")), {}),
        (("Retry", "Rejected"), (), {}),
        (("Ready", "Rejected"), (RESERVED, condition("DeactivationTarget", "True", "AdmissionCheck")), {}),
    ],
)
def test_the_states_together_decide(given, conditions, changed):
    d = draft(*(answered(name, state) for name, state in zip("ab", given, strict=True)), conditions=conditions)
    admission_checks.act(d)
    before = {c.type: c for c in d.original.status.conditions}
    assert {c.type: c.reason for c in d.status.conditions if before.get(c.type) != c} == changed
    assert bool(d.events) is bool(changed and "UnsatisfiedAdmissionChecks" not in changed.values())


def test_an_admission_reports_how_long_the_checks_took():
    d = draft(answered("a", "Ready"))
    admission_checks.act(d)
    assert d.events == [
        WorkloadEvent("Normal", "Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 10s")
    ]
    assert d.condition("Admitted").last_transition_time == at(20)


@pytest.mark.parametrize(
    ("state", "given", "event"),
    [
        (
            "Rejected",
            {"a": "no budget"},
            (
                "Warning",
                "AdmissionCheckRejected",
                'Deactivated due to AdmissionCheck in Rejected state: "a" (no budget)',
            ),
        ),
        (
            "Retry",
            {"a": "", "b": "later"},
            (
                "Normal",
                "EvictedDueToAdmissionCheck",
                'Evicted due to AdmissionChecks in Retry state: "a", "b" (later)',
            ),
        ),
    ],
)
def test_rejected_checks_are_named_with_their_messages(state, given, event):
    d = draft(*(answered(name, state, message=message) for name, message in given.items()), answered("c", "Ready"))
    admission_checks.act(d)
    assert d.events == [WorkloadEvent(*event)]


@pytest.mark.parametrize(
    ("asked", "before", "after"),
    [
        ((30, 70), None, {"requeue_at": at(90), "count": None}),
        ((None, 5), {"count": 2}, {"requeue_at": at(25), "count": 2}),
        ((5,), {"count": 2, "requeueAt": wire(99)}, {"requeue_at": at(99), "count": 2}),
        ((90,), {"count": 2, "requeueAt": wire(99)}, {"requeue_at": at(110), "count": 2}),
        ((None, 0), {"count": 2}, {"requeue_at": None, "count": 2}),
    ],
)
def test_a_retry_waits_for_the_longest_request_and_does_not_count(asked, before, after):
    given = [answered(f"c{i}", "Retry", requeueAfterSeconds=seconds) for i, seconds in enumerate(asked)]
    d = draft(*given, requeueState=before)
    admission_checks.act(d)
    assert d.is_true("Evicted")
    state = d.status.requeue_state
    assert {"requeue_at": state.requeue_at, "count": state.count} == after


def test_an_eviction_resets_all_checks_and_counts_their_retries():
    d = draft(
        answered("a", "Retry", retryCount=1, requeueAfterSeconds=5),
        answered("b", "Ready", retryCount=3, message="fine"),
        answered("c", "Pending", message="working on it"),
    )
    transitions.evict(d, "Preempted", "by another")
    written = [(c.name, c.state, c.message, c.retry_count, c.last_transition_time) for c in d.status.admission_checks]
    reset = "Reset to Pending after eviction. Previously: "
    assert written == [
        ("a", "Pending", f"{reset}Retry", 2, at(20)),
        ("b", "Pending", f"{reset}Ready", 3, at(20)),
        ("c", "Pending", "working on it", None, at(11)),
    ]

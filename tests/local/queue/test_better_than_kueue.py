"""Recordings of scenarios in which Kueue is wrong: replayed like the others, and compared with the rules instead.

One test per recording, named after it. The rules are those of queue_manager/BEHAVIOUR.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.messages import EQUIVALENT_MESSAGE
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue import compare
from tests.local.queue.compare import Course
from tests.local.queue.replay import differences, load, play, played

CYCLE = 'Can\'t admit new workloads: Cohort "a" has a cycle in hierarchy: a -> b -> a.'

UNSUSPENDED = "The Job was unsuspended while its Workload was not admitted, and is suspended again; the queue starts it"
I07_WARNING = {"events": ([], [("Warning", "PolicyViolation", UNSUSPENDED, "Job/ns/wait")])}
"""The only difference of i07: Kueue says nothing to the user whose start it takes back."""


def reasons(course: Course, job: str, condition: str) -> list[tuple[str, str]]:
    """(status, reason) of every value a condition of the Job's Workload had."""
    values = course.values.get((f"Workload/ns/job-{job}-HASH", f"cond.{condition}"), [])
    return [value if isinstance(value, str) else tuple(value[:2]) for value in values]


def course_of(course: Course, job: str, key: str) -> list[Any]:
    return course.values.get((f"Workload/ns/job-{job}-HASH", key), [])


def starts(course: Course, job: str) -> int:
    return course.values[f"Job/ns/{job}", "spec.suspend"].count(False)


def admitted_at_the_end(course: Course, job: str) -> bool:
    return course.end[f"Workload/ns/job-{job}-HASH"]["cond.Admitted"][0] == "True"


def order_of_starts(trace: str) -> list[str]:
    """Names of Jobs in the order in which they were unsuspended."""
    import msgspec

    suspended: dict[str, bool] = {}
    order = []
    for line in run_virtual(play(load(trace))).history:
        what, resource, data = line.split(b" ", 2)
        if resource == b"jobs.batch" and what != b"DELETED":
            job = msgspec.json.decode(data)
            name, now = job["metadata"]["name"], bool(job["spec"].get("suspend"))
            if suspended.get(name, True) and not now:
                order.append(name)
            suspended[name] = now
    return order


# --- deactivated and brought back --------------------------------------------------------------------------


def test_d01_reactivation_after_the_limit_starts_the_job_again() -> None:
    course = played(load("d01"))
    assert starts(course, "a") == 3
    assert reasons(course, "a", "Requeued")[-1] == ("True", "Reactivated")
    assert "status.requeueState" not in course.end["Workload/ns/job-a-HASH"]


def test_d11_a_reactivation_needs_no_edit_of_a_condition() -> None:
    course = played(load("d11"))
    assert ("True", "Reactivated") in reasons(course, "a", "Requeued")


def test_d07_one_deactivation_per_exceeded_execution_time() -> None:
    course = played(load("d07"))
    assert course_of(course, "a", "spec.active") == [True, False, True]
    assert "cond.DeactivationTarget" not in course.end["Workload/ns/job-a-HASH"]
    assert starts(course, "a") == 2


def test_x02_a_reactivation_is_not_undone() -> None:
    course = played(load("x02"))
    for job in ("a", "b", "c"):
        assert course_of(course, job, "spec.active")[:3] == [True, False, True]
        assert starts(course, job) >= 2


def test_g16_a_rejected_check_can_be_overcome() -> None:
    course = played(load("g16"))
    assert reasons(course, "a", "Requeued")[-1] == ("True", "Reactivated")
    assert reasons(course, "a", "QuotaReserved")[-1] == ("True", "QuotaReserved")


def test_x09_a_rejected_check_can_be_overcome_before_admission() -> None:
    course = played(load("x09"))
    assert reasons(course, "a", "QuotaReserved")[-1] == ("True", "QuotaReserved")


# --- backoff -----------------------------------------------------------------------------------------------


def _backoff_is_kept(name: str) -> None:
    """Only the time that passes between eviction and readmission differs from the recording."""
    assert set(differences(load(name))) == {"Workload/ns/job-a-HASH status.requeueState"}
    states = course_of(played(load(name)), "a", "status.requeueState")
    base = states[0]["wait"]
    assert states[:2] == [{"count": 1, "wait": base}, {"count": 1, "wait": None}]


def test_m02_a_restart_does_not_shorten_the_backoff() -> None:
    _backoff_is_kept("m02")


def test_x22_a_local_queue_that_is_held_and_released_does_not_shorten_the_backoff() -> None:
    _backoff_is_kept("x22")


def test_m01_a_workload_in_backoff_counts_as_pending() -> None:
    assert set(differences(load("m01"))) == {
        "end ClusterQueue/cq status.pendingWorkloads",
        "end LocalQueue/ns/lq status.pendingWorkloads",
    }


def test_x23_a_workload_in_backoff_counts_as_pending() -> None:
    assert set(differences(load("x23"))) == {
        "end ClusterQueue/cq status.pendingWorkloads",
        "end LocalQueue/ns/lq status.pendingWorkloads",
    }


def test_e01_the_next_run_gets_its_full_timeout() -> None:
    course = played(load("e01"))
    states = course_of(course, "a", "status.requeueState")
    assert max(state["count"] for state in states if state != "gone") == 1
    assert ("False", "WaitForRecovery") in reasons(course, "a", "PodsReady")


# --- pods --------------------------------------------------------------------------------------------------


def test_x08_an_index_that_failed_for_good_does_not_make_the_rest_unready() -> None:
    assert reasons(played(load("x08")), "a", "PodsReady") == [("False", "WaitForStart"), ("True", "Started")]


def test_m05_a_job_that_ended_while_the_manager_was_down_was_ready() -> None:
    course = played(load("m05"))
    assert reasons(course, "a", "PodsReady") == [("False", "WaitForStart"), ("True", "Started")]
    assert reasons(course, "a", "Finished") == [("True", "Succeeded")]


# --- order -------------------------------------------------------------------------------------------------


def test_f05_the_head_is_chosen_when_admission_opens() -> None:
    order = order_of_starts("f05")
    assert order[:2] == ["first", "third"]


def test_g02_a_drained_cluster_queue_keeps_its_old_order() -> None:
    order = order_of_starts("g02")
    assert order[:2] == ["run", "run"]


def test_x27_the_drained_older_ones_go_before_a_younger_one() -> None:
    order = order_of_starts("x27")
    assert order == ["one", "two", "one", "two"]


# --- reasons of those that wait ------------------------------------------------------------------------------


def only_adds_the_reason_of_a_bypassed_workload(trace: str) -> bool:
    """Kueue writes no condition for a Workload until it has been tried itself."""
    [(key, (theirs, ours))] = differences(load(trace)).items()
    bypassed = ("False", "WaitingForQuota", EQUIVALENT_MESSAGE)
    return key == "Workload/ns/job-new-HASH cond.QuotaReserved" and ours == [bypassed, *theirs]


def test_b01_a_workload_that_is_passed_over_says_why_it_waits() -> None:
    assert only_adds_the_reason_of_a_bypassed_workload("b01")


def test_b02_an_overtaken_head_does_not_say_that_it_lacks_quota() -> None:
    said = [reason for status, reason in reasons(played(load("b02")), "old", "QuotaReserved") if status == "False"]
    assert said == ["WaitingForQuota", "PendingEvaluation", "WaitingForQuota"]


def test_b03_the_numbers_of_a_refusal_follow_the_quota_that_another_takes() -> None:
    said = course_of(played(load("b03")), "big", "cond.QuotaReserved")
    assert [message.rpartition(", ")[2] for *_, message in said[:2]] == ["1 more needed", "2 more needed"]


def test_b07_a_workload_that_is_passed_over_says_why_it_waits() -> None:
    assert only_adds_the_reason_of_a_bypassed_workload("b07")


# --- queues changed by users -------------------------------------------------------------------------------


def test_i07_the_attempt_of_a_user_to_start_a_job_is_a_warning() -> None:
    assert differences(load("i07")) == I07_WARNING


def test_i13_a_job_that_leaves_its_queue_leaves_no_workload_behind() -> None:
    course = played(load("i13"))
    assert "Workload/ns/job-wait-HASH" not in course.end
    assert ("True", "QuotaReserved") not in reasons(course, "wait", "QuotaReserved")


def test_i14_a_change_of_queue_is_followed_during_the_backoff() -> None:
    course = played(load("i14"))
    assert course.end["Workload/ns/job-a-HASH"]["spec.queueName"] == "lq2"


def test_x13_the_queue_of_a_workload_is_that_of_its_job() -> None:
    course = played(load("x13"))
    assert (
        course.end["Workload/ns/job-a-HASH"]["spec.queueName"]
        == course.end["Job/ns/a"]["labels"]["kueue.x-k8s.io/queue-name"]
    )
    queues = {a["clusterQueue"] for a in course_of(course, "a", "status.admission") if a != "gone"}
    assert queues <= {"cq"}


def test_i15_a_job_whose_quota_was_taken_away_does_not_run_on() -> None:
    """It is stopped and queued again; quota is never counted as free while pods use it
    (queue_manager/BEHAVIOUR.md#q5-no-run-without-admission).
    """
    course = played(load("i15"))
    assert course.values["Job/ns/a", "spec.suspend"] == [True, False, True, False]
    assert admitted_at_the_end(course, "a")


@pytest.mark.parametrize("name", ["g09", "g12"])
def test_no_message_names_a_cluster_queue_with_an_empty_name(name: str) -> None:
    course = played(load(name))
    texts = [value[2] for values in course.values.values() for value in values if isinstance(value, tuple)]
    assert not any("ClusterQueue  " in text for text in texts)


def test_x12_a_cycle_of_cohorts_is_named_and_mended_at_once() -> None:
    course = played(load("x12"))
    broken = ("False", "CohortCycleDetected", CYCLE)
    assert course.values["ClusterQueue/cq", "cond.Active"] == [broken]
    result = run_virtual(play(load("x12")))
    later = compare.played(result.later, result.start)
    assert later.values["ClusterQueue/cq", "cond.Active"] == [broken, ("True", "Ready", "Can admit new workloads")]
    assert later.values["Job/ns/j", "spec.suspend"] == [True, False]


# --- down --------------------------------------------------------------------------------------------------


def test_m07_the_rules_for_jobs_hold_while_the_controllers_are_down() -> None:
    """The embedded API server applies them itself: a Job is accepted, stays suspended, and starts when the controllers
    are back.
    """
    course = played(load("m07"))
    assert course.values["Job/ns/a", "spec.suspend"] == [True, False]
    assert course.end["ClusterQueue/cq2"]["cond.Active"][0] == "True"


# --- a head that can never fit -----------------------------------------------------------------------------


def _only_never_fits_events_are_added(name: str) -> None:
    """The head blocks as recorded; the added Events and the condition report that it can never fit."""
    found = differences(load(name))
    assert set(found) == {"events", "end ClusterQueue/cq cond.Blocked"} or set(found) == {"events"}
    missing, more = found["events"]
    assert missing == []
    assert isinstance(more, list)
    assert {event[1] for event in more} == {"NeverFits"}


def test_x25_a_head_that_exceeds_all_quota_is_reported() -> None:
    _only_never_fits_events_are_added("x25")


def test_x26_a_head_no_flavor_takes_is_reported() -> None:
    _only_never_fits_events_are_added("x26")


# --- preemption --------------------------------------------------------------------------------------------


def test_h08_a_refusal_that_the_next_cycle_corrects_is_not_recorded() -> None:
    found = differences(load("h08"))
    missing, invented = found.pop("events")
    text = "Workload no longer fits after processing another workload"
    assert (missing, invented) == ([("Warning", "WaitingForQuota", text, "Workload/ns/job-a2-HASH")], [])
    assert found == {}

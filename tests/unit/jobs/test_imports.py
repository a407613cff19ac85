"""A Job that runs, and the Workload that `sluice import` made for it: nothing stops the Job before it has its queue."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from queue_manager.jobs import planned_writes
from queue_manager.jobs.decide import decide
from queue_manager.jobs.webhook import SubmissionContext, validate_job_update
from tests.unit.jobs.test_decide import ADMITTED, CONFIRMED, CONTEXT, job, workload
from tests.unit.queueing.builders import condition

MARK = {"labels": {"sluice/imported": "true", "kueue.x-k8s.io/job-uid": "job-uid"}}
OUTSIDE = replace(CONTEXT, managed=False)
EVICTED = condition("Evicted", "True", "Preempted")
QUEUE = "kueue.x-k8s.io/queue-name"


def imported(*conditions, **meta):
    return workload(*conditions, **MARK, **meta)


@pytest.mark.parametrize(
    ("conditions", "meta", "expected"),
    [
        ([], {}, planned_writes.Nothing),
        ([condition("QuotaReserved", "False", "Pending")], {}, planned_writes.Nothing),
        ([*ADMITTED], {}, planned_writes.Nothing),
        ([*ADMITTED, EVICTED], {}, planned_writes.DeleteWorkload),
        ([], {"deletionTimestamp": "2026-01-01T00:00:00Z"}, planned_writes.ReleaseWorkload),
        (ADMITTED, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, planned_writes.ReleaseWorkload),
    ],
)
def test_a_job_without_queue_runs_on(conditions, meta, expected):
    action = decide(job(False, labels={}), [imported(*conditions, **meta)], OUTSIDE)
    assert isinstance(action, expected)


def test_a_deactivated_import_is_taken_back():
    whole = imported()
    inactive = msgspec.structs.replace(whole, spec=msgspec.structs.replace(whole.spec, active=False))
    assert isinstance(decide(job(False, labels={}), [inactive], OUTSIDE), planned_writes.DeleteWorkload)


@pytest.mark.parametrize("conditions", [[], [condition("Admitted", "False", "NoReservation")]])
def test_the_label_may_be_seen_before_the_admission(conditions):
    """The Admitted condition is False once the Workload was refused."""
    assert isinstance(decide(job(False), [imported(*conditions)], CONTEXT), planned_writes.Nothing)


@pytest.mark.parametrize(
    "conditions",
    [
        [condition("Admitted", "False", "NoReservation"), EVICTED],  # it is pending again, and a user unsuspended it
        [*ADMITTED, EVICTED],
    ],
)
def test_an_imported_job_is_stopped_as_any_other_once_it_lost_its_quota(conditions):
    action = decide(job(False), [imported(*conditions)], CONTEXT)
    assert isinstance(action, planned_writes.PatchJob)
    assert action.patch["spec"]["suspend"] is True


def test_a_workload_without_the_mark_does_not_keep_a_job_running():
    assert isinstance(decide(job(False), [workload()], CONTEXT), planned_writes.PatchJob)
    assert isinstance(decide(job(False, labels={}), [workload()], OUTSIDE), planned_writes.PatchJob)


def test_an_import_of_a_job_that_was_suspended_meanwhile_ends():
    stopped = job(True, labels={}, status=CONFIRMED)
    assert isinstance(decide(stopped, [imported()], OUTSIDE), planned_writes.DeleteWorkload)


def submitted(suspend: bool, queue: str = ""):
    labels = {QUEUE: queue} if queue else {}
    return {"metadata": {"labels": labels}, "spec": {"suspend": suspend}}


@pytest.mark.parametrize(
    ("imported_to", "before", "after", "accepted"),
    [
        ("lq", "", "lq", True),
        ("", "", "lq", False),
        ("other", "", "lq", False),
        ("lq", "other", "lq", False),
        ("lq", "lq", "", False),
    ],
)
def test_a_running_job_gets_only_the_queue_of_its_import(imported_to, before, after, accepted):
    context = SubmissionContext(imported_to=imported_to)
    errors = validate_job_update(submitted(False, after), submitted(False, before), context)
    assert (errors == []) is accepted

"""A Job that names a prebuilt Workload takes it over and never edits it."""

import pytest

from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.jobs import planned_writes
from queue_manager.jobs.decide import decide
from queue_manager.jobs.job_situation import JobContext
from queue_manager.lifecycle.status_draft import Draft
from tests.unit.jobs.test_decide import ADMITTED, CONFIRMED, CONTEXT, job, workload
from tests.unit.queueing.builders import at, condition

LABELS = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/prebuilt-workload-name": "mine"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:01Z"}
FINISHED = condition("Finished", "True", "OutOfSync", "The prebuilt workload is out of sync with its user job")


def named(suspend=True, **kwargs) -> Job:
    return job(suspend, labels=LABELS, **kwargs)


def made(*conditions, owner="a", **meta) -> Workload:
    """Its Workload as created by the user; `owner` is the Job that owns it, if any."""
    uid = "job-uid" if owner == "a" else "other-uid"
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": uid, "controller": True}
    return workload(*conditions, name="mine", ownerReferences=[reference] if owner else [], **meta)


def act(of: Job, prebuilt: Workload | None, **context) -> planned_writes.PlannedWrite:
    ours = prebuilt is not None and any(o.uid == of.metadata.uid for o in prebuilt.metadata.owner_references)
    owned = [prebuilt] if prebuilt is not None and ours else []
    return decide(of, owned, JobContext(flavors=CONTEXT.flavors, prebuilt=prebuilt, **context))


@pytest.mark.parametrize(
    "prebuilt",
    [None, made(*ADMITTED, owner="other"), made(owner="", **DELETED)],
    ids=["does not exist", "owned by another Job", "without owner and being deleted"],
)
def test_a_job_does_not_run_without_the_workload_that_it_names(prebuilt):
    """A user who unsuspends it is overruled."""
    action = act(named(False), prebuilt)
    assert action.patch["spec"] == {"suspend": True}
    assert action.event == ("Normal", "Stopped", "missing workload")


@pytest.mark.parametrize("prebuilt", [None, made(owner="", **DELETED)])
def test_a_job_waits_for_the_workload_that_it_names(prebuilt):
    assert act(named(), prebuilt) == planned_writes.Nothing()


def test_a_workload_owned_by_another_job_is_left_to_it_and_reported():
    action = act(named(), made(*ADMITTED, owner="other"))
    assert action == planned_writes.RecordEvent(("Warning", "OutOfSync", "Workload ns/mine belongs to other"))


def test_a_workload_keeps_foreign_metadata_when_it_is_taken_over():
    action = act(named(), made(owner="", finalizers=["example.com/held"]))
    meta = action.patch["metadata"]
    assert [(o["name"], o["controller"]) for o in meta["ownerReferences"]] == [("a", True)]
    assert meta["finalizers"] == ["example.com/held", "kueue.x-k8s.io/resource-in-use"]
    assert meta["labels"] == {"kueue.x-k8s.io/job-uid": "job-uid"}


def test_a_prebuilt_workload_that_does_not_match_is_finished_as_out_of_sync():
    other = {"parallelism": 2, "completions": 2}
    action = act(named(False, **other), made())
    assert action.patch["spec"] == {"suspend": True}
    assert action.event.message.startswith("No matching Workload")
    assert act(named(status={"active": 1}, **other), made()) == planned_writes.Nothing()
    draft = Draft(made(), at(9))
    act(named(**other), made()).transition(draft)
    finished = draft.condition("Finished")
    assert (finished.reason, finished.message) == (FINISHED["reason"], FINISHED["message"])


def test_a_deleted_workload_is_released_after_the_pods_of_its_job():
    deleted = made(*ADMITTED, **DELETED)
    action = act(named(False), deleted)
    assert action.patch["spec"] == {"suspend": True}
    assert act(named(status={"active": 1}), deleted) == planned_writes.Nothing()
    assert act(named(), deleted) == planned_writes.ReleaseWorkload(deleted)
    assert act(named(), made(finalizers=["example.com/held"], **DELETED)) == planned_writes.Nothing()


def test_a_job_whose_workload_is_finished_does_not_run():
    action = act(named(False), made(FINISHED))
    assert action.patch["spec"] == {"suspend": True}
    assert action.event.message == "Not admitted by cluster queue"
    assert act(named(status=CONFIRMED), made(FINISHED)) == planned_writes.Nothing()


def test_the_end_of_the_job_finishes_its_workload():
    end = condition("Failed", "True", "BackoffLimitExceeded", "too often")
    running = made(*ADMITTED)
    draft = Draft(running, at(9))
    act(named(False, status={"conditions": [end]}), running).transition(draft)
    finished = draft.condition("Finished")
    assert (finished.reason, finished.message) == ("Failed", "too often")


def test_a_workload_keeps_the_overrides_that_its_user_gave_it():
    """A Job's overrides apply to the Workload that is created from it."""
    limit = {"sluice/failed-pods-limit": "3"}
    ours = made(annotations=limit)
    assert act(named(), ours, overrides={"sluice/failed-pods-limit": "5"}) == planned_writes.Nothing()

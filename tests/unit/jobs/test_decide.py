"""The next action for a Job and its Workload."""

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.api.types import Admission, PriorityClassRef, ReclaimablePod, Workload
from queue_manager.api.workload_names import workload_name
from queue_manager.jobs import planned_writes, pod_progress
from queue_manager.jobs.decide import decide
from queue_manager.jobs.job_situation import JobContext
from queue_manager.jobs.workload_manifest import Priority, new_workload, priority_of
from queue_manager.jobs.workload_match import matches
from queue_manager.lifecycle.status_draft import Draft, WorkloadEvent
from tests.unit.queueing.builders import at, condition, flavor

CONTEXT = JobContext(flavors={"default": flavor("default"), "gpu": flavor("gpu", nodeLabels={"kind": "gpu"})})
STOPPING = {"kueue.x-k8s.io/stopping": "true"}
CONFIRMED = {"conditions": [condition("Suspended", "True")]}


def job(suspend=True, *, status=None, annotations=None, labels=None, template_labels=None, pod=None, **spec) -> Job:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    tree = {
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "uid": "job-uid",
            "resourceVersion": "7",
            "labels": {"kueue.x-k8s.io/queue-name": "lq"} if labels is None else labels,
            "annotations": annotations or {},
        },
        "spec": {
            "suspend": suspend,
            "parallelism": 1,
            "completions": 1,
            "template": {
                "metadata": {
                    "labels": {"job-name": "a", "batch.kubernetes.io/job-name": "a", **(template_labels or {})}
                },
                "spec": {"containers": [container], **(pod or {})},
            },
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(tree, Job)


ASSIGNMENT = {"name": "main", "flavors": {"cpu": "gpu"}, "resourceUsage": {"cpu": "1"}, "count": 1}
ADMITTED = [condition("QuotaReserved", "True"), condition("Admitted", "True", "Admitted")]
READY = condition("PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded")


def workload(*conditions, of=None, **meta) -> Workload:
    tree = new_workload(of or job(), Priority())
    tree["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9", **meta}
    status = {"conditions": [READY, *conditions]}
    if any(c["type"] == "QuotaReserved" and c["status"] == "True" for c in conditions):
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [ASSIGNMENT]}
    return msgspec.convert({**tree, "status": status}, Workload)


def test_the_name_is_that_of_kueue():
    assert workload_name("sample", "x") == "job-sample-" + _sha("Job\nbatch\nsample\nx")
    assert len(workload_name("n" * 253, "x")) == 253


def _sha(text):
    import hashlib

    return hashlib.sha1(text.encode()).hexdigest()[:5]


def test_a_suspended_job_without_pods_gets_its_workload():
    action = decide(job(), [], CONTEXT)
    assert isinstance(action, planned_writes.CreateWorkload)
    assert action.event.message == f"Created Workload: ns/{workload_name('a', 'job-uid')}"
    assert matches(job(), msgspec.convert(action.workload, Workload))


@pytest.mark.parametrize("status", [{"active": 1}, {"terminating": 1}])
def test_the_workload_is_created_once_pods_of_an_earlier_run_are_gone(status):
    assert isinstance(decide(job(status=status), [], CONTEXT), planned_writes.Nothing)


def test_a_running_job_without_workload_is_stopped():
    action = decide(job(False), [], CONTEXT)
    assert action.patch["spec"] == {"suspend": True}
    assert action.event.message == "Missing Workload; unable to restore pod templates"


def test_an_admitted_job_is_started_by_one_patch():
    action = decide(job(), [workload(*ADMITTED)], CONTEXT)
    assert isinstance(action, planned_writes.PatchJob)
    name = workload_name("a", "job-uid")
    assert action.patch == {
        "metadata": {"resourceVersion": "7", "uid": "job-uid"},
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {
                    "labels": {
                        "kueue.x-k8s.io/podset": "main",
                        "kueue.x-k8s.io/local-queue-name": "lq",
                        "kueue.x-k8s.io/cluster-queue-name": "cq",
                    },
                    "annotations": {"kueue.x-k8s.io/workload": name},
                },
                "spec": {"nodeSelector": {"kind": "gpu"}},
            },
        },
    }
    assert action.event == ("Normal", "Started", "Admitted by clusterQueue cq")


RUNS = {"template_labels": {"kueue.x-k8s.io/podset": "main"}, "pod": {"nodeSelector": {"kind": "gpu"}}}
EVICTED = condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout ns/w")


def test_a_stop_suspends_waits_restores_and_then_gives_the_quota_back():
    w = workload(*ADMITTED, EVICTED)
    first = decide(job(False, **RUNS), [w], CONTEXT)
    assert first.patch["spec"] == {"suspend": True}
    assert first.patch["metadata"]["annotations"] == STOPPING
    assert first.event is None
    for status in ({}, {**CONFIRMED, "active": 1}, {**CONFIRMED, "terminating": 1}):
        assert isinstance(
            decide(job(annotations=STOPPING, status=status, **RUNS), [w], CONTEXT), planned_writes.Nothing
        )
    second = decide(job(annotations=STOPPING, status=CONFIRMED, **RUNS), [w], CONTEXT)
    assert second.patch["spec"] == {
        "template": {
            "metadata": {"labels": {"kueue.x-k8s.io/podset": None}},
            "spec": {"nodeSelector": {"kind": None}},
        }
    }
    assert second.patch["metadata"]["annotations"] == {"kueue.x-k8s.io/stopping": None}
    assert second.event == ("Normal", "Stopped", "Exceeded the PodsReady timeout ns/w")
    third = decide(job(status=CONFIRMED), [w], CONTEXT)
    draft = Draft(w, at(9))
    third.transition(draft)
    assert draft.status.admission is None


def test_an_edit_while_checks_are_awaited_starts_over_with_it():
    """Nothing was injected yet, so what differs from the Workload is the user's edit, and stays."""
    reserved = workload(condition("QuotaReserved", "True"))
    edited = job(pod={"nodeSelector": {"disk": "fast"}})
    assert decide(edited, [reserved], CONTEXT) == planned_writes.DeleteWorkload(
        reserved, WorkloadEvent("Normal", "DeletedWorkload", f"Deleted not matching Workload: {reserved.metadata.key}")
    )


def test_an_admitted_job_suspended_by_its_user_is_started_again():
    action = decide(job(status=CONFIRMED, **RUNS), [workload(*ADMITTED)], CONTEXT)
    assert action.patch["spec"]["suspend"] is False


def test_a_running_job_that_is_not_admitted_is_stopped():
    action = decide(job(False), [workload()], CONTEXT)
    assert action.patch["spec"] == {"suspend": True}
    assert action.event.message == "Not admitted by cluster queue"
    assert action.warning == VIOLATION


VIOLATION = (
    "Warning",
    "PolicyViolation",
    "The Job was unsuspended while its Workload was not admitted, and is suspended again; the queue starts it",
)


@pytest.mark.parametrize(
    ("conditions", "annotations", "violation"),
    [
        ([condition("QuotaReserved", "True")], {}, True),
        ([condition("Evicted", "True", "PodsReadyTimeout")], {}, True),
        (ADMITTED, STOPPING, True),
        ([*ADMITTED, condition("Evicted", "True", "Preempted")], {}, False),
    ],
)
def test_a_job_that_others_unsuspended_is_reported_and_a_stop_is_not(conditions, annotations, violation):
    action = decide(job(False, annotations=annotations, **RUNS), [workload(*conditions)], CONTEXT)
    assert action.patch["spec"] == {"suspend": True}
    assert action.warning == (VIOLATION if violation else None)


def test_an_edit_while_waiting_updates_the_workload():
    action = decide(job(parallelism=3, completions=3), [workload()], CONTEXT)
    assert isinstance(action, planned_writes.UpdateWorkload)
    assert action.patch["spec"]["podSets"][0]["count"] == 3
    assert action.event.reason == "UpdatedWorkload"


@pytest.mark.parametrize(
    "edit",
    [
        {"pod": {"nodeSelector": {"a": "b"}}},
        {"pod": {"tolerations": [{"operator": "Exists"}]}},
        {"template_labels": {"team": "x"}},
    ],
)
def test_an_edit_of_the_template_while_waiting_is_followed_and_never_reverted(edit):
    assert isinstance(decide(job(status=CONFIRMED, **edit), [workload()], CONTEXT), planned_writes.UpdateWorkload)


def test_a_job_that_has_ended_finishes_its_workload():
    end = condition("Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods")
    action = decide(job(False, status={"conditions": [end], "succeeded": 1}, **RUNS), [workload(*ADMITTED)], CONTEXT)
    draft = Draft(workload(*ADMITTED), at(9))
    action.transition(draft)
    finished = draft.condition("Finished")
    assert (finished.reason, finished.message) == ("Succeeded", "Reached expected number of succeeded pods")
    assert draft.is_true("PodsReady")
    assert action.event.message == f"Workload 'ns/{workload_name('a', 'job-uid')}' is declared finished"


def test_extra_workloads_are_deleted():
    extra = workload(name="other", uid="other")
    action = decide(job(), [extra, workload()], CONTEXT)
    assert isinstance(action, planned_writes.DeleteWorkload)
    assert action.workload.metadata.name == "other"


def test_a_job_that_left_its_queue_loses_its_workload_unless_it_runs():
    context = JobContext(managed=False)
    assert isinstance(decide(job(labels={}), [workload()], context), planned_writes.DeleteWorkload)
    deleted = workload(deletionTimestamp="2026-01-01T00:00:01Z")
    assert isinstance(decide(job(labels={}), [deleted], context), planned_writes.ReleaseWorkload)
    assert isinstance(decide(job(False, labels={}, **RUNS), [workload(*ADMITTED)], context), planned_writes.Nothing)


@pytest.mark.parametrize(
    ("spec", "status", "ready"),
    [
        ({}, {}, False),
        ({}, {"ready": 1}, True),
        ({}, {"succeeded": 1}, True),
        ({"parallelism": 3, "completions": 3}, {"ready": 2}, False),
        ({"parallelism": 3, "completions": 3}, {"ready": 2, "uncountedTerminatedPods": {"succeeded": ["x"]}}, True),
        (
            {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0},
            {"ready": 1, "failedIndexes": "1"},
            True,
        ),
    ],
)
def test_pods_are_ready_when_all_that_should_run_are_ready_or_done(spec, status, ready):
    assert pod_progress.are_pods_ready(job(False, status=status, **spec)) is ready


@pytest.mark.parametrize(
    ("spec", "status", "wanted", "count"),
    [
        ({"parallelism": 3, "completions": 3}, {"succeeded": 1}, 3, 1),
        ({"parallelism": 2, "completions": 4}, {"succeeded": 1}, 2, 0),
        ({"parallelism": 2, "completions": 4}, {"succeeded": 3}, 2, 1),
        ({"parallelism": 10, "completions": 4}, {"succeeded": 1}, 4, 1),
        ({"parallelism": 1, "completions": 1}, {"succeeded": 1}, 1, 0),
        ({"parallelism": 3, "completions": None}, {"succeeded": 1}, 3, 1),
        (
            {"parallelism": 3, "completions": 3, "completionMode": "Indexed"},
            {"completedIndexes": "0", "failedIndexes": "2"},
            3,
            2,
        ),
    ],
)
def test_pods_that_will_not_run_again_give_their_quota_back(spec, status, wanted, count):
    assert pod_progress.reclaimable(job(False, status=status, **spec), wanted) == count


def test_pods_that_were_not_admitted_do_not_count_as_done():
    """Ten are wanted, four were admitted, and one of those has succeeded."""
    some = job(False, status={"succeeded": 1}, parallelism=4, completions=10)
    assert pod_progress.reclaimable(some, 10) == 1
    same = {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}
    indexed = {"completedIndexes": "0"}
    cut = job(False, status=indexed, annotations=same, parallelism=4, completions=4, completionMode="Indexed")
    assert pod_progress.reclaimable(cut, 10) == 1


def test_a_work_queue_after_its_first_success_gets_no_new_pods():
    """Ten are wanted, four were admitted, and one of those has succeeded: only the other three will still run."""
    some = job(False, status={"succeeded": 1}, parallelism=4, completions=None)
    assert pod_progress.reclaimable(some, 10) == 7


def test_reclaimable_pods_are_lowered_before_the_workload_of_a_smaller_job_follows():
    """Two of four had succeeded when it was evicted; a Workload of one pod cannot have two reclaimable pods."""
    spec = {"completions": 4, "completionMode": "Indexed"}
    edited = job(status={**CONFIRMED, "completedIndexes": "0,1", "succeeded": 2}, parallelism=1, **spec)
    waiting = workload(of=job(parallelism=4, **spec))
    known = msgspec.convert([{"name": "main", "count": 2}], tuple[ReclaimablePod, ...])
    before = msgspec.structs.replace(waiting, status=msgspec.structs.replace(waiting.status, reclaimable_pods=known))
    first = decide(edited, [before], CONTEXT)
    assert isinstance(first, planned_writes.WriteWorkloadStatus)
    draft = Draft(before, at(5))
    first.transition(draft)
    assert draft.status.reclaimable_pods == ()
    second = decide(edited, [draft.workload], CONTEXT)
    assert isinstance(second, planned_writes.UpdateWorkload)
    assert second.patch["spec"]["podSets"][0]["count"] == 1


def test_a_job_keeps_its_size_when_all_its_missing_pods_are_admitted():
    """Three of six had succeeded when it was evicted: with completions 3 it would be complete without the others."""
    least = {"kueue.x-k8s.io/job-min-parallelism": "2", "kueue.x-k8s.io/job-completions-equal-parallelism": "true"}
    spec = {"parallelism": 6, "completions": 6, "completionMode": "Indexed"}
    again = job(annotations=least, status={**CONFIRMED, "completedIndexes": "0-2", "succeeded": 3}, **spec)
    w = workload(READY, *ADMITTED, of=again)
    assigned = {"clusterQueue": "cq", "podSetAssignments": [{**ASSIGNMENT, "count": 3}]}
    known = {"admission": msgspec.convert(assigned, Admission), "reclaimable_pods": (ReclaimablePod("main", 3),)}
    w = msgspec.structs.replace(w, status=msgspec.structs.replace(w.status, **known))
    patch = decide(again, [w], CONTEXT).patch
    assert patch["spec"].keys() == {"suspend", "template"}


def test_the_template_is_restored_when_a_job_leaves_its_queue_during_a_stop():
    """Its Workload is the only copy of it; with labels of the old queue it could not start in another one."""
    unmanaged = JobContext(managed=False, flavors=CONTEXT.flavors)
    w = workload(*ADMITTED, EVICTED)
    ends = job(annotations=STOPPING, status={**CONFIRMED, "terminating": 1}, labels={}, **RUNS)
    assert isinstance(decide(ends, [w], unmanaged), planned_writes.Nothing)
    stopped = job(annotations=STOPPING, status=CONFIRMED, labels={}, **RUNS)
    restore = decide(stopped, [w], unmanaged)
    assert restore.patch["spec"]["template"]["metadata"] == {"labels": {"kueue.x-k8s.io/podset": None}}
    assert restore.patch["metadata"]["annotations"] == {"kueue.x-k8s.io/stopping": None}
    assert isinstance(decide(job(status=CONFIRMED, labels={}), [w], unmanaged), planned_writes.DeleteWorkload)


PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}


def brought(*conditions, **meta) -> Workload:
    """A Workload that its user made, taken over by the Job."""
    return workload(*conditions, name="mine", labels={"kueue.x-k8s.io/job-uid": "job-uid", "team": "x"}, **meta)


def test_a_prebuilt_workload_is_released_when_its_job_leaves_the_queue():
    held = brought(finalizers=["example.com/held", "kueue.x-k8s.io/resource-in-use"])
    action = decide(job(labels=PREBUILT), [held], JobContext(managed=False, prebuilt=held))
    assert isinstance(action, planned_writes.UpdateWorkload)
    off = {"ownerReferences": [], "labels": {"kueue.x-k8s.io/job-uid": None}, "finalizers": ["example.com/held"]}
    assert action.patch == {"metadata": off}


def test_a_job_that_names_another_workload_leaves_the_one_before():
    """The earlier one must not be admitted and hold quota that no Job uses."""
    queued = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/prebuilt-workload-name": "other"}
    action = decide(job(labels=queued), [brought(*ADMITTED)], CONTEXT)
    assert isinstance(action, planned_writes.UpdateWorkload)
    assert action.patch["metadata"]["ownerReferences"] == []
    own = workload()
    assert decide(job(labels=queued), [own], CONTEXT) == planned_writes.DeleteWorkload(own)


def test_a_job_whose_workload_is_finished_must_not_run_on_its_own():
    """Its Workload cannot be admitted any more: if a user unsuspends the Job, it has no quota."""
    finished = workload(*ADMITTED, condition("Finished", "True", "FailedToStart", "conflict"))
    action = decide(job(False), [finished], CONTEXT)
    assert action.patch["spec"] == {"suspend": True}
    assert action.event == ("Normal", "Stopped", "Not admitted by cluster queue")
    assert isinstance(decide(job(status=CONFIRMED), [finished], CONTEXT), planned_writes.Nothing)


def test_an_unknown_priority_class_is_reported_but_not_a_deleted_one():
    """The Workload keeps its priority when the class is deleted."""
    context = JobContext(priority=None)
    renamed = job(labels={"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "later"})
    waits = condition("QuotaReserved", "False", "WaitingForQuota", "full")
    action = decide(renamed, [workload(waits)], context)
    assert isinstance(action, planned_writes.RecordEvent)
    assert action.event == ("Warning", "WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "later" not found')
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "later"}
    known = workload(waits)
    spec = msgspec.structs.replace(known.spec, priority_class_ref=msgspec.convert(reference, PriorityClassRef))
    assert isinstance(decide(renamed, [msgspec.structs.replace(known, spec=spec)], context), planned_writes.Nothing)


def test_priority_comes_from_the_label_then_the_pods_then_the_default():
    from queue_manager.api.types import PriorityClass, WorkloadPriorityClass

    classes = {"high": WorkloadPriorityClass(value=9)}
    default = msgspec.convert({"metadata": {"name": "d"}, "value": 1, "globalDefault": True}, PriorityClass)
    pod_class = msgspec.convert({"metadata": {"name": "p"}, "value": 5}, PriorityClass)
    both = {"d": default, "p": pod_class}
    named = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "high"}
    assert priority_of(job(labels=named), classes, both).value == 9
    assert priority_of(job(labels=named), {}, both) is None
    assert priority_of(job(pod={"priorityClassName": "p"}), classes, both).value == 5
    assert priority_of(job(), classes, both).value == 1
    assert priority_of(job(), classes, {}) == Priority()


def test_an_unknown_class_on_a_running_job_does_not_keep_it_from_being_stopped():
    named = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "gone"}
    context = JobContext(priority=None)
    action = decide(job(False, labels=named, **RUNS), [workload(*ADMITTED, EVICTED)], context)
    assert action.patch["spec"] == {"suspend": True}


def test_the_users_parallelism_is_kept_when_a_partially_admitted_job_starts_again():
    """The annotation has the user's parallelism, never one that we have set."""
    least = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    wanted = job(parallelism=2, completions=2, annotations=least)
    admitted = workload(*ADMITTED, of=wanted)
    smaller = job(parallelism=1, completions=2, annotations=least, **RUNS)
    again = decide(smaller, [admitted], CONTEXT)
    assert again.patch["spec"]["suspend"] is False
    assert "annotations" not in again.patch["metadata"]

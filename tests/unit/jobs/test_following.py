"""What a Workload takes over from its Job, a child Job from its parent, and which of several Workloads counts."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from queue_manager.api.types import PriorityClassRef, Workload
from queue_manager.jobs import following_rules, planned_writes
from queue_manager.jobs.decide import decide
from queue_manager.jobs.job_situation import JobContext, ParentJob
from queue_manager.jobs.workload_manifest import Priority
from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.status_draft import Draft, WorkloadEvent
from tests.unit.jobs.test_decide import ADMITTED, CONFIRMED, CONTEXT, RUNS, job, workload
from tests.unit.queueing.builders import at, condition, flavor

FLAVORS = {"gpu": flavor("gpu", nodeLabels={"kind": "gpu"})}
QUEUE = {"kueue.x-k8s.io/queue-name": "lq"}
URGENT = QUEUE | {"kueue.x-k8s.io/priority-class": "urgent"}
GATE = "kueue.x-k8s.io/admission-gated-by"
END = condition("Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods")


# --- child Jobs ------------------------------------------------------------------------------------------


def child(suspend=False, admitted=False, too_deep=False, **kwargs) -> planned_writes.PlannedWrite:
    parent = ParentJob(admitted, too_deep)
    return decide(job(suspend, labels={}, **kwargs), [], JobContext(managed=False, parent=parent))


def test_a_child_is_suspended_until_its_parent_is_admitted():
    action = child()
    assert action.patch["spec"] == {"suspend": True}
    assert action.event == ("Normal", "Suspended", "Kueue managed child job suspended")


@pytest.mark.parametrize(
    "settled",
    [{"admitted": True}, {"suspend": True}, {"suspend": True, "admitted": True}, {"status": {"conditions": [END]}}],
)
def test_a_child_is_unsuspended_by_its_creator(settled):
    assert child(**settled) == planned_writes.Nothing()


def test_a_job_nested_too_deeply_is_reported():
    message = "The job has more than 10 managed or unmanaged ancestors"
    assert child(too_deep=True) == planned_writes.RecordEvent(("Warning", "JobNestingTooDeep", message))


# --- several Workloads -------------------------------------------------------------------------------------


def test_an_admitted_workload_counts_before_one_that_is_being_deleted():
    leaving = workload(name="z", uid="z", deletionTimestamp="2026-01-01T00:00:01Z")
    for owned in ([leaving, workload(*ADMITTED)], [workload(*ADMITTED), leaving]):
        action = decide(job(), owned, CONTEXT)
        assert action.patch["spec"]["suspend"] is False


def test_all_workloads_of_an_ended_job_are_finished_or_released():
    ended = job(False, status={"conditions": [END], "succeeded": 1})
    leaving = workload(*ADMITTED, deletionTimestamp="2026-01-01T00:00:01Z")
    assert decide(ended, [leaving], CONTEXT) == planned_writes.ReleaseWorkload(leaving)
    held = workload(*ADMITTED, finalizers=["example.com/held"], deletionTimestamp="2026-01-01T00:00:01Z")
    assert decide(ended, [held], CONTEXT) == planned_writes.Nothing()


def test_a_job_that_ended_before_its_pods_were_ready_never_had_them_ready():
    failed = condition("Failed", "True", "BackoffLimitExceeded", "too often")
    running = workload(*ADMITTED)
    draft = Draft(running, at(9))
    decide(job(False, status={"conditions": [failed], "failed": 7}), [running], CONTEXT).transition(draft)
    assert draft.is_true("Finished")
    assert not draft.is_true("PodsReady")


# --- what a Workload takes over from its Job ---------------------------------------------------------------


def after(action: planned_writes.PlannedWrite) -> tuple[object, str]:
    assert isinstance(action, planned_writes.UpdateWorkload)
    assert action.event is not None
    assert (action.event.type, action.event.reason) == ("Normal", "UpdatedWorkload")
    return action.patch, action.event.message


def of_class(group: str, name: str, *conditions) -> Workload:
    """A Job that has its priority from this class."""
    found = workload(*conditions)
    reference = PriorityClassRef(group=group, kind="C", name=name)
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, priority=1, priority_class_ref=reference)
    )


HIGH = Priority(9, "kueue.x-k8s.io", "WorkloadPriorityClass", "urgent")
OF_PODS = "scheduling.k8s.io"
ROOM = condition("QuotaReserved", "True")


@pytest.mark.parametrize(
    "before",
    [workload(), of_class("kueue.x-k8s.io", "low"), of_class(OF_PODS, "low"), of_class("kueue.x-k8s.io", "low", ROOM)],
    ids=["of none", "of another", "of a class of pods", "of another, and with quota"],
)
def test_a_workload_takes_over_the_priority_class_of_its_job(before):
    action = decide(job(labels=URGENT), [before], JobContext(flavors=FLAVORS, priority=HIGH))
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "urgent"}
    message = f"Updated workload priority class: {before.metadata.key}"
    assert after(action) == ({"spec": {"priority": 9, "priorityClassRef": reference}}, message)


@pytest.mark.parametrize(
    ("labels", "before"),
    [
        (URGENT, of_class("kueue.x-k8s.io", "urgent")),
        (QUEUE, of_class("kueue.x-k8s.io", "low")),  # removing the label keeps the priority
        (URGENT, of_class(OF_PODS, "low", ROOM)),  # with quota the API refuses another kind of class
        (URGENT, workload(ROOM)),
    ],
)
def test_a_priority_that_is_equal_or_immutable_is_not_changed(labels, before):
    assert decide(job(labels=labels), [before], JobContext(flavors=FLAVORS, priority=HIGH)) == planned_writes.Nothing()


def test_an_unknown_priority_class_is_reported_by_name():
    action = decide(job(labels=URGENT), [of_class("kueue.x-k8s.io", "low")], JobContext(priority=None))
    assert action == planned_writes.RecordEvent(
        ("Warning", "WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "urgent" not found')
    )


def test_a_workload_takes_over_the_admission_gates_of_its_job():
    closed = job(annotations={GATE: "a,b"})
    patch, message = after(decide(closed, [workload()], CONTEXT))
    assert patch == {"metadata": {"annotations": {GATE: "a,b"}}}
    assert message == 'Updated workload AdmissionGatedBy to "a,b"'
    patch, message = after(decide(job(), [workload(of=closed)], CONTEXT))
    assert patch == {"metadata": {"annotations": {GATE: None}}}
    assert message == 'Updated workload AdmissionGatedBy to ""'
    assert decide(closed, [workload(of=closed)], CONTEXT) == planned_writes.Nothing()


def test_a_workload_without_quota_takes_over_the_queue_of_its_job():
    moved = job(labels={"kueue.x-k8s.io/queue-name": "other"})
    action = decide(moved, [workload()], CONTEXT)
    assert isinstance(action, planned_writes.UpdateWorkload)
    assert action.patch == {"spec": {"queueName": "other"}}
    assert decide(moved, [workload(ROOM)], CONTEXT) == planned_writes.Nothing()


def test_a_workload_takes_over_the_overrides_of_its_job():
    key = overrides.KEYS[0]
    patch, message = after(decide(job(), [workload()], JobContext(overrides={key: "5"})))
    assert patch == {"metadata": {"annotations": dict.fromkeys(overrides.KEYS) | {key: "5"}}}
    assert message == f"Updated workload requeuing overrides: {workload().metadata.key}"


# --- what is reported --------------------------------------------------------------------------------------


def followed(of, its: Workload, **context) -> Draft:
    action = decide(of, [its], JobContext(flavors=FLAVORS, **context))
    assert isinstance(action, planned_writes.WriteWorkloadStatus)
    draft = Draft(its, at(9))
    action.transition(draft)
    return draft


def test_ready_and_reclaimable_pods_are_reported_to_the_workload():
    many = {"parallelism": 3, "completions": 3}
    admitted = workload(*ADMITTED, of=job(**many))
    assert followed(job(False, status={"ready": 3}, **many, **RUNS), admitted).is_true("PodsReady")
    draft = followed(job(False, status={"ready": 1, "succeeded": 1}, **many, **RUNS), admitted)
    assert [(r.name, r.count) for r in draft.status.reclaimable_pods] == [("main", 1)]
    assert not draft.is_true("PodsReady")


def test_readiness_is_not_reported_without_wait_for_pods_ready():
    context = JobContext(flavors=FLAVORS, waits_for_pods=False)
    assert decide(job(False, status={"ready": 1}, **RUNS), [workload(*ADMITTED)], context) == planned_writes.Nothing()


def test_messages_of_admission_checks_are_events_of_the_waiting_job():
    checks = [
        {"name": name, "state": state, "message": text, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name, state, text in (
            ("a", "Pending", "3 nodes are coming"),
            ("b", "Ready", "done"),
            ("c", "Pending", ""),
            ("d", "Pending", "asked"),
        )
    ]
    tree = msgspec.to_builtins(workload(ROOM))
    tree["status"]["admissionChecks"] = checks
    reserved = msgspec.convert(tree, Workload)
    action = decide(job(), [reserved], CONTEXT)
    assert action == planned_writes.RecordEvent(("Normal", "UpdatedAdmissionCheck", "a: 3 nodes are coming; d: asked"))


# --- the ends of a stop ------------------------------------------------------------------------------------

EVICTED = condition("Evicted", "True", "Preempted", "for another")


def test_the_template_is_restored_when_a_job_suspended_by_its_user_is_evicted():
    """The stop has no annotation, but the template has the labels of its queue."""
    action = decide(job(status=CONFIRMED, **RUNS), [workload(*ADMITTED, EVICTED)], CONTEXT)
    assert action.patch["spec"]["template"]["spec"] == {"nodeSelector": {"kind": None}}
    assert action.event == ("Normal", "Stopped", "for another")


def test_an_evicted_workload_without_quota_is_not_written_again():
    """No write that changes nothing."""
    assert decide(job(status=CONFIRMED), [workload(EVICTED)], CONTEXT) == planned_writes.Nothing()


def test_a_job_that_contradicts_its_injected_fields_fails_to_start():
    draft = followed(
        job(pod={"nodeSelector": {"kind": "cpu"}}), workload(*ADMITTED, of=job(pod={"nodeSelector": {"kind": "cpu"}}))
    )
    finished = draft.condition("Finished")
    assert finished.reason == "FailedToStart"
    assert finished.message.endswith("conflict for nodeSelector: conflict for key=kind, value1=cpu, value2=gpu")


def test_a_job_whose_cluster_queue_does_not_exist_says_so_and_waits():
    action = decide(job(), [workload(*ADMITTED)], replace(CONTEXT, cluster_queue_exists=False))
    assert action == planned_writes.RecordEvent(
        WorkloadEvent("Warning", "Misconfigured", "Cannot be started: ClusterQueue cq doesn't exist")
    )


def test_a_job_whose_flavor_is_gone_waits_and_is_reported():
    action = decide(job(), [workload(*ADMITTED)], JobContext(flavors={}))
    assert action.event.message == "Cannot be started: missing ResourceFlavor(s): gpu"
    assert action.event.type == "Warning"


@pytest.mark.parametrize("value", [0, 5, 7, 9, 20])
def test_no_pending_workload_is_above_a_running_one_of_its_class_meanwhile(value):
    def of_class(number: int, *conditions, priority: int) -> Workload:
        found = workload(*conditions, name=f"w{number}", uid=f"w{number}")
        return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, priority=priority))

    states = [(), ADMITTED, (), ADMITTED, (*ADMITTED, condition("Finished", "True"))]
    known = [of_class(n, *each, priority=7) for n, each in enumerate(states)]
    written = following_rules.in_order_of_priorities(known, value)
    assert {w.metadata.name for w in written} == (set() if value == 7 else {"w0", "w1", "w2", "w3"})
    priorities = dict.fromkeys(("w0", "w1", "w2", "w3"), 7)
    for each in written:
        priorities[each.metadata.name] = value
        assert max(priorities["w0"], priorities["w2"]) <= min(priorities["w1"], priorities["w3"])


@pytest.mark.parametrize(("value", "written"), [(5, ["w3", "w2", "w1"]), (20, ["w1", "w2", "w3"])])
def test_none_becomes_the_first_with_a_priority_that_it_is_about_to_lose(value, written):
    """w1 to w3 are in one queue in this order, all with priority 7."""
    known = []
    for number in (2, 3, 1):
        found = workload(name=f"w{number}", uid=f"w{number}")
        spec = msgspec.structs.replace(found.spec, priority=7)
        created = datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC)
        meta = msgspec.structs.replace(found.metadata, creation_timestamp=created)
        known.append(msgspec.structs.replace(found, spec=spec, metadata=meta))
    assert [w.metadata.name for w in following_rules.in_order_of_priorities(known, value)] == written

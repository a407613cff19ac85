"""Which steps are read from the states and changes of Jobs, Workloads and pods."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from job_controller.model import Condition, Job, Pod
from job_controller.times import timestamp
from queue_manager.accounting.record_types import JobRecord, PodRecord, StepKind, StepRecord
from queue_manager.accounting.step_reading import interruption_records, job_records, pod_records, workload_records
from queue_manager.api import keys
from queue_manager.api.types import Workload
from tests.unit.accounting.history_samples import at

NOW = at(1000.5)
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1", "controller": True}


def condition(type: str, status: bool, seconds: float, reason: str = "R", message: str = "") -> dict[str, Any]:
    when = timestamp(at(seconds))
    return {"type": type, "status": str(status), "reason": reason, "message": message, "lastTransitionTime": when}


def workload(*conditions: dict[str, Any], version: int = 1, evictions: int = 0, **fields: Any) -> Workload:
    status: dict[str, Any] = {"conditions": conditions}
    if evictions:
        rows = [{"reason": "Preempted", "underlyingCause": "", "count": evictions}]
        status["schedulingStats"] = {"evictions": rows}
    if fields.get("admitted"):
        usage = {"cpu": "1500m", "memory": "1Gi"}
        flavors = {"cpu": "spot", "memory": "spot"}
        assigned = [{"name": "main", "flavors": flavors, "resourceUsage": usage, "count": 3}]
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": assigned}
    if fields.get("history"):
        status["requeueHistory"] = {"attempts": fields["history"]}
    meta = {"name": "w", "uid": "w1", "resourceVersion": str(version), "creationTimestamp": timestamp(at(0))}
    tree = {"metadata": {**meta, "ownerReferences": [OWNER]}, "status": status}
    return msgspec.convert({**tree, "spec": {"active": fields.get("active", True)}}, Workload)


RUNNING = workload(
    condition("QuotaReserved", True, 10),
    condition("Admitted", True, 10),
    condition("PodsReady", True, 12),
    admitted=True,
)


def kinds(old: Workload | None, new: Workload | None, now: datetime = NOW) -> list[tuple[StepKind, int, float]]:
    """Kind, attempt, and seconds since the start of the samples."""
    found = [step for step in workload_records(old, new, now) if isinstance(step, StepRecord)]
    return [(step.kind, step.attempt, (step.at - at(0)).total_seconds()) for step in found]


def test_an_admission_names_queue_flavor_and_requests() -> None:
    step = next(iter(workload_records(None, RUNNING, NOW)))
    assert isinstance(step, StepRecord)
    assert (step.kind, step.job_uid, step.uid, step.attempt, step.at) == (StepKind.ADMITTED, "j1", "w1", 1, at(10))
    assert (step.cluster_queue, step.flavor, step.pods) == ("cq", "spot", 3)
    assert (step.cpu_milli, step.memory_bytes) == (1500, 1 << 30)


def test_a_state_that_is_read_again_has_the_same_steps() -> None:
    before = [step.key for step in workload_records(None, RUNNING, NOW) if isinstance(step, StepRecord)]
    after = [step.key for step in workload_records(None, RUNNING, at(5000)) if isinstance(step, StepRecord)]
    assert before == after == [("w1", 1, "Admitted", 0), ("w1", 1, "PodsReady", 0)]
    assert kinds(RUNNING, RUNNING) == []


def test_each_attempt_has_its_number_and_ends_with_its_eviction() -> None:
    evicted = (condition("Evicted", True, 20, "Preempted"), condition("Preempted", True, 20, "InCohortReclamation"))
    stopping = workload(*RUNNING_CONDITIONS, *evicted, evictions=1, admitted=True)
    assert kinds(RUNNING, stopping) == [(StepKind.PREEMPTED, 1, 20)]
    assert next(iter(workload_records(RUNNING, stopping, NOW))).reason == "InCohortReclamation"  # type: ignore[union-attr]
    requeued = condition("Requeued", True, 3)  # as after an earlier preemption: its time does not change
    released = workload(condition("QuotaReserved", False, 25), *evicted, requeued, evictions=1)
    assert kinds(stopping, released) == [(StepKind.RELEASED, 1, 25), (StepKind.REQUEUED, 1, 25)]
    again = (condition("QuotaReserved", True, 30), condition("Admitted", True, 30), condition("Evicted", False, 30))
    assert kinds(released, workload(*again, requeued, evictions=1, admitted=True)) == [(StepKind.ADMITTED, 2, 30)]


RUNNING_CONDITIONS = (condition("QuotaReserved", True, 10), condition("Admitted", True, 10))


@pytest.mark.parametrize(
    ("reason", "kind", "cause"),
    [
        ("PodsReadyTimeout", StepKind.EVICTED, "PodsReadyTimeout"),
        ("DeactivatedDueToRequeuingLimitExceeded", StepKind.DEACTIVATED, "RequeuingLimitExceeded"),
        ("Deactivated", StepKind.DEACTIVATED, "Deactivated"),
    ],
)
def test_an_eviction_keeps_its_reason(reason: str, kind: StepKind, cause: str) -> None:
    evicted = workload(*RUNNING_CONDITIONS, condition("Evicted", True, 20, reason), evictions=1, admitted=True)
    [step] = workload_records(RUNNING, evicted, NOW)
    assert isinstance(step, StepRecord)
    assert (step.kind, step.reason) == (kind, cause)


@pytest.mark.parametrize(
    ("reason", "end", "message"),
    [
        ("PodsReadyTimeout", 20, "exit 3: no such column"),
        ("Deactivated", 20, "The workload is deactivated by a user (before: exit 3: no such column)"),
        ("PodsReadyTimeout", 15, "stopped by a user"),  # an attempt before this eviction
    ],
)
def test_an_eviction_keeps_why_the_pods_of_its_attempt_were_not_ready(reason: str, end: float, message: str) -> None:
    attempt = {"reason": "PodsReadyTimeout", "podCause": "exit 3: no such column", "end": timestamp(at(end))}
    evicted = workload(condition("Evicted", True, 20, reason, "stopped by a user"), evictions=1, history=[attempt])
    [step] = workload_records(RUNNING, evicted, NOW)
    assert isinstance(step, StepRecord)
    assert step.message == message


def test_a_preemption_keeps_who_needed_the_quota() -> None:
    attempt = {"reason": "Preempted", "cause": "for priority 100 of ClusterQueue a", "end": timestamp(at(20))}
    preempted = (condition("Evicted", True, 20, "Preempted"), condition("Preempted", True, 20, "InClusterQueue"))
    [step] = workload_records(RUNNING, workload(*preempted, evictions=1, history=[attempt]), NOW)
    assert isinstance(step, StepRecord)
    assert (step.kind, step.reason, step.message) == (StepKind.PREEMPTED, "InClusterQueue", attempt["cause"])


@pytest.mark.parametrize("reason", ["Preempted", "ClusterQueueStopped", "LocalQueueStopped", "AdmissionCheck"])
def test_an_eviction_for_others_keeps_the_error_of_the_pods_before_it(reason: str) -> None:
    attempt = {"reason": reason, "cause": "", "podCause": "exit 3: boom", "end": timestamp(at(20))}
    evicted = condition("Evicted", True, 20, reason, "taken back")
    [step] = workload_records(RUNNING, workload(evicted, evictions=1, history=[attempt]), NOW)
    assert isinstance(step, StepRecord)
    assert step.message == "taken back (before: exit 3: boom)"


def test_each_hold_within_one_attempt_is_a_step_of_its_own() -> None:
    free = [workload(condition("QuotaReserved", False, 1, "WaitingForQuota"), version=v) for v in (1, 3)]
    held = [workload(condition("QuotaReserved", False, 1, "Suspended", "queue is inactive"), version=v) for v in (2, 4)]
    steps = [
        step
        for old, new in ((free[0], held[0]), (held[0], free[1]), (free[1], held[1]))
        for step in workload_records(old, new, NOW)
        if isinstance(step, StepRecord)
    ]
    assert [(step.kind, step.occurrence) for step in steps] == [("Held", 2), ("Resumed", 3), ("Held", 4)]
    assert steps[0].message == "queue is inactive"
    assert kinds(None, held[0]) == []  # after a restart the hold is in the history already


def test_a_deactivation_while_held_is_no_resumption() -> None:
    held = workload(condition("QuotaReserved", False, 1, "Suspended"), version=1)
    off = (condition("QuotaReserved", False, 5, "Deactivated"), condition("Evicted", True, 5, "Deactivated"))
    assert (StepKind.RESUMED, 1, 1000) not in kinds(held, workload(*off, version=2, evictions=1, active=False))
    assert kinds(held, workload(condition("QuotaReserved", False, 5, "WaitingForQuota"), version=2)) == [
        (StepKind.RESUMED, 1, 1000)
    ]


def test_a_user_who_deactivates_and_reactivates_in_backoff_is_recorded() -> None:
    backoff = (condition("QuotaReserved", False, 25), condition("Evicted", True, 20, "PodsReadyTimeout"))
    active, inactive = (workload(*backoff, evictions=1, active=active, version=7) for active in (True, False))
    assert kinds(active, inactive) == [(StepKind.DEACTIVATED, 1, 1000)]
    assert kinds(inactive, active) == [(StepKind.REACTIVATED, 1, 1000)]


def test_a_reactivation_names_its_user_if_that_is_known_of_this_one() -> None:
    inactive, active = (workload(active=active, version=7) for active in (False, True))
    by = {"annotations": {"sluice/reactivated-by": f"{active.metadata.generation}:anna"}}
    after = msgspec.structs.replace(active, metadata=msgspec.structs.replace(active.metadata, **by))
    later = msgspec.structs.replace(after, metadata=msgspec.structs.replace(after.metadata, generation=9))
    steps = [next(iter(workload_records(inactive, new, NOW))) for new in (after, later)]
    assert [step.message for step in steps if isinstance(step, StepRecord)] == ["by anna", ""]


def job(*conditions: dict[str, Any], **meta: Any) -> Job:
    known = {"name": "train", "namespace": "ns", "uid": "j1", "creationTimestamp": timestamp(at(0))}
    return msgspec.convert({"metadata": known | meta, "status": {"conditions": conditions}}, Job)


@pytest.mark.parametrize(
    ("meta", "user"),
    [
        ({}, "ns"),
        ({"labels": {"sluice/user": "bob"}}, "bob"),
        ({"labels": {"sluice/user": "bob"}, "annotations": {"sluice/user": "anna"}}, "anna"),
    ],
)
def test_the_user_is_the_declared_one_or_the_namespace(meta: dict[str, Any], user: str) -> None:
    [record] = job_records(None, job(**meta), NOW)
    assert isinstance(record, JobRecord)
    assert record.user == user


def test_a_job_ends_once_with_its_reason() -> None:
    failed = job(condition("Failed", True, 50, "BackoffLimitExceeded", "it failed"))
    [step] = job_records(job(), failed, NOW)
    assert isinstance(step, StepRecord)
    assert (step.kind, step.reason, step.message, step.at) == ("Finished", "BackoffLimitExceeded", "it failed", at(50))
    assert list(job_records(failed, failed, NOW)) == []
    assert list(job_records(failed, None, NOW)) == []
    [gone] = job_records(job(), None, NOW)
    assert isinstance(gone, StepRecord)
    assert gone.kind == "Deleted"


def pod(phase: str, annotations: dict[str, str] | None = None, *codes: int, message: str = "") -> Pod:
    end = {"reason": "Error", "finishedAt": timestamp(at(40)), "message": message}
    ends = [{"exitCode": code, **end} for code in codes]
    statuses = [{"name": f"c{n}", "restartCount": 1, "state": {"terminated": end}} for n, end in enumerate(ends)]
    meta = {"name": "p", "uid": "p1", "ownerReferences": [OWNER], "annotations": annotations or {}}
    status = {"phase": phase, "containerStatuses": statuses}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "n1"}, "status": status}, Pod)


def test_a_pod_ends_once_with_exit_code_and_usage() -> None:
    used = {"sluice/cpu-seconds": "1.250", "sluice/peak-memory-bytes": "4096"}
    [record] = pod_records(pod("Running"), pod("Failed", used, 0, 3), NOW)
    assert isinstance(record, PodRecord)
    assert (record.job_uid, record.phase, record.exit_code, record.restarts) == ("j1", "Failed", 3, 2)
    assert (record.cpu_seconds, record.peak_memory_bytes, record.ended_at) == (1.25, 4096, at(40))
    assert list(pod_records(pod("Failed"), pod("Failed"), NOW)) == []
    assert list(pod_records(pod("Failed"), None, NOW)) == []
    [deleted] = pod_records(pod("Running"), None, NOW)
    assert isinstance(deleted, PodRecord)
    assert (deleted.phase, deleted.cpu_seconds, deleted.exit_code) == ("Deleted", None, None)


def test_a_pod_that_was_deleted_between_two_starts_ended_with_its_deletion() -> None:
    running = pod("Running", None, 2)
    deletion = {"deletion_timestamp": at(75), "deletion_grace_period_seconds": 30}
    deleted = msgspec.structs.replace(running, metadata=msgspec.structs.replace(running.metadata, **deletion))
    [record] = pod_records(deleted, None, NOW)
    assert isinstance(record, PodRecord)
    assert record.ended_at == at(45)


def test_a_failed_pod_says_why_and_a_deleted_one_does_not() -> None:
    failed = pod("Failed", None, 3, message="log\nno such column\n")
    [record] = pod_records(None, failed, NOW)
    [succeeded] = pod_records(None, pod("Succeeded", None, 0), NOW)
    [deleted] = pod_records(pod("Running", None, 143), None, NOW)
    assert [each.message for each in (record, succeeded) if isinstance(each, PodRecord)] == [
        "exit 3: no such column",
        "",
    ]
    assert isinstance(deleted, PodRecord)
    assert deleted.message == ""


def test_a_deleted_pod_says_which_container_had_failed_by_itself() -> None:
    """At 40 s the first was stopped with the pod; the second had failed before, at 10 s."""
    both = pod("Running", None, 143, 4, message="db is gone")
    stopped, failed = both.status.container_statuses
    ended = msgspec.structs.replace(failed.state.terminated, finished_at=at(10))
    failed = msgspec.structs.replace(failed, state=msgspec.structs.replace(failed.state, terminated=ended))
    deletion = {"deletion_timestamp": at(70), "deletion_grace_period_seconds": 30}
    deleted = msgspec.structs.replace(
        both,
        metadata=msgspec.structs.replace(both.metadata, **deletion),
        status=msgspec.structs.replace(both.status, container_statuses=(stopped, failed)),
    )
    [record] = pod_records(deleted, None, NOW)
    assert isinstance(record, PodRecord)
    assert (record.phase, record.exit_code, record.message) == ("Deleted", 4, "exit 4: db is gone")


def test_a_deleted_pod_that_was_disrupted_says_by_what() -> None:
    condition = Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", message="why")
    known = pod("Running", None, 143)
    evicted = msgspec.structs.replace(known, status=msgspec.structs.replace(known.status, conditions=(condition,)))
    [record] = pod_records(evicted, None, NOW)
    assert isinstance(record, PodRecord)
    assert (record.phase, record.message) == ("Deleted", "pod evicted from n1 (EvictionByEvictionAPI: why)")


@pytest.mark.parametrize("text", ["", "-1", "1e5", "nan", "1.2.3", "٣", "9" * 50, "."])
def test_usage_that_is_no_number_is_unknown(text: str) -> None:
    [record] = pod_records(None, pod("Succeeded", {"sluice/cpu-seconds": text, "sluice/peak-memory-bytes": text}), NOW)
    assert isinstance(record, PodRecord)
    assert (record.cpu_seconds, record.peak_memory_bytes) == (None, None)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({keys.CANCELLED_BY: "anna"}, "Cancelled by anna"),
        ({keys.CANCELLED_BY: "a\nb"}, "Cancelled by a b"),
        ({keys.REPLACED_BY: "anna"}, "Replaced by anna (submit --replace)"),
        ({}, ""),
    ],
)
def test_a_deleted_job_says_who_cancelled_it(annotations: dict[str, str], message: str) -> None:
    meta = {"name": "train", "uid": "j1", "creationTimestamp": timestamp(at(0)), "annotations": annotations}
    [step] = job_records(msgspec.convert({"metadata": meta}, Job), None, NOW)
    assert isinstance(step, StepRecord)
    assert (step.kind, step.message) == (StepKind.DELETED, message)


@pytest.mark.parametrize(
    ("ttl", "annotations", "causes"),
    [
        (None, {}, []),
        (60, {}, ["ttlSecondsAfterFinished (60s) has passed"]),
        (10**9, {}, []),
        (60, {keys.CANCELLED_BY: "anna"}, ["Cancelled by anna"]),
    ],
    ids=["unknown", "its TTL", "before its TTL", "a user"],
)
def test_the_deletion_of_a_finished_job_is_a_step_if_its_cause_is_known(
    ttl: int | None, annotations: dict[str, str], causes: list[str]
) -> None:
    meta = {"name": "train", "uid": "j1", "creationTimestamp": timestamp(at(0)), "annotations": annotations}
    end = {"type": "Complete", "status": "True", "lastTransitionTime": timestamp(at(0))}
    tree = {"metadata": meta, "spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [end]}}
    found = list(job_records(msgspec.convert(tree, Job), None, at(3600)))
    assert [(step.kind, step.message) for step in found] == [(StepKind.DELETED, cause) for cause in causes]


def test_each_stop_and_start_of_the_cluster_is_a_step_of_a_running_job() -> None:
    stop, start = "2026-01-01T12:00:10Z", "2026-01-01T12:01:10Z"
    states = ("", f"{stop}/", f"{stop}/{start}")
    before, stopped, started = (job(annotations={keys.INTERRUPTIONS: text}) for text in states)
    [interrupted] = interruption_records(before, stopped, NOW)
    [continued] = interruption_records(stopped, started, NOW)
    assert [(step.kind, step.attempt, step.at.second) for step in (interrupted, continued)] == [
        (StepKind.INTERRUPTED, 0, 10),
        (StepKind.CONTINUED, 0, 10),
    ]
    assert list(interruption_records(None, started, NOW)) == [interrupted, continued]
    again = job(annotations={keys.INTERRUPTIONS: f"{stop}/{start},{start}/"})  # stopped in the second of the start
    assert [step.kind for step in interruption_records(started, again, NOW)] == [StepKind.INTERRUPTED]
    assert list(interruption_records(started, started, NOW)) == []
    assert list(interruption_records(started, None, NOW)) == []

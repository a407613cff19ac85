"""Which changes of Jobs and Workloads are reported, and what the report contains."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from job_controller.model import Condition, Job, JobStatus, ObjectMeta, OwnerReference, Pod
from queue_manager.api import keys
from queue_manager.api.types import Admission, Attempt, RequeueHistory, Workload, WorkloadSpec, WorkloadStatus
from queue_manager.notifications.notices import Notice, of_job, of_workload

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGUN + timedelta(hours=1)
LATER, EARLIER = BEGUN + timedelta(minutes=1), BEGUN - timedelta(minutes=1)
QUEUE = {keys.QUEUE_NAME: "lq"}


def job(*conditions: Condition, labels: dict[str, str] = QUEUE) -> Job:
    meta = ObjectMeta(name="train", namespace="team", uid="j", labels=labels)
    return Job(metadata=meta, status=JobStatus(conditions=conditions, succeeded=2, failed=1))


def true(type: str, reason: str = "Why", at: datetime = LATER, status: str = "True") -> Condition:
    return Condition(type=type, status=status, reason=reason, message="said", last_transition_time=at)


def workload(*conditions: Condition, history: RequeueHistory | None = None) -> Workload:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="j", controller=True)
    meta = ObjectMeta(name="job-train", namespace="team", uid="w", owner_references=(owner,))
    status = WorkloadStatus(conditions=conditions, admission=Admission(cluster_queue="cq"), requeue_history=history)
    return Workload(metadata=meta, spec=WorkloadSpec(queue_name="lq"), status=status)


DONE, FAILED = job(true("Complete")), job(true("Failed", "BackoffLimitExceeded"))
PREEMPTED = workload(
    true("Evicted", "Preempted"),
    history=RequeueHistory(attempts=(Attempt(reason="Preempted", cause="for priority 9 of ClusterQueue b"),)),
)
LIMIT = workload(true("Evicted", "DeactivatedDueToRequeuingLimitExceeded"))


def test_the_end_of_a_job_is_reported_once_with_its_facts() -> None:
    assert of_job(job(), FAILED, BEGUN) == Notice(
        id=f"j.JobFailed.{int(LATER.timestamp())}",
        type="JobFailed",
        time=LATER,
        namespace="team",
        job="train",
        job_uid="j",
        queue="lq",
        reason="BackoffLimitExceeded",
        message="said",
        cause="BackoffLimitExceeded: said",
        succeeded_pods=2,
        failed_pods=1,
    )
    assert of_job(FAILED, FAILED, BEGUN) is None
    assert (done := of_job(job(), DONE, BEGUN)) is not None
    assert done.type == "JobSucceeded"


def test_the_end_of_a_job_names_its_workload_and_clusterqueue() -> None:
    notice = of_job(job(), FAILED, BEGUN, workload())
    assert notice is not None
    assert (notice.workload, notice.cluster_queue) == ("job-train", "cq")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, None),
        (DONE, None),
        (job(), job(true("Failed", status="False"))),
        (None, job(true("Complete", at=EARLIER))),
        (job(labels={}), job(true("Complete"), labels={})),
    ],
    ids=["nothing", "a deletion", "no end", "an end from before the start", "a Job without a queue"],
)
def test_what_is_no_end_or_not_ours_is_not_reported(old: Job | None, new: Job | None) -> None:
    assert of_job(old, new, BEGUN) is None


def test_an_end_during_a_gap_of_the_watch_is_reported() -> None:
    assert of_job(None, DONE, BEGUN) is not None
    assert of_workload(None, LIMIT, BEGUN, NOW) is not None


def test_a_deactivation_names_its_cause() -> None:
    notice = of_workload(workload(), LIMIT, BEGUN, NOW)
    assert notice is not None
    assert (notice.type, notice.reason, notice.message) == (
        "JobDeactivated",
        "DeactivatedDueToRequeuingLimitExceeded",
        "said",
    )
    assert (notice.job, notice.job_uid, notice.queue, notice.cluster_queue, notice.workload) == (
        *("train", "j", "lq", "cq", "job-train"),
    )
    assert of_workload(LIMIT, LIMIT, BEGUN, NOW) is None


def test_the_message_of_a_deactivation_does_not_repeat_its_cause() -> None:
    """The cause that the last attempt has: the pods may have changed since the deactivation was announced."""
    said = msgspec.structs.replace(true("Evicted", "DeactivatedDueToRequeuingLimitExceeded"), message="over; exit 3: a")
    last = Attempt(reason="DeactivatedDueToRequeuingLimitExceeded", pod_cause="exit 3: b")
    notices = [
        of_workload(workload(), workload(said, history=history), BEGUN, NOW)
        for history in (RequeueHistory(attempts=(last,)), None)
    ]
    assert [(notice.message, notice.cause) for notice in notices if notice is not None] == [
        ("over", "exit 3: b"),
        ("over", "exit 3: a"),
    ]


def inactive(*conditions: Condition) -> Workload:
    return msgspec.structs.replace(workload(*conditions), spec=WorkloadSpec(queue_name="lq", active=False))


def test_a_deactivation_within_an_eviction_for_another_reason_is_reported_once() -> None:
    """Its Evicted condition stays, for instance in the backoff after pods that were not ready."""
    timed_out = true("Evicted", "PodsReadyTimeout")
    notice = of_workload(workload(timed_out), inactive(timed_out), BEGUN, NOW)
    assert notice is not None
    assert (notice.type, notice.time, notice.reason) == ("JobDeactivated", NOW, "Deactivated")
    assert notice.message == "The workload is deactivated"
    assert of_workload(inactive(timed_out), inactive(timed_out, true("Requeued")), BEGUN, NOW) is None
    announced = inactive(timed_out, true("DeactivationTarget"))
    assert of_workload(workload(timed_out), announced, BEGUN, NOW) is None
    limit = inactive(true("Evicted", "DeactivatedDueToRequeuingLimitExceeded", LATER + timedelta(seconds=1)))
    assert of_workload(announced, limit, BEGUN, NOW) is not None


def test_a_deactivation_by_a_user_names_the_user_and_counts_the_pods_of_the_job() -> None:
    """With a Workload that backs off, whose Evicted condition stays, and with a running one."""
    timed_out, by_user = true("Evicted", "PodsReadyTimeout"), true("Evicted", "Deactivated")
    for old, new in ((workload(timed_out), inactive(timed_out)), (workload(), inactive(by_user))):
        meta = msgspec.structs.replace(new.metadata, generation=2, annotations={keys.DEACTIVATED_BY: "2:root"})
        notice = of_workload(old, msgspec.structs.replace(new, metadata=meta), BEGUN, NOW, job())
        assert notice is not None
        assert (notice.message, notice.cause) == ("The workload is deactivated by root", "by root")
        assert (notice.succeeded_pods, notice.failed_pods) == (2, 1)


def test_a_preemption_names_priority_and_queue_but_no_other_workload() -> None:
    notice = of_workload(workload(), PREEMPTED, BEGUN, NOW)
    assert notice is not None
    assert (notice.type, notice.message, notice.cause) == ("JobPreempted", "for priority 9 of ClusterQueue b", "")


def test_a_second_preemption_and_a_deactivation_after_one_are_events_of_their_own() -> None:
    again = workload(true("Evicted", "Preempted", LATER + timedelta(minutes=1)))
    first, second = of_workload(workload(), PREEMPTED, BEGUN, NOW), of_workload(PREEMPTED, again, BEGUN, NOW)
    assert first is not None
    assert second is not None
    assert first.id != second.id
    assert (deactivated := of_workload(PREEMPTED, LIMIT, BEGUN, NOW)) is not None
    assert deactivated.type == "JobDeactivated"


def test_an_eviction_that_is_retried_is_not_reported() -> None:
    assert of_workload(workload(), workload(true("Evicted", "PodsReadyTimeout")), BEGUN, NOW) is None


def test_the_json_has_the_documented_keys() -> None:
    notice = of_job(job(), DONE, BEGUN)
    assert list(msgspec.to_builtins(notice)) == [
        *("schemaVersion", "id", "type", "time", "namespace", "job", "jobUid", "queue", "clusterQueue", "workload"),
        *(
            "reason",
            "message",
            "cause",
            "succeededPods",
            "failedPods",
            "exitCode",
            "attempts",
            "submittedAt",
            "startedAt",
        ),
    ]


def test_a_failed_job_names_the_cause_of_its_pods() -> None:
    terminated = {"exitCode": 3, "message": "boom: cannot open /data/x.csv", "finishedAt": "2026-01-01T00:00:30Z"}
    statuses = [{"name": "c", "state": {"terminated": terminated}}]
    tree = {"metadata": {"name": "train-0"}, "status": {"phase": "Failed", "containerStatuses": statuses}}
    failed = msgspec.convert(tree, Pod)
    notice = of_job(job(), FAILED, BEGUN, workload(), [failed])
    assert notice is not None
    assert (notice.cause, notice.exit_code) == ("exit 3: boom: cannot open /data/x.csv", 3)
    last = RequeueHistory(attempts=(Attempt(reason="PodsReadyTimeout", pod_cause="exit 3: boom"),))
    lost = of_workload(workload(), workload(LIMIT.status.conditions[0], history=last), BEGUN, NOW, job(), [failed])
    assert lost is not None
    assert (lost.cause, lost.exit_code) == ("exit 3: boom", 3)


def test_a_deactivated_job_names_the_cause_that_its_last_attempt_has() -> None:
    why = "no such program: /no/such/program"
    attempt = Attempt(reason="PodsReadyTimeout", pod_cause=why)
    limit = workload(LIMIT.status.conditions[0], history=RequeueHistory(attempts=(attempt,)))
    notice = of_workload(workload(), limit, BEGUN, NOW)
    assert notice is not None
    assert notice.cause == why


def test_a_notice_counts_attempts_from_the_first_admission_of_a_known_workload() -> None:
    submitted = msgspec.structs.replace(FAILED.metadata, creation_timestamp=EARLIER)
    failed = msgspec.structs.replace(FAILED, metadata=submitted)
    lost = tuple(Attempt(start=BEGUN + timedelta(seconds=n), reason="PodsReadyTimeout") for n in range(10))
    running, again = workload(true("Admitted", at=NOW)), RequeueHistory(attempts=lost[:2])
    found = [
        of_job(job(), failed, BEGUN, each)
        for each in (
            None,
            running,
            workload(true("Admitted", at=NOW), history=again),
            workload(true("Admitted", at=NOW), history=RequeueHistory(attempts=lost)),
        )
    ]
    found.append(of_workload(running, workload(LIMIT.status.conditions[0], history=again), BEGUN, NOW, failed))
    assert [(n.attempts, n.submitted_at, n.started_at) for n in found if n is not None] == [
        (None, EARLIER, None),
        (1, EARLIER, NOW),
        (3, EARLIER, BEGUN),
        (11, EARLIER, None),
        (2, EARLIER, BEGUN),
    ]

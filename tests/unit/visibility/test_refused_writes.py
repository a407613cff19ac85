"""When an Event about a write that the API server refuses explains why a Job does not run, and what is said then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from job_controller.model import Job
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.lifecycle.refused_write_events import COUNTS_SECONDS
from queue_manager.visibility.diagnosis.examination import examine
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.explain_record import Explanation, explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.predictions import REFUSED_EVENT, PredictionContext
from queue_manager.visibility.refused_writes import newest_refusal, remedy, with_refusal
from queue_manager.visibility.show_record import job_view
from tests.unit.visibility.build import ADMISSION, admitted, at, cluster_queue, cond, event, job, local_queue, workload

NOW = at(1000)
POLICY = (
    "Cannot be written: workloads.kueue.x-k8s.io \"job-j-12345\" is forbidden: ValidatingAdmissionPolicy 'freeze' with "
    "binding 'freeze-all' denied request: no changes today"
)
WEBHOOK = 'Cannot be queued: admission webhook "guard.example.com" denied the request: not now'
RIGHT = (
    'Cannot be queued: workloads.kueue.x-k8s.io is forbidden: User "system:serviceaccount:s:m" cannot create resource '
    '"workloads" in API group "kueue.x-k8s.io" in the namespace "default"'
)
QUOTA = (
    'Cannot be queued: workloads.kueue.x-k8s.io "job-j-12345" is forbidden: exceeded quota: few, requested: '
    "count/workloads.kueue.x-k8s.io=1, used: 1, limited: 1"
)
INVALID = (
    'Cannot be queued: Workload.kueue.x-k8s.io "job-j-12345" is invalid: spec.queueName: Invalid value: "Bad_Name"'
)


def refusal(seconds: float = 990, message: str = POLICY, about: str = "Workload/job-j-12345", **more: Any) -> Event:
    return event("QueueingRefused", about, seconds, message=message, type="Warning", **more)


def explained(j: Job, w: Workload | None) -> Explanation:
    return explain(j, w, Surroundings(local=local_queue(), above=cluster_queue(namespaceSelector={})), NOW)


WAITS = workload(conditions=[cond("QuotaReserved", "False", "Pending", seconds=995)])
ADMITTED = workload(conditions=[cond("QuotaReserved", seconds=990)])


@pytest.mark.parametrize(
    ("its", "found", "is_refused"),
    [
        (workload(), refusal(), True),
        (workload(), refusal(1000 - COUNTS_SECONDS), True),
        (workload(), refusal(1000 - COUNTS_SECONDS - 1), False),
        (workload(), refusal(uid="of-another"), False),
        (workload(), event("Pending", seconds=990), False),
        (WAITS, refusal(990), True),
        (ADMITTED, refusal(990), True),
        (ADMITTED, refusal(989), False),
        (workload(created=995), refusal(990, WEBHOOK, "Job/j"), False),
        (None, refusal(990, WEBHOOK, "Job/j"), True),
    ],
)
def test_an_event_counts_until_a_later_write_or_while_it_is_repeated(
    its: Workload | None, found: Event, is_refused: bool
) -> None:
    assert newest_refusal(job(), its, [found], NOW) == (found if is_refused else None)


def test_the_newest_event_counts() -> None:
    older, newer = refusal(980), refusal(990, WEBHOOK)
    assert newest_refusal(job(), workload(), [newer, older], NOW) is newer


@pytest.mark.parametrize(
    ("message", "change", "command"),
    [
        (POLICY, "an admin has ValidatingAdmissionPolicy freeze, or", "kubectl get validatingadmissionpolicy freeze "),
        (WEBHOOK, "an admin has the webhook guard.example.com allow", "kubectl get validatingwebhookconfigurations,"),
        (RIGHT, "an admin grants system:serviceaccount:s:m this", "kubectl auth can-i --list --as system:service"),
        (QUOTA, "ResourceQuota few of namespace default has room", "kubectl describe resourcequota few -n default"),
        (INVALID, "what the API server names is corrected", "sluice show j"),
    ],
)
def test_who_must_allow_the_write_is_named(message: str, change: str, command: str) -> None:
    found = remedy(refusal(message=message), "j")
    assert (found.change[: len(change)], found.command[: len(command)]) == (change, command)
    assert found.of_admins == (message != INVALID)


STUCK = workload(conditions=admitted(), status={"admission": ADMISSION})


@pytest.mark.parametrize("its", [workload(), None, STUCK], ids=["pending", "without Workload", "admitted"])
def test_a_refused_write_is_a_fault_with_the_cause(its: Workload | None) -> None:
    said = with_refusal(explained(job(), its), refusal(), "j")
    assert (said.code, said.sentence) == (
        "FAULT/QueueingRefused",
        "The API server refuses what the queue manager writes about it: workloads.kueue.x-k8s.io "
        "\"job-j-12345\" is forbidden: ValidatingAdmissionPolicy 'freeze' with binding 'freeze-all' denied request: "
        "no changes today.",
    )
    assert len(said.changes) == 1
    assert said.next_command == "kubectl get validatingadmissionpolicy freeze -o yaml"


def test_what_else_the_job_waits_for_is_said_too() -> None:
    reserved = workload(
        conditions=[cond("QuotaReserved")],
        status={"admission": ADMISSION, "admissionChecks": [{"name": "c", "state": "Pending"}]},
    )
    found = explained(job(), reserved)
    said = with_refusal(found, refusal(), "j")
    assert found.code == "WAIT/UnsatisfiedAdmissionChecks"
    assert (said.sentence.endswith(f" {found.sentence}"), said.changes[1:]) == (True, found.changes)


@pytest.mark.parametrize("its", [workload(), STUCK], ids=["pending", "admitted"])
def test_show_names_the_cause_as_long_as_it_keeps_the_job_from_running(its: Workload) -> None:
    seen = job_view(job(), its, [], [refusal()], PredictionContext(), NOW)
    assert (seen.reason, seen.message, [each.what for each in seen.next]) == (
        "QueueingRefused",
        POLICY,
        [REFUSED_EVENT],
    )
    running = job_view(job(suspend=False), STUCK, [], [refusal()], PredictionContext(), NOW)
    assert (running.state, running.reason) == (JobState.STARTING, "")


SEEN = ClusterSnapshot(
    now=NOW,
    local_queues=[local_queue()],
    cluster_queues=[cluster_queue(namespaceSelector={})],
    jobs=[job("b"), job("j")],
    workloads=[workload("b"), workload("j")],
    refusals=[
        refusal(message=POLICY.replace("job-j-", "job-b-"), about="Workload/job-b-12345", uid="uid-w-b"),
        refusal(),
    ],
)


def test_doctor_finds_jobs_with_one_cause_once() -> None:
    [problem] = examine(SEEN)
    assert (problem.severity, problem.code, problem.place) == ("error", "RefusedWrites", "job/b -n default")
    assert problem.sentence == (
        "The API server refuses what the queue manager writes about 2 Jobs, such as default/b: "
        "ValidatingAdmissionPolicy 'freeze' with binding 'freeze-all' denied request: no changes today. Nothing of "
        "that starts until an admin has ValidatingAdmissionPolicy freeze, or its binding, allow what the queue manager "
        "writes."
    )
    assert problem.command == "sluice explain default/b; kubectl get validatingadmissionpolicy freeze -o yaml"


def test_doctor_warns_of_a_job_that_is_refused_itself() -> None:
    [problem] = examine(replace(SEEN, workloads=[], refusals=[refusal(message=INVALID, about="Job/j")]))
    assert (problem.severity, problem.place) == ("warning", "job/j -n default")
    assert 'about Job default/j: spec.queueName: Invalid value: "Bad_Name". Nothing' in problem.sentence


def test_doctor_finds_no_refusal_of_a_job_that_runs() -> None:
    runs = replace(SEEN, jobs=[job("j", suspend=False, status={"ready": 1, "active": 1})], workloads=[STUCK])
    assert [problem.code for problem in examine(runs)] == []

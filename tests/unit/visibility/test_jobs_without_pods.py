"""When an Event about a pod that the API server refuses is the cause of a Job, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from queue_manager.api.events import Event
from queue_manager.visibility.diagnosis.examination import examine
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.explain_record import explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.job_states import JobState, job_row
from queue_manager.visibility.jobs_without_pods import lacks_cause, with_refusal
from queue_manager.visibility.refused_writes import with_refused_pods
from tests.unit.visibility.build import admitted, at, cluster_queue, event, job, local_queue, pod, wire, workload

NOW = at(1000)
CLASS = 'pods "j-cnxcw" is forbidden: no PriorityClass with name golden was found'
QUOTA = 'pods "j-kgwdp" is forbidden: exceeded quota: few, requested: pods=1, used: 1, limited: 1'
NO_CLASS = "no pod can be created: PriorityClass golden does not exist"


def refused(seconds: float, message: str = CLASS, **more: Any) -> Event:
    return event("FailedCreate", "Job/j", seconds, message=f"Error creating: {message}", type="Warning", **more)


def started(seconds: float = 900, **status: Any) -> Any:
    return job(suspend=False, status={"startTime": wire(seconds), **status})


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([], ""),
        ([refused(950)], NO_CLASS),
        (
            [refused(950), refused(960, QUOTA)],
            "no pod can be created: exceeded quota: few, requested: pods=1, used: 1, limited: 1",
        ),
        (
            [event("FailedCreate", "Job/j", 950, message=f"(combined from similar events): Error creating: {CLASS}")],
            NO_CLASS,
        ),
        ([refused(899)], ""),
        ([refused(950, uid="of-another")], ""),
        ([event("SuccessfulCreate", "Job/j", 950)], ""),
    ],
)
def test_the_newest_answer_of_this_attempt_is_the_cause(events: list[Event], cause: str) -> None:
    its = started()
    row = job_row(its, workload(conditions=admitted(900)), NOW)
    assert (row.state, lacks_cause(row)) == (JobState.STARTING, True)
    assert with_refusal(row, its, events).cause == cause


def test_what_else_is_known_comes_before_refused_pods() -> None:
    its = started(active=1)
    assert not lacks_cause(job_row(its, workload(conditions=admitted(900)), NOW, pods=[pod()]))
    failed = started(conditions=[{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}])
    row = job_row(failed, workload(), NOW)
    assert not lacks_cause(row)
    assert with_refusal(row, failed, [refused(950)]) == row
    waiting = job_row(job(), workload(), NOW)
    assert (waiting.state, lacks_cause(waiting)) == (JobState.PENDING, False)
    victim = msgspec.structs.replace(
        job_row(started(), workload(conditions=admitted(900)), NOW), preempted_for="queue b"
    )
    assert not lacks_cause(victim)


@pytest.mark.parametrize(
    ("message", "change", "command"),
    [
        (CLASS, "what the API server names is corrected", "sluice show j"),
        (
            QUOTA,
            "ResourceQuota few of namespace default has room: an admin raises it, or objects are deleted",
            "kubectl describe resourcequota few -n default",
        ),
        (
            'admission webhook "guard" denied the request: no',
            "an admin has the webhook guard allow its pods",
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ),
    ],
)
def test_a_job_that_holds_quota_without_pods_is_a_fault_with_what_must_change(
    message: str, change: str, command: str
) -> None:
    around = Surroundings(local=local_queue(), above=cluster_queue(namespaceSelector={}))
    its = explain(started(), workload(conditions=admitted(900)), around, NOW)
    found = with_refused_pods(its, refused(950, message), "j")
    assert (found.code, found.changes, found.next_command) == ("FAULT/PodsRefused", [change], command)
    assert found.sentence.startswith("It holds its quota, but no pod can be created: ")


def test_doctor_finds_jobs_whose_pods_are_refused_for_one_cause_once() -> None:
    names = ("b", "j")
    seen = ClusterSnapshot(
        now=NOW,
        local_queues=[local_queue()],
        cluster_queues=[cluster_queue(namespaceSelector={})],
        jobs=[job(name, suspend=False, status={"startTime": wire(900)}) for name in names],
        workloads=[workload(name, conditions=admitted(900)) for name in names],
        refusals=[refused(950), refused(950, QUOTA.replace("j-", "b-"), uid="uid-b"), refused(960, QUOTA)],
    )
    [problem] = examine(seen)
    assert (problem.severity, problem.code, problem.place) == ("error", "RefusedPods", "job/b -n default")
    assert problem.sentence == (
        "The API server refuses the pods of 2 Jobs, such as default/b: exceeded quota: few, requested: pods=1, used: "
        "1, limited: 1. Quota is held without pods until ResourceQuota few of namespace default has room: an admin "
        "raises it, or objects are deleted."
    )
    assert examine(replace(seen, refusals=[refused(899)])) == []

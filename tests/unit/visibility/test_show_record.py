"""`sluice show`: the ladder of steps, attempts, requests and assignment, and what comes next."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from job_controller.model import Job, OwnerReference
from queue_manager.api.types import Workload
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.visibility.explain_record import Explanation, Position, explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.job_states import job_row
from queue_manager.visibility.obstacles import Obstacle
from queue_manager.visibility.predictions import NO_WORKLOAD, REFUSED, REFUSED_EVENT, UNSEEN_CLASS, PredictionContext
from queue_manager.visibility.released_quota_times import DELAYED
from queue_manager.visibility.show_record import JobView, job_view
from queue_manager.visibility.wire_types import Pod
from tests.unit.visibility.build import (
    ADMISSION,
    LIMIT,
    TIMED_OUT,
    Tree,
    admitted,
    at,
    cond,
    event,
    evictions,
    job,
    pod,
    requeue,
    wire,
    workload,
)

KNOWN = PredictionContext(
    settings=WorkloadSettings(pods_ready=PodsReadySettings(timeout=30, limit=2), retain_deactivated=100)
)
UNREADY = cond("PodsReady", "False", "WaitForStart", "not yet")
HOLDS: Tree = {"admission": ADMISSION}


def view(
    a_job: Job | None, its: Workload | None = None, pods: tuple[Pod, ...] = (), context: PredictionContext = KNOWN
) -> JobView:
    return job_view(a_job, its, pods, [], context, at(60))


def waits(reason: str, **more: Any) -> Workload:
    return workload(conditions=[cond("QuotaReserved", "False", reason, "m")], **more)


def starts(**more: Any) -> Workload:
    return workload(conditions=[*admitted(50), UNREADY], status={**HOLDS, **more})


RUNS = job(suspend=False)
DONE = cond("Complete", reason="CompletionsReached", seconds=50)
ENDS = "the Job ends when all its pods have succeeded (0 of 1 pods have)"
AGAIN = "keeps its place in the queue, by priority and creation time, and is tried again without a backoff"
MADE_ROOM: Tree = {
    "requeueHistory": {"attempts": [{"reason": "Preempted", "cause": "for priority 100 of ClusterQueue team-b"}]}
}
TOO_MUCH = Obstacle("can never start: asks 64 cpu, queue limit 4", "request less", never=True)
STOPS = "its pods are deleted, then its quota is released"

CASES: list[tuple[str, Job | None, Workload | None, PredictionContext, list[tuple[float | None, str]]]] = [
    ("gone", None, workload(), KNOWN, [(None, "its Job was deleted: its Workload is finished and deleted")]),
    ("ended", job(conditions=[DONE]), None, KNOWN, [(None, "nothing: it has ended")]),
    (
        "ended, with a ttl",
        job(conditions=[DONE], ttlSecondsAfterFinished=100),
        None,
        KNOWN,
        [(150, "the Job is deleted with its pods (ttlSecondsAfterFinished)")],
    ),
    (
        "given up",
        job(),
        workload(active=False, conditions=[cond("Evicted", reason=LIMIT)]),
        KNOWN,
        [
            (100, "the Job is deleted (objectRetentionPolicies)"),
            (None, "the Job stays out until: sluice reactivate j"),
        ],
    ),
    (
        "preempted, and still stopping",
        RUNS,
        workload(conditions=[cond("Evicted", reason="Preempted"), *admitted()], status={**HOLDS, **MADE_ROOM}),
        KNOWN,
        [(None, STOPS), (None, f"preempted for priority 100 of ClusterQueue team-b: {AGAIN}")],
    ),
    (
        "preempted by another version, and pending",
        job(),
        workload(conditions=[cond("Evicted", reason="Preempted"), cond("QuotaReserved", "False", "WaitingForQuota")]),
        KNOWN,
        [
            (None, "the Job starts when enough quota is free (sluice explain j)"),
            (None, f"preempted for another Workload: {AGAIN}"),
        ],
    ),
    (
        "protected from preemption, for no longer than the bound",
        RUNS,
        workload(conditions=[*admitted(50), cond("PodsReady")], status=HOLDS, annotations={"sluice/min-runtime": "1h"}),
        PredictionContext(settings=WorkloadSettings(max_min_runtime=20)),
        [(70, "the Job may be preempted from then on (sluice/min-runtime)"), (None, ENDS)],
    ),
    (
        "protected from preemption no longer",
        RUNS,
        workload(conditions=[*admitted(50), cond("PodsReady")], status=HOLDS, annotations={"sluice/min-runtime": "1h"}),
        PredictionContext(settings=WorkloadSettings(max_min_runtime=10)),
        [(None, ENDS)],
    ),
    (
        "deactivated by a user, and still stopping",
        job(),
        workload(active=False, conditions=[cond("Evicted", reason="Deactivated"), *admitted()]),
        KNOWN,
        [(None, STOPS), (None, "the Job stays out until: sluice reactivate j")],
    ),
    (
        "backoff",
        job(),
        workload(conditions=[cond("Evicted")], status=requeue(1, 90)),
        KNOWN,
        [(90, "the Job is requeued in q (retry 1 of 2)")],
    ),
    (
        "backoff that ends with giveUpAfter",
        job(),
        workload(
            conditions=[cond("Evicted", reason="PodsReadyTimeout"), UNREADY],
            status={**requeue(1, 80), "requeueHistory": {"since": wire(20), "attempts": []}},
        ),
        PredictionContext(settings=WorkloadSettings(pods_ready=PodsReadySettings(timeout=30, give_up_after=60))),
        [(80, "the Job is deactivated: its pods were not ready for too long (giveUpAfter)")],
    ),
    (
        "what never starts, with the way out",
        job(),
        waits("ExceedsMaxQuota"),
        PredictionContext([TOO_MUCH]),
        [(None, "can never start: asks 64 cpu, queue limit 4; request less")],
    ),
    (
        "what never starts for three reasons, of which one is uncertain",
        job(),
        waits("ExceedsMaxQuota"),
        PredictionContext(
            [
                TOO_MUCH,
                Obstacle("cannot start: ClusterQueue cq has no quota for gpu, unless", certain=False),
                Obstacle("can never start: no node has the label disk=ssd", "label a node", never=True),
            ]
        ),
        [
            (None, "can never start: asks 64 cpu, queue limit 4; request less"),
            (None, "also can never start: no node has the label disk=ssd; label a node"),
        ],
    ),
    (
        "backoff in a queue that is held",
        job(),
        workload(conditions=[cond("Evicted")], status=requeue(1, 90)),
        PredictionContext([Obstacle("waits: LocalQueue q is held")]),
        [(90, "the Job is requeued in q (retry 1)"), (None, "waits: LocalQueue q is held")],
    ),
    ("evicted", RUNS, workload(conditions=[cond("Evicted"), *admitted()]), KNOWN, [(None, STOPS)]),
    (
        "quota",
        job(),
        waits("WaitingForQuota"),
        KNOWN,
        [(None, "the Job starts when enough quota is free (sluice explain j)")],
    ),
    (
        "too large",
        job(),
        waits("ExceedsMaxQuota"),
        KNOWN,
        [(None, "the Job never starts, unless it requests less or an admin raises the quota (sluice explain j)")],
    ),
    (
        "gated",
        job(),
        waits("AdmissionGated", annotations={"kueue.x-k8s.io/admission-gated-by": "a"}),
        KNOWN,
        [(None, "the Job enters the queue when its admission gates are removed: a")],
    ),
    ("in line", job(), workload(), KNOWN, [(None, "the Job is tried when it is its turn in q (sluice explain j)")]),
    ("not seen yet", job(created=55), None, KNOWN, [(None, "the queue manager is about to create its Workload")]),
    (
        "left alone",
        job(),
        None,
        KNOWN,
        [(None, NO_WORKLOAD)],
    ),
    (
        "of a class that the user may not see",
        job(),
        None,
        dataclasses.replace(KNOWN, unseen_class="urgnt"),
        [(None, UNSEEN_CLASS.format("urgnt"))],
    ),
    (
        "without its prebuilt Workload",
        job(annotations={"kueue.x-k8s.io/prebuilt-workload-name": "mine"}),
        None,
        KNOWN,
        [(None, "the Job starts once prebuilt Workload mine exists and belongs to no other Job")],
    ),
    (
        "its Workload could not be started",
        job(),
        workload(conditions=[*admitted(), cond("Finished", reason="FailedToStart")]),
        KNOWN,
        [(None, REFUSED)],
    ),
    (
        "no queue",
        job(queue=""),
        None,
        KNOWN,
        [(None, "the Job starts when its spec.suspend is set to false; it is in no queue")],
    ),
    (
        "starting, first try",
        RUNS,
        starts(),
        KNOWN,
        [(80, "the Job is evicted if its pods are not all ready (retry 1 of 2 follows)"), (None, ENDS)],
    ),
    (
        "starting, last attempt",
        RUNS,
        starts(**requeue(2, None)),
        KNOWN,
        [(80, "the Job is deactivated if its pods are not all ready (its 2 retries are used up)"), (None, ENDS)],
    ),
    (
        "starting, configuration unknown",
        RUNS,
        starts(),
        PredictionContext(),
        [
            (None, "the Job is evicted if its pods are not all ready in time (waitForPodsReady; --config shows when)"),
            (None, ENDS),
        ],
    ),
    (
        "running, with deadlines",
        job(suspend=False, activeDeadlineSeconds=300, status={"startTime": wire(50), "ready": 1}),
        workload(conditions=admitted(50), status=HOLDS, maximumExecutionTimeSeconds=100),
        KNOWN,
        [
            (150, "the Job is deactivated if it still runs (maximum execution time)"),
            (350, "the Job fails if it still runs (activeDeadlineSeconds)"),
            (None, ENDS),
        ],
    ),
    (
        "running, with a deadline after the end of time",
        job(suspend=False, activeDeadlineSeconds=2**63 - 1, status={"startTime": wire(50), "ready": 1}),
        workload(conditions=admitted(50), status=HOLDS),
        KNOWN,
        [(None, ENDS)],
    ),
]


@pytest.mark.parametrize(("a_job", "its", "context", "says"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_every_state_has_its_next_step_and_time(
    a_job: Job | None, its: Workload | None, context: PredictionContext, says: list[tuple[float | None, str]]
) -> None:
    found = [(step.at, step.what) for step in view(a_job, its, context=context).next]
    assert found == [(None if seconds is None else at(seconds), what) for seconds, what in says]


def test_a_failed_pod_has_the_time_of_its_replacement() -> None:
    failed = pod(phase="Failed", exit=1, ended=55)
    assert view(RUNS, starts(), (failed,)).next[0].at == at(65)


def test_a_failed_index_has_the_time_of_its_next_pod() -> None:
    asked = job(suspend=False, completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=3)
    failed = pod("j-1-aaaaa", "Failed", index=1, failures=1, exit=1, ended=50)
    first = view(asked, starts(), (failed,)).next[0]
    assert (first.at, first.what) == (at(70), "the next pod of index 1 is created")


def test_the_index_of_a_pod_is_that_of_its_name_whatever_its_annotation_says() -> None:
    """As the Job controller counts it."""
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    found = view(job(suspend=False, **spec), pods=(pod("j-2-aaaaa", index=0), pod("j-1-aaaaa", index=1)))
    assert [(row.name, row.index) for row in found.pods] == [("j-1-aaaaa", 1), ("j-2-aaaaa", 2)]
    assert found.indexes is not None
    assert found.indexes.map[0] != found.indexes.map[1] == found.indexes.map[2]


def test_steps_are_sorted_by_time_and_within_a_second_by_cause() -> None:
    steps = view(
        job(suspend=False, status={"startTime": wire(5)}, conditions=[cond("Suspended", "False", seconds=5)]),
        workload(conditions=[cond("PodsReady", seconds=7), *reversed(admitted(5))]),
    ).history
    assert [step.text for step in steps] == [
        "Created",
        "QuotaReserved",
        "Admitted",
        "not Suspended",
        "Started",
        "PodsReady",
    ]


def test_requests_are_shown_beside_the_assignment() -> None:
    (row,) = view(RUNS, workload(requests={"cpu": "500m"}, count=3, status=HOLDS)).demand
    assert (row.resource, row.per_pod, row.pods, row.total) == ("cpu", "500m", 3, "1500m")
    assert (row.assigned, row.assigned_pods, row.flavor) == ("1", 1, "f")


def test_a_job_without_a_workload_shows_its_requests() -> None:
    (row,) = view(job(parallelism=2, completions=5)).demand
    assert (row.total, row.assigned, row.flavor) == ("2", "", "")


def test_a_workload_whose_job_is_gone_can_be_shown() -> None:
    seen = view(None, workload())
    assert (seen.name, seen.state, seen.workload) == ("j", "Orphaned", "job-j-12345")


NO_JOB = "the Workload holds its quota until it is finished or deleted: it has no Job"


@pytest.mark.parametrize(
    ("its", "state", "says"),
    [
        (
            workload(owned=False),
            "Pending",
            [(None, "the Job is tried when it is its turn in q (sluice explain job-j-12345)")],
        ),
        (
            workload(owned=False, conditions=admitted(50), status=HOLDS),
            "Reserved",
            [(80, "the Workload is evicted if its pods are not all ready (retry 1 of 2 follows)"), (None, NO_JOB)],
        ),
        (
            workload(owned=False, conditions=[cond("Evicted")], status=requeue(1, 90)),
            "Backoff",
            [(90, "the Workload is requeued in q (retry 1 of 2)")],
        ),
        (
            workload(owned=False, active=False, conditions=[cond("Evicted", reason="Deactivated")]),
            "Deactivated",
            [(None, "the Workload stays out until: sluice reactivate job-j-12345")],
        ),
        (
            workload(owned=False, conditions=[cond("Finished", reason="Succeeded")]),
            "Finished",
            [(None, "nothing: it has ended")],
        ),
    ],
)
def test_a_workload_without_owner_is_no_orphan(its: Workload, state: str, says: list[tuple[float | None, str]]) -> None:
    seen = view(None, its)
    assert seen.state == state
    assert [(step.at, step.what) for step in seen.next] == [
        (None if seconds is None else at(seconds), what) for seconds, what in says
    ]


def test_the_last_error_is_shown_in_states_after_a_failure() -> None:
    events = [event("Failed", "Pod/j-aaaaa", type="Warning", message="no such file")]
    starting = job_view(RUNS, starts(), [], events, KNOWN, at(60))
    running = job_view(job(suspend=False, status={"ready": 1}), starts(), [], events, KNOWN, at(60))
    assert (starting.last_error, running.last_error) == ("no such file", "")


STOPPED = cond("PodsReady", "False", "WaitForRecovery", "At least one pod has failed", seconds=40)


def notes(*conditions: Tree) -> list[str]:
    its = workload(conditions=[*admitted(20), STOPPED, *conditions], status={**HOLDS, **MADE_ROOM})
    return [step.note for step in view(RUNS, its).history if step.what == "PodsReady"]


def test_pods_that_were_stopped_on_purpose_are_not_presented_as_failed() -> None:
    assert notes(cond("Evicted", reason="Preempted", seconds=39)) == ["its pods were stopped"]
    assert notes(cond("Evicted", reason="PodsReadyTimeout", seconds=50)) == [""], (
        "they failed, and then came the eviction"
    )
    assert notes(cond("Evicted", "False", reason="QuotaReserved", seconds=39)) == [""], "they failed in a later run"
    assert notes() == [""]


def test_a_victim_names_who_needed_its_quota_and_no_error_of_its_pods() -> None:
    evicted = cond("Evicted", reason="Preempted", seconds=39)
    told = [event("Failed", "Pod/j-aaaaa", type="Warning", message="exit 143")]
    its = workload(conditions=[*admitted(20), STOPPED, evicted], status={**HOLDS, **MADE_ROOM})
    seen = job_view(RUNS, its, [], told, KNOWN, at(60))
    assert (seen.state, seen.preempted_for, seen.last_error) == (
        "Evicted",
        "for priority 100 of ClusterQueue team-b",
        "",
    )
    again = job_view(RUNS, starts(**MADE_ROOM), [], [], KNOWN, at(60))
    assert again.preempted_for == "", "it has quota again"


@pytest.mark.parametrize(
    ("reason", "found", "says"),
    [
        ("Suspended", Obstacle("waits: LocalQueue q is held"), "LocalQueue q is held"),
        (
            "Misconfigured",
            Obstacle("cannot start: LocalQueue q does not exist", never=True),
            "LocalQueue q does not exist",
        ),
        ("ExceedsMaxQuota", Obstacle("can never start: asks 64 cpu, queue limit 4", never=True), ""),
        ("Suspended", Obstacle("waits: LocalQueue q is held", certain=False), ""),
        ("Suspended", None, ""),
    ],
)
def test_a_job_that_its_queue_keeps_has_the_words_of_ps(reason: str, found: Obstacle | None, says: str) -> None:
    its = workload(conditions=[cond("QuotaReserved", "False", reason)])
    context = PredictionContext([found] if found is not None else [])
    assert view(job(), its, context=context).obstacle == says
    without = "" if found is None or not found.certain else found.text
    assert view(job(), None, context=context).obstacle == without
    assert view(RUNS, starts(), context=context).obstacle == ""


def outlook(**more: Any) -> Explanation:
    """What `sluice explain` says about a pending Job."""
    waiting = workload(conditions=[cond("QuotaReserved", "False", "WaitingForQuota")])
    found = explain(job(), waiting, Surroundings(), at(60))
    place = Position(cluster_queue=2, of=3, local_queue=1, ahead=None)
    return replace(found, code="WAIT/WaitingForQuota", position=place, changes=["1 cpu is released"], **more)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, []),
        ({"kept_for_it": True}, [(None, "quota that is released is kept for it (backfill)")]),
        (
            {"kept_for_it": True, "starts_by": at(90)},
            [
                (
                    90,
                    f"the Job starts at the latest, {DELAYED}; quota that is released is kept for it (backfill)",
                )
            ],
        ),
    ],
)
def test_a_pending_victim_has_its_position_and_what_it_waits_for(more: Tree, says: list[Any]) -> None:
    conditions = [cond("Evicted", reason="Preempted"), cond("QuotaReserved", "False", "WaitingForQuota")]
    context = dataclasses.replace(KNOWN, outlook=outlook(**more))
    seen = view(job(), workload(conditions=conditions, status=MADE_ROOM), context=context)
    assert seen.position is not None
    assert seen.position.cluster_queue == 2
    dated = [(at(when) if when is not None else None, what) for when, what in says]
    starts = (None, "the Job starts when 1 cpu is released (sluice explain j)")
    place = (None, f"preempted for priority 100 of ClusterQueue team-b: {AGAIN}")
    expected = sorted([starts, *dated], key=lambda each: each[0] is None)
    assert [(n.at, n.what) for n in seen.next] == [*expected, place]


@pytest.mark.parametrize(
    ("by", "release", "says"),
    [
        (90, "when team-b/x has to end", "enough quota is released for it at the latest, when team-b/x has to end"),
        (None, "not known: x", "when enough quota is released is not known: x"),
    ],
)
def test_a_pending_victim_is_told_when_enough_quota_is_released(by: int | None, release: str, says: str) -> None:
    when = at(by) if by is not None else None
    context = dataclasses.replace(KNOWN, outlook=outlook(released_by=when, release=release))
    waiting = cond("QuotaReserved", "False", "WaitingForQuota")
    victim = workload(conditions=[cond("Evicted", reason="Preempted"), waiting], status=MADE_ROOM)
    assert (when, says) in [(n.at, n.what) for n in view(job(), victim, context=context).next]
    other = workload(conditions=[waiting])
    assert says not in [n.what for n in view(job(), other, context=context).next], "it was not preempted"


@pytest.mark.parametrize(
    ("state", "a_job", "its"),
    [
        ("Starting", RUNS, starts()),
        ("Reserved", job(), workload(conditions=admitted(20), status=HOLDS)),
        ("Evicted", RUNS, workload(conditions=[TIMED_OUT, *admitted(20)], status=HOLDS)),
        ("Backoff", job(), workload(conditions=[TIMED_OUT], status=requeue(1, 90))),
        ("Deactivated", job(), workload(active=False, conditions=[cond("Evicted", reason=LIMIT)])),
        ("Failed", job(conditions=[cond("Failed", reason="BackoffLimitExceeded")]), None),
        ("Pending", job(), workload()),
    ],
)
def test_a_warning_is_shown_in_every_state_that_it_may_explain(state: str, a_job: Job, its: Workload | None) -> None:
    events = [event("Failed", "Pod/j-aaaaa", type="Warning", message="no such file")]
    seen = job_view(a_job, its, [], events, KNOWN, at(60))
    assert (seen.state, seen.last_error) == (state, "" if state == "Pending" else "no such file")


def test_a_job_is_shown_with_queue_and_priority() -> None:
    its = workload(priority=9, priorityClassRef={"group": "g", "kind": "k", "name": "urgent"})
    seen = job_view(job(queue="edited"), its, [], [], KNOWN, at(60), cluster_queue="of-the-queue")
    assert (seen.namespace, seen.name, seen.uid, seen.workload) == ("default", "j", "uid-j", "job-j-12345")
    assert (seen.queue, seen.cluster_queue) == ("q", "of-the-queue")  # the Workload's queue counts
    assert (seen.priority, seen.priority_class) == (9, "urgent")
    assert view(RUNS, starts()).cluster_queue == "cq"
    bare = view(job(queue="first"))
    assert (bare.queue, bare.workload, bare.priority, bare.priority_class) == ("first", "", 0, "")
    assert view(job(suspend=False, status={"ready": 2, "active": 3})).ready == 2
    gone = view(None, its)
    assert (gone.name, gone.uid, gone.ready) == ("j", "", 0)


def test_an_evicted_job_shows_its_evictions_and_events_in_order() -> None:
    its = workload(conditions=[TIMED_OUT], status={**requeue(2, 90), **evictions(("PodsReadyTimeout", "Slow", 2))})
    events = [event("Started", "Job/j", 20, message="by cq"), event("Admitted", seconds=10, count=3)]
    seen = job_view(job(), its, [], events, KNOWN, at(60))
    assert (seen.retries.requeues, seen.retries.requeue_at) == (2, at(90))
    assert [(e.reason, e.cause, e.count) for e in seen.retries.evictions] == [("PodsReadyTimeout", "Slow", 2)]
    assert [(e.object, e.reason, e.message, e.count, e.last) for e in seen.events] == [
        ("Workload/job-j-12345", "Admitted", "", 3, at(10)),
        ("Job/j", "Started", "by cq", 1, at(20)),
    ]
    never = view(job())
    assert (never.retries.requeues, never.retries.evictions, never.events) == (0, [], [])


def test_without_job_and_workload_there_is_nothing_to_show() -> None:
    with pytest.raises(ValueError, match="neither a Job nor a Workload"):
        view(None)


def test_the_cause_of_a_job_without_workload_is_quoted_from_its_newest_warning() -> None:
    """Also before the Job is old enough to be reported as left alone."""
    warning = event("WorkloadPriorityClassNotFound", "Job/j", 51, type="Warning", message='"urgnt" not found')
    seen = job_view(job(created=50), None, [], [warning], PredictionContext(), at(60))
    assert (seen.state, seen.reason, seen.message) == ("Pending", warning.reason, '"urgnt" not found')
    assert [step.what for step in seen.next] == [REFUSED_EVENT]


def test_a_job_gives_up_after_the_tries_since_it_was_last_activated() -> None:
    """In all, it was tried four times."""
    ends = ("PodsReadyTimeout", LIMIT) * 2
    tries = [{"start": wire(9 * i), "end": wire(9 * i + 5), "reason": reason} for i, reason in enumerate(ends)]
    counts = evictions(("PodsReadyTimeout", "WaitForStart", 4))
    given_up = [cond("Evicted", reason=LIMIT, seconds=32)]
    its = workload(active=False, conditions=given_up, status={**counts, "requeueHistory": {"attempts": tries}})
    seen = view(job(), its)
    assert (seen.retries.total_attempts, seen.retries.budget_attempts) == (4, 2)
    assert [row.of_budget for row in seen.retries.attempts] == [1, 2, 1, 2]
    again = msgspec.structs.replace(its, spec=msgspec.structs.replace(its.spec, active=True))
    assert view(job(), again).retries.budget_attempts == 0


def test_counts_and_exit_code_have_the_same_keys_in_lists_and_records() -> None:
    its = workload(status={**requeue(2, None), **evictions(("PodsReadyTimeout", "WaitForStart", 2))})
    ended = job(status={"failed": 2}, conditions=[cond("Failed", reason="BackoffLimitExceeded")])
    pods = [pod("j-a", "Failed", exit=3), pod("j-b", "Failed", exit=2)]
    listed = msgspec.to_builtins(job_row(ended, its, at(60), pods=pods))
    shown = msgspec.to_builtins(view(ended, its, tuple(pods)))
    counts = {key: shown["retries"][key] for key in ("requeues", "budgetAttempts")}
    assert {key: listed[key] for key in counts} == counts == {"requeues": 2, "budgetAttempts": 2}
    assert (listed["exitCode"], shown["exitCode"]) == (3, 3)
    assert not {"retries", "attempts"} & listed.keys()
    assert msgspec.to_builtins(view(job(), its, ()))["exitCode"] is None


def test_a_child_job_shows_that_its_owner_may_keep_it_suspended() -> None:
    child = job(queue="")
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="o", uid="u", controller=True)
    child = replace(child, metadata=replace(child.metadata, owner_references=(owner,)))
    (following,) = job_view(child, None, [], [], PredictionContext(), at(60)).next
    assert following.what.endswith("suspended again while Job o, which owns it, is queued and holds no quota")

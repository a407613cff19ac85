"""A reader that follows a Job sees its states in order, whatever it reads between the writes of several controllers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kubernetes.client import V1Job

from job_controller.conditions import is_true
from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.client.job_update import Seen, differs, follow, see
from queue_manager.visibility.followed_states import is_outdated
from queue_manager.visibility.job_states import JobState, job_row, job_state
from tests.examples import examples
from tests.unit.job_controller.test_simulation import ACTIONS, act, specs
from tests.unit.job_controller.world import Tree, World
from tests.unit.visibility.build import admitted, at, cond, job, workload

ORDER = (JobState.BACKOFF, JobState.STARTING, JobState.RUNNING, JobState.FAILED, JobState.SUCCEEDED)
UNSTOPPED = tuple(action for action in ACTIONS if action not in ("suspend", "switch"))
READY = [
    None,
    cond("PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded"),
    cond("PodsReady", reason="Started"),
    cond("PodsReady", "False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"),
]
OWNER = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}]
EVICTED = cond("Evicted", reason="PodsReadyTimeout", message="Exceeded the timeout")


class Recorded(World):
    """Keeps every version of the Job that an API server would have sent."""

    def __init__(self, spec: Tree) -> None:
        self.versions: list[Job] = []
        super().__init__(spec)

    def _store_job(self, tree: Tree, *, own: bool) -> None:
        self.versions.append(msgspec.convert(tree, Job))
        super()._store_job(tree, own=own)


def followed(jobs: list[Job], workloads: list[Workload]) -> list[Seen]:
    """What a program sees that follows these objects."""
    last: Seen | None = None
    found = []
    for a_job, its_workload in zip(jobs, workloads, strict=True):
        seen = follow(last, see(V1Job(), a_job, [its_workload], [], at(60)))
        if differs(seen, last):
            found.append(seen)
        last = seen
    return found


Step = tuple[str, int]
STEP = st.tuples(st.sampled_from(UNSTOPPED), st.integers(0, 7))
ONE_POD = {"parallelism": 1, "completions": 1, "backoffLimit": 0}
INDEX = {**ONE_POD, "completionMode": "Indexed", "backoffLimit": 2**31 - 1, "backoffLimitPerIndex": 1}

# Index 1 succeeds and is recorded; then completions becomes 1, unseen by the controller.
SHRUNK = [("fail", 0), ("restart", 0), ("succeed", 0), ("restart", 0), ("elastic", 0)]


@given(specs(), st.lists(STEP, max_size=40), st.lists(st.integers(0, 3), min_size=1), st.randoms(use_true_random=False))
@example(ONE_POD, [("run", 1), ("hear all", 0), ("fail", 0), ("hear all", 0)], [1], None)
@example(ONE_POD, [("run", 1), ("hear all", 0), ("succeed", 0), ("hear all", 0)], [1], None)
@example(INDEX, [("run", 1), ("hear all", 0), ("fail", 0), ("hear all", 0)], [0], None)
@example({**INDEX, "completions": 2}, [*SHRUNK, ("parallelism", 0), ("restart", 0)], [0], None)
@example({**INDEX, "completions": 3, "backoffLimitPerIndex": 0}, [*SHRUNK, ("restart", 0)], [0], None)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_state_goes_back_within_an_attempt_without_a_reason(
    spec: dict[str, Any], steps: list[Step], ready: list[int], skips: Any
) -> None:
    """The Workload has any PodsReady condition at any time, since its watch and that of the Job are two."""
    world = Recorded(spec)
    world.work()
    for action, number in steps:
        act(world, action, number)
        world.work()
    seen = [a_job for a_job in world.versions if skips is None or skips.random() < 0.7]
    conditions = [READY[ready[i % len(ready)]] for i in range(len(seen))]
    workloads = [workload(conditions=[*admitted(), *([c] if c else [])], owners=OWNER) for c in conditions]
    for before, after in pairwise(followed(seen, workloads)):
        was, now = before.update, after.update
        if ORDER.index(now.state) < ORDER.index(was.state):
            assert (was.state, now.state) in (("Running", "Starting"), ("Running", "Backoff"), ("Starting", "Backoff"))
            assert now.reason == "WaitForRecovery" or (was.state, now.reason) == ("Starting", "WaitForStart")
            assert not any(is_true(after.job.status.conditions, end) for end in ("FailureTarget", "SuccessCriteriaMet"))


def _status(**status: Any) -> Job:
    return job(suspend=False, status=status)


@pytest.mark.parametrize(
    ("end", "condition"),
    [("failed", "FailureTarget"), ("succeeded", "SuccessCriteriaMet")],
)
def test_a_job_whose_end_is_decided_is_still_running(end: str, condition: str) -> None:
    """Its last pod has ended and is not counted yet: that and the end come with the next write."""
    decided = job(suspend=False, status={"uncountedTerminatedPods": {end: ["u"]}}, conditions=[cond(condition)])
    assert job_state(decided, workload(conditions=admitted()), at(60)) == JobState.RUNNING


def test_a_failed_pod_before_its_replacement_is_named_in_the_reason() -> None:
    row = job_row(_status(active=1, failed=1, ready=0), workload(conditions=admitted()), at(60))
    assert (row.state, row.reason, row.message) == (
        "Starting",
        "WaitForRecovery",
        "1 pod has failed so far, none is ready yet",
    )


def test_an_update_whose_visible_parts_are_the_same_is_not_repeated() -> None:
    """A start time and a condition of the Job are written while it starts; nothing of that is shown."""
    jobs = [
        _status(active=1),
        _status(active=1, startTime="2026-01-01T00:00:20Z", terminating=0, ready=0),
        job(suspend=False, status={"active": 1}, conditions=[cond("Suspended", "False")]),
    ]
    seen = followed(jobs, [workload(conditions=admitted())] * 3)
    assert [each.update.state for each in seen] == ["Starting"]


def test_the_reason_of_a_recovery_stays_until_a_pod_is_ready() -> None:
    """A readiness probe fails: neither the Job nor, without waitForPodsReady, the Workload says that it ran."""
    jobs = [_status(active=1, ready=ready) for ready in (0, 1, 0, 0, 1, 0)]
    seen = followed(jobs, [workload(conditions=admitted())] * len(jobs))
    assert [(each.update.state, each.update.reason) for each in seen] == [
        ("Starting", ""),
        ("Running", ""),
        ("Starting", "WaitForRecovery"),
        ("Running", ""),
        ("Starting", "WaitForRecovery"),
    ]


# The life of a Job through an eviction, write by write; the Workload is evicted before its Job is suspended.
_RUNS = {"status": {"ready": 1, "active": 1}}
_LIFE: list[tuple[Job, Workload]] = [
    (job(), workload()),
    (job(), workload(conditions=admitted())),
    (job(suspend=False), workload(conditions=admitted())),
    (job(suspend=False, **_RUNS), workload(conditions=admitted())),
    (job(suspend=False, **_RUNS), workload(conditions=[EVICTED, *admitted()])),
    (job(**_RUNS), workload(conditions=[EVICTED, *admitted()])),
    (job(), workload(conditions=[EVICTED, *admitted()])),
    (job(), workload(conditions=[EVICTED])),
]


@given(st.lists(st.integers(0, len(_LIFE) - 1), min_size=2, max_size=24))
@example([3, 3, 4, 6])
@example([3, 3, 3, 5, 5, 6])
def test_a_job_that_is_being_stopped_is_never_shown_as_reserved(times: list[int]) -> None:
    """Each read takes two moments of the life: that of the Workload, then that of the Job."""
    moments = iter(sorted(times))
    last: JobState | None = None
    shown = []
    for first, second in zip(moments, moments, strict=False):
        now = job_state(_LIFE[second][0], _LIFE[first][1], at(60))
        if is_outdated(last, now):
            now = job_state(_LIFE[second][0], _LIFE[second][1], at(60))
        shown.append(now)
        last = now
    started = [place for place, state in enumerate(shown) if state in (JobState.STARTING, JobState.RUNNING)]
    assert not started or JobState.RESERVED not in shown[started[0] :]

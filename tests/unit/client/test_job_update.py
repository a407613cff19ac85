"""What `Client.watch` yields: states with their explanation, and only if they differ from what it yielded before."""

from __future__ import annotations

import pytest
from kubernetes.client import V1Job, V1ObjectMeta

from job_controller.model import Job
from queue_manager.client.errors import JobFailed, NeverStarts, Timeout
from queue_manager.client.job_update import JobUpdate, Seen, differs, may_have_cause, see
from queue_manager.visibility.job_states import JobState
from tests.unit.visibility.build import at, cond, job, workload

FAILED = cond("Failed", reason="BackoffLimitExceeded", message="Too often", seconds=50)
QUOTA = (
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor this-machine, "
    "100m more needed"
)
COMPLETE = cond("Complete", reason="CompletionsReached", message="Reached", seconds=50)


def seen(of: Job) -> Seen:
    return see(V1Job(), of, [workload()], [], at(60))


def test_the_state_of_a_job_is_that_of_the_lists() -> None:
    update = seen(job(conditions=[FAILED])).update
    assert (update.state, update.reason, update.message) == (JobState.FAILED, "BackoffLimitExceeded", "Too often")
    assert update.why == "BackoffLimitExceeded: Too often"


@pytest.mark.parametrize(
    ("reason", "message", "cause", "why"),
    [
        ("WaitingForQuota", QUOTA, "", "needs 100m more cpu (this-machine)"),
        ("BackoffLimitExceeded", "Too often", "exit 3: boom", "exit 3: boom"),
        ("DeactivatedDueToRequeuingLimitExceeded", "exceeded", "", "gave up"),
        ("", "", "", ""),
    ],
)
def test_an_update_says_why_in_the_words_of_the_lists(reason: str, message: str, cause: str, why: str) -> None:
    assert JobUpdate(V1Job(), JobState.PENDING, reason, message, cause).why == why


def test_an_update_is_printed_in_one_line() -> None:
    official = V1Job(metadata=V1ObjectMeta(namespace="default", name="train"))
    assert repr(JobUpdate(official, JobState.RUNNING)) == "<JobUpdate default/train Running>"
    waits = JobUpdate(official, JobState.PENDING, "WaitingForQuota", QUOTA)
    assert repr([waits]) == "[<JobUpdate default/train Pending: needs 100m more cpu (this-machine)>]"


@pytest.mark.parametrize(
    ("new", "changed"),
    [
        (job(suspend=False), False),
        (job(suspend=False, status={"ready": 1}), True),
        (job(suspend=False, status={"failed": 1}), True),
        (job(), True),
    ],
    ids=["the same", "a pod is ready", "a pod has failed", "suspended"],
)
def test_an_update_differs_if_a_user_has_something_new_to_see(new: Job, changed: bool) -> None:
    first = seen(job(suspend=False))
    assert differs(first, None)
    assert differs(seen(new), first) == changed


@pytest.mark.parametrize(
    ("of", "may"),
    [(job(), False), (job(suspend=False), True), (job(conditions=[FAILED]), True), (job(conditions=[COMPLETE]), False)],
    ids=["suspended", "running", "failed", "complete"],
)
def test_pods_are_read_only_where_they_may_have_a_cause(of: Job, may: bool) -> None:
    assert may_have_cause(of) == may


def test_each_error_says_what_happened_and_what_to_do_on_a_line_of_its_own() -> None:
    key = job().metadata.key
    failed = JobUpdate(V1Job(), JobState.FAILED, "BackoffLimitExceeded", "Too often", "exit 3: boom")
    waits = JobUpdate(V1Job(), JobState.PENDING, "WaitingForQuota", "no quota")
    assert str(JobFailed(failed, key, None)) == f"Job {key} failed (BackoffLimitExceeded): exit 3: boom"
    assert str(NeverStarts(V1Job(), key, "asks 5 cpu", "request less")).splitlines() == [
        f"Job {key} was created and stays: asks 5 cpu",
        "  request less",
        f"  to delete it: sluice cancel {key}, or client.cancel(error.job)",
    ]
    assert str(Timeout(key, 3, waits)) == f"Job {key} is Pending after 3 s: WaitingForQuota: no quota"

"""A Job gets new pods only while the port `PodPermits` permits them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from job_controller.controller import JobController
from job_controller.model import Job, Key
from job_controller.options import JobControllerOptions
from tests.unit.job_controller.build import created, deleted, final, job, pod, run
from tests.unit.job_controller.test_suspension import SUSPENDED
from tests.unit.job_controller.world import JOB, World

UNSUSPENDED = {"conditions": [SUSPENDED], "terminating": 0, "ready": 0, "uncountedTerminatedPods": {}}


class Allowance:
    """Permits a total number of pods."""

    def __init__(self, pods: int) -> None:
        self.pods = pods
        self._subscribers: list[Callable[[Key], None]] = []

    def may_create_pods(self, job: Job) -> bool:
        return self.pods > 0

    def creating(self, job: Job) -> AbstractContextManager[None]:
        self.pods -= 1
        return nullcontext()

    def subscribe(self, changed: Callable[[Key], None]) -> None:
        self._subscribers.append(changed)

    def grant(self, pods: int) -> None:
        self.pods = pods
        for changed in self._subscribers:
            changed(JOB)


def world_with(allowance: Allowance, **spec: object) -> World:
    world = World(spec)
    options = JobControllerOptions(sync_batch_period=0.0, writes_in_flight=1)
    world.controller = JobController(world, world.queue, world, world, world, options, allowance)
    world._notify_of_job(None, world.seen_job)
    return world


def test_an_unsuspended_job_counts_as_not_started_without_permit() -> None:
    """No Resumed and no startTime: activeDeadlineSeconds must not run without pods."""
    decision = run(job(started=None, status=UNSUSPENDED, active_deadline_seconds=5), permitted=False)
    assert decision.steps == ()
    assert decision.requeue_after is None


def test_running_pods_are_left_alone_without_permit() -> None:
    """Only spec.suspend stops running pods; a permit concerns new ones."""
    decision = run(job(parallelism=2, completions=2), pod("a"), pod("b", "Failed"), permitted=False)
    assert (created(decision), deleted(decision)) == ([], [])
    status = final(decision)
    assert (status.active, status.failed) == (1, 1)


def test_creation_ends_when_the_permit_is_withdrawn() -> None:
    world = world_with(Allowance(2), parallelism=5, completions=5)
    world.work()
    assert len(world.pods()) == 2
    assert world.job_tree is not None
    assert world.job_tree["status"]["active"] == 2


def test_a_job_is_synced_when_the_permit_is_given() -> None:
    allowance = Allowance(0)
    world = world_with(allowance, parallelism=3, completions=3)
    world.work()
    assert world.pods() == []
    assert world.queue.due == {}
    allowance.grant(3)
    world.work()
    assert len(world.pods()) == 3


def test_job_that_was_permitted_is_not_synced_when_the_permit_changes() -> None:
    allowance = Allowance(9)
    world = world_with(allowance, parallelism=3, completions=3)
    world.work()
    allowance.grant(9)
    assert world.queue.due == {}

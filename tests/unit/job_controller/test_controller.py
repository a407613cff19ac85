"""Failing writes, and changes that the cache has not received."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from job_controller.labels import TRACKING_FINALIZER
from job_controller.model import Job, Pod
from job_controller.perform import NoLabels
from tests.unit.job_controller.ledger import is_active
from tests.unit.job_controller.test_simulation import act, settle
from tests.unit.job_controller.world import Refused, World


def running(spec: dict[str, Any] | None = None) -> World:
    world = World(spec or {"parallelism": 1, "completions": 1, "backoffLimit": 6})
    world.work()
    act(world, "run", 0)
    world.deliver_all()
    world.work()
    return world


def conditions(world: World) -> dict[str, str]:
    assert world.job_tree is not None
    return {c["type"]: c["status"] for c in world.job_tree["status"].get("conditions", ())}


def test_pod_whose_deletion_was_refused_runs_on_and_is_counted() -> None:
    world = running()
    world.edit_job(suspend=True)
    world.deliver_all()
    world.refusals = {world.writes + 2}  # finalizer off, then DELETE
    world.work()
    assert conditions(world) == {}
    assert ("FailedDelete", "Error deleting: internal error") in world.events
    world.edit_job(suspend=False)
    world.deliver_all()
    world.work()
    [pod] = world.store.values()
    assert is_active(pod)
    assert pod["metadata"]["finalizers"] == [TRACKING_FINALIZER]
    settle(world)
    assert world.job_tree is not None
    assert world.job_tree["status"]["succeeded"] == 1
    assert world.names == 1, "its work was not done twice"


def test_pod_that_succeeds_unseen_while_the_job_is_suspended_is_counted() -> None:
    world = running()
    [pod] = world.store.values()
    world.end_pod(pod, 0)
    world.edit_job(suspend=True)
    world.deliver_job()
    world.work()
    world.deliver_all()
    world.work()
    assert conditions(world)["Complete"] == "True"
    assert world.names == 1


def test_job_changed_before_the_status_write_is_synced_again_at_once() -> None:
    world = running({"parallelism": 2, "completions": 2, "backoffLimit": 6})
    world.edit_job(parallelism=1)
    act(world, "succeed", 0)
    for key in list(world.seen):
        world.deliver_pod(key)
    world.work()
    assert world.job_tree is not None
    assert world.job_tree["status"]["succeeded"] == 1


def test_failed_creation_records_an_event_and_is_retried() -> None:
    world = World({"parallelism": 3, "completions": 3, "backoffLimit": 6})
    world.refusals = {2}
    world.work()
    assert ("FailedCreate", "Error creating: internal error") in world.events
    assert world.job_tree is not None
    assert world.job_tree["status"]["active"] == len(world.store) < 3
    settle(world)


def test_template_without_labels_records_an_event() -> None:
    world = World({"parallelism": 1, "completions": 1, "template": {"spec": {"restartPolicy": "Never"}}})
    with pytest.raises(NoLabels):
        world.work()
    assert ("FailedCreate", "Error creating: unable to create pods, no labels") in world.events


def test_each_pod_is_an_event() -> None:
    world = running()
    settle(world)
    assert [reason for reason, _ in world.events] == ["SuccessfulCreate", "Completed"]
    assert world.events[0][1].startswith("Created pod: j-")


def test_rejected_status_records_an_event_and_pod_counts_are_written() -> None:
    """A status that violates the rules already must not prevent the pod counts from being written."""
    world = World({"parallelism": 1, "completions": 1, "backoffLimit": 6})
    accept = world.update_job_status
    refused: list[Mapping[str, Any]] = []

    async def refuse_start_time(job: Job, status: Mapping[str, Any]) -> Job:
        if "startTime" in status:
            refused.append(status)
            raise Refused(422, "status.startTime: Invalid value")
        return await accept(job, status)

    world.update_job_status = refuse_start_time  # type: ignore[method-assign]
    world.strict = False
    world.work()
    assert len(refused) == 1
    assert ("StatusUpdateRefused", "status.startTime: Invalid value") in world.events
    assert world.job_tree is not None
    assert world.job_tree["status"] == {"active": 1, "ready": 0, "terminating": 0}


def test_job_in_a_terminating_namespace_records_no_event() -> None:
    world = World({"parallelism": 1, "completions": 1, "backoffLimit": 6})

    async def refuse(namespace: str, manifest: Mapping[str, Any]) -> Pod:
        error = Refused(403, "namespace is being terminated")
        error.body = {"details": {"causes": [{"reason": "NamespaceTerminating"}]}}  # type: ignore[attr-defined]
        raise error

    world.create_pod = refuse  # type: ignore[method-assign]
    world.work()
    assert world.events == []
    assert world.job_tree is not None
    assert world.job_tree["status"].get("active", 0) == 0

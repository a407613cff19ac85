"""Pods that no sync will count lose the tracking finalizer, and no other pods do (BEHAVIOUR.md#b34-orphans)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from job_controller.model import Job, Key, Pod
from job_controller.options import JobControllerOptions
from job_controller.orphan_finalizers import Orphans, OrphanSweeper
from tests.unit.job_controller.build import UID, at, job, pod, wire

JOB = Key("ns", "j")
END = {"type": "Complete", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": wire(at(0))}
ENDED = job(status={"conditions": [END]})
AGAIN = msgspec.structs.replace(job(), metadata=msgspec.structs.replace(job().metadata, uid="another"))
OF_ANOTHER_CONTROLLER = job(status={"conditions": [END]}, managed_by="example.com/other")


class Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class OrphanCluster:
    """A cluster with these pods; `known` is the cached Job, `stored` the live one."""

    def __init__(self, *pods: Pod, known: Job | None = None, stored: Job | None = None) -> None:
        self.pods = {p.metadata.key: p for p in pods}
        self.known, self.stored = known, stored
        self.keys: list[Orphans] = []
        self.freed: list[str] = []
        self.refusal: int | None = None
        self.sweeper = OrphanSweeper(self, self, JobControllerOptions())  # type: ignore[arg-type]

    def add(self, key: Orphans) -> None:
        self.keys.append(key)

    def job(self, key: Key) -> Job | None:
        return self.known if key == JOB else None

    async def read_job(self, key: Key) -> Job | None:
        return self.stored if key == JOB else None

    def pod(self, key: Key) -> Pod | None:
        return self.pods.get(key)

    def pods_of(self, job_uid: str) -> Iterable[Pod]:
        return [p for p in self.pods.values() if (owner := p.metadata.controller) and owner.uid == job_uid]

    async def patch_pod(self, key: Key, patch: Mapping[str, Any]) -> Pod:
        if self.refusal is not None:
            raise Refused(self.refusal)
        found = self.pods[key]
        assert patch["metadata"]["resourceVersion"] == found.metadata.resource_version  # another Job may be adopting it
        self.freed.append(key.name)
        return found

    def sweep(self) -> list[str]:
        """The pods that are released after one change of each was reported."""
        for found in list(self.pods.values()):
            self.sweeper.pod_changed(None, found)
        return self.work()

    def work(self) -> list[str]:
        for key in dict.fromkeys(self.keys):
            asyncio.run(self.sweeper.sync(key))
        return self.freed


def owned(name: str = "a", *, api: str = "batch/v1", kind: str = "Job", **more: Any) -> Pod:
    found = pod(name, "Succeeded", **more)
    reference = msgspec.structs.replace(found.metadata.owner_references[0], api_version=api, kind=kind)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, owner_references=(reference,))
    )


@pytest.mark.parametrize("now", [None, ENDED, AGAIN], ids=["gone", "finished", "made anew under its name"])
def test_pods_are_released_when_their_job_is_gone_or_finished(now: Job | None) -> None:
    assert OrphanCluster(owned("a"), owned("b"), known=now, stored=now).sweep() == ["a", "b"]


@pytest.mark.parametrize("now", [job(), OF_ANOTHER_CONTROLLER], ids=["it runs", "another controller's"])
def test_pods_are_kept_while_their_job_counts_them(now: Job) -> None:
    assert OrphanCluster(owned(), known=now, stored=now).sweep() == []


@pytest.mark.parametrize("known", [None, ENDED, AGAIN])
def test_a_job_that_the_cache_does_not_know_yet_keeps_its_pods(known: Job | None) -> None:
    assert OrphanCluster(owned(), known=known, stored=job()).sweep() == []


def test_job_that_ends_or_is_deleted_enqueues_its_pods() -> None:
    for new in (ENDED, None):
        cluster = OrphanCluster(owned("a"), owned("b", tracked=False), known=new, stored=new)
        cluster.sweeper.job_changed(job(), new)
        assert cluster.work() == ["a"]
    quiet = OrphanCluster(owned("a"), owned("b", tracked=False), known=job(), stored=job())
    quiet.sweeper.job_changed(None, job())
    done = OrphanCluster(owned("b", tracked=False), known=ENDED, stored=ENDED)
    done.sweeper.job_changed(job(), ENDED)
    assert quiet.keys == done.keys == []


def test_pod_without_controller_is_released_unless_it_is_adopted_first() -> None:
    lost = pod("lost", owner=None)
    assert OrphanCluster(lost).sweep() == ["lost"]
    for after in (pod("lost"), pod("lost", owner=None, tracked=False), None):
        cluster = OrphanCluster(lost)
        cluster.sweeper.pod_changed(None, lost)
        cluster.pods = {after.metadata.key: after} if after is not None else {}
        assert cluster.work() == []


@pytest.mark.parametrize(
    ("api", "kind"), [("apps/v1", "ReplicaSet"), ("batch.volcano.sh/v1", "Job"), ("batch/v1", "X")]
)
def test_pods_of_other_controllers_are_ignored(api: str, kind: str) -> None:
    assert OrphanCluster(owned(api=api, kind=kind)).sweep() == []


def test_untracked_and_deleted_pods_are_ignored() -> None:
    cluster = OrphanCluster()
    cluster.sweeper.pod_changed(None, owned(tracked=False))
    cluster.sweeper.pod_changed(owned(), None)
    assert cluster.keys == []


def test_failed_patch_is_retried_unless_the_pod_changed_or_is_gone() -> None:
    for status in (404, 409):
        cluster = OrphanCluster(owned())
        cluster.refusal = status
        assert cluster.sweep() == []
    cluster.refusal = 500
    with pytest.raises(Refused):
        cluster.work()


def test_a_sweep_is_named_by_its_job_or_its_pod() -> None:
    assert str(Orphans("ns", job="j", uid=UID)) == "ns/j"
    assert str(Orphans("ns", pod="p")) == "ns/p"

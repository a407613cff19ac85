"""The whole Job controller on the embedded API server, in virtual time, with a scripted kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any, Literal

import msgspec
import pytest

from job_controller.model import Pod
from job_controller.options import JobControllerOptions
from queue_manager.api.api_resources import EVENTS, JOBS, PODS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.hosting.job_controller_port import attach_job_controller
from queue_manager.local.controllers.garbage_collector import GarbageCollector
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store, StoredChange
from queue_manager.simulation.kubelet import Kubelet, PodScript, Script
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock

Tree = dict[str, Any]


class Cluster:
    """The server, one user, and a record of every write."""

    def __init__(self) -> None:
        self.clock = virtual_clock()
        self.store = Store(self.clock, Random(1))
        self.server = ApiServer(self.store, KindRegistry.builtin(), self.clock)
        self.user = RestClient(LocalTransport(self.server, "user"))
        self.history: list[tuple[str, str, Tree]] = []
        self.store.subscribe(self._record)

    def _record(self, change: StoredChange) -> None:
        self.history.append((change.type, str(change.resource), msgspec.json.decode(change.new.data)))

    def transport(self) -> Transport:
        """That of the controllers."""
        return LocalTransport(self.server, "system:sluice")

    @asynccontextmanager
    async def controllers(self, script: Script, options: JobControllerOptions | None = None) -> Any:
        runtime = Runtime(self.transport(), self.clock, Random(2))
        attach_job_controller(runtime, options)
        runtime.task(GarbageCollector(self.server).run)
        Kubelet(runtime, script)
        async with runtime:
            yield

    async def submit(self, **spec: Any) -> Tree:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
        metadata = {"name": spec.pop("name", "j"), "annotations": spec.pop("annotations", {})}
        tree = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}
        return await self.user.create(JOBS, "default", tree)

    async def job(self, name: str = "j") -> Tree:
        return await self.user.get(JOBS, "default", name)

    async def pods(self) -> list[Tree]:
        return await self.user.list(PODS, "default")

    async def until(self, holds: Callable[[], Awaitable[object]], seconds: float = 3600) -> None:
        async with asyncio.timeout(seconds):
            while not await holds():
                await asyncio.sleep(0.1)

    async def finished(self, name: str = "j") -> Tree:
        """The status of the Job once it has a terminal condition."""

        async def ended() -> bool:
            return any(
                c["type"] in ("Complete", "Failed") for c in (await self.job(name))["status"].get("conditions", ())
            )

        await self.until(ended)
        status: Tree = (await self.job(name))["status"]
        return status

    async def events(self) -> list[str]:
        found = await self.user.list(EVENTS, "default")
        return [event["reason"] for event in found]


def types(status: Tree) -> list[str]:
    return [condition["type"] for condition in status["conditions"]]


def virtually(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtual(test(), until=timedelta(days=3))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def always(**outcome: Any) -> Script:
    return lambda pod: PodScript(**outcome)


@virtually
async def test_job_runs_to_completion_in_few_writes() -> None:
    cluster = Cluster()
    async with cluster.controllers(always()):
        await cluster.submit(completions=3, parallelism=3)
        status = await cluster.finished()
        assert (status["succeeded"], types(status)) == (3, ["SuccessCriteriaMet", "Complete"])
        assert status["completionTime"] == status["conditions"][1]["lastTransitionTime"]
        assert status["terminating"] == status["ready"] == 0
        assert status["uncountedTerminatedPods"] == {}
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.pods())
        rest = len(cluster.history)
        await asyncio.sleep(3600)
        assert len(cluster.history) == rest
        assert set(await cluster.events()) == {"SuccessfulCreate", "Completed"}
    statuses = [tree["status"] for _, resource, tree in cluster.history if resource == "jobs.batch"]
    assert len(statuses) == 5  # created, started, ready, noted, finished


@virtually
async def test_elastic_job_ends_although_parallelism_changed_too() -> None:
    cluster = Cluster()

    def script(pod: Pod) -> PodScript:
        ends = {"0": 1, "3": 1, "4": 1}.get(pod.metadata.annotations["batch.kubernetes.io/job-completion-index"], 60)
        return PodScript(ends_after=ends)

    async with cluster.controllers(script):
        await cluster.submit(completions=5, parallelism=5, completionMode="Indexed")
        await asyncio.sleep(30)
        for spec in ({"completions": 2, "parallelism": 2}, {"parallelism": 1}):
            await cluster.user.patch(JOBS, "default", "j", {"spec": spec})
        status = await cluster.finished()
        assert (status["completedIndexes"], types(status)) == ("0,1", ["SuccessCriteriaMet", "Complete"])
        assert "StatusUpdateRefused" not in await cluster.events()


@virtually
async def test_pod_with_a_foreign_deleting_annotation_is_counted_once() -> None:
    """The annotation comes from the template, or from another Job that released the pod during a deletion."""
    cluster = Cluster()
    async with cluster.controllers(always()):
        spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}
        template = {"metadata": {"annotations": {"sluice/deleting": "true"}}, "spec": spec}
        await cluster.submit(completions=5, parallelism=1, template=template)
        await cluster.finished()
        assert len(await cluster.pods()) == 5


@virtually
async def test_terminal_event_is_recorded_however_many_pods_the_job_had() -> None:
    cluster = Cluster()
    async with cluster.controllers(always()):
        await cluster.submit(completions=40, parallelism=40)
        await cluster.finished()
        await asyncio.sleep(10)
        recorded = {event["message"]: event["count"] for event in await cluster.user.list(EVENTS, "default")}
    assert recorded["Job completed"] == 1
    assert sum(recorded.values()) == 26


@pytest.mark.thorough
@virtually
async def test_large_job_is_synced_less_often_except_at_its_end() -> None:
    """400 pods that end ten per second: a window of 1 s is 2 s at first, and 1 s for the last pods."""
    cluster = Cluster()
    looks: list[tuple[float, int]] = []  # when the status was written, and the pods that still ran
    loop = asyncio.get_running_loop()

    def note(change: StoredChange) -> None:
        if str(change.resource) == "jobs.batch":
            looks.append((loop.time(), msgspec.json.decode(change.new.data)["status"].get("active", 0)))

    cluster.store.subscribe(note)

    def script(pod: Pod) -> PodScript:
        index = int(pod.metadata.annotations["batch.kubernetes.io/job-completion-index"])
        return PodScript(ends_after=20 + index / 10)

    async with cluster.controllers(script, JobControllerOptions(sync_batch_period=1.0)):
        await cluster.submit(completions=400, parallelism=400, completionMode="Indexed")
        await cluster.finished()
    ending = [(at, active) for at, active in looks if 0 < active < 390]
    gaps = [(later - at, active) for (at, active), (later, _) in pairwise(ending)]
    assert all(gap >= min(1.4, active / 200) - 0.2 for gap, active in gaps if active > 220)
    assert any(gap >= 1.5 for gap, _ in gaps)
    assert all(gap <= 1.3 for gap, active in gaps if active < 150)
    assert looks[-1][0] - ending[-1][0] <= 2.0


@virtually
async def test_failures_back_off_and_end_in_backoff_limit_exceeded() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=1.0, exit_code=1)):
        await cluster.submit(backoffLimit=3)
        status = await cluster.finished()
        assert (status["failed"], types(status)) == (4, ["FailureTarget", "Failed"])
        assert status["conditions"][1]["reason"] == "BackoffLimitExceeded"
        pods = sorted(await cluster.pods(), key=lambda pod: pod["metadata"]["creationTimestamp"])
        created = [datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in pods]
        waits = [(after - before).total_seconds() for before, after in pairwise(created)]
        assert [round(wait / 10) for wait in waits] == [1, 2, 4]


@virtually
async def test_restart_in_the_middle_of_the_backoff_does_not_shorten_it() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=1.0, exit_code=1)):
        await cluster.submit(backoffLimit=9)

        async def three_failed() -> bool:
            return bool((await cluster.job())["status"].get("failed", 0) == 3)

        await cluster.until(three_failed)
    began = cluster.clock.now()
    async with cluster.controllers(always(ends_after=None)):
        await asyncio.sleep(30)
        assert len(await cluster.pods()) == 3

        async def replaced() -> bool:
            return len(await cluster.pods()) == 4

        await cluster.until(replaced)
    assert cluster.clock.now() - began > timedelta(seconds=38)


@virtually
async def test_indexed_job_retries_each_index() -> None:
    def script(pod: Pod) -> PodScript:
        index = pod.metadata.annotations["batch.kubernetes.io/job-completion-index"]
        return PodScript(ends_after=1.0, exit_code=int(index == "1"))

    cluster = Cluster()
    async with cluster.controllers(script):
        await cluster.submit(completionMode="Indexed", completions=3, parallelism=3, backoffLimitPerIndex=1)
        status = await cluster.finished()
        assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == ("0,2", "1", 2)
        assert status["conditions"][-1]["reason"] == "FailedIndexes"


@virtually
async def test_success_policy_ends_remaining_pods() -> None:
    def script(pod: Pod) -> PodScript:
        index = pod.metadata.annotations["batch.kubernetes.io/job-completion-index"]
        return PodScript(ends_after=2.0 if index == "0" else None)

    cluster = Cluster()
    async with cluster.controllers(script):
        rules = [{"succeededIndexes": "0"}]
        await cluster.submit(completionMode="Indexed", completions=3, parallelism=3, successPolicy={"rules": rules})
        status = await cluster.finished()
        assert (status["succeeded"], status.get("failed", 0), len(await cluster.pods())) == (1, 0, 1)
        assert types(status) == ["SuccessCriteriaMet", "Complete"]


@virtually
async def test_suspending_and_resuming_starts_over_without_failures() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=20)):
        await cluster.submit(completions=2, parallelism=2)
        await asyncio.sleep(5)
        await cluster.user.patch(JOBS, "default", "j", {"spec": {"suspend": True}})

        async def gone() -> bool:
            return not await cluster.pods()

        await cluster.until(gone)
        await asyncio.sleep(60)
        status = (await cluster.job())["status"]
        assert "startTime" not in status
        assert [(c["type"], c["status"]) for c in status["conditions"]] == [("Suspended", "True")]
        await cluster.user.patch(JOBS, "default", "j", {"spec": {"suspend": False}})
        status = await cluster.finished()
        assert (status["succeeded"], status.get("failed", 0)) == (2, 0)
        assert (status["conditions"][0]["type"], status["conditions"][0]["status"]) == ("Suspended", "False")


@virtually
async def test_deadline_ends_a_job_that_hangs() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=None)):
        began = cluster.clock.now()
        await cluster.submit(activeDeadlineSeconds=30)
        status = await cluster.finished()
        assert status["conditions"][-1]["reason"] == "DeadlineExceeded"
        assert timedelta(seconds=29) < cluster.clock.now() - began < timedelta(seconds=33)


@virtually
async def test_finished_job_is_deleted_when_its_ttl_expires() -> None:
    cluster = Cluster()
    async with cluster.controllers(always()):
        await cluster.submit(ttlSecondsAfterFinished=100)
        await cluster.finished()
        await asyncio.sleep(90)
        assert await cluster.job()

        async def gone() -> bool:
            try:
                return not await cluster.job()
            except ApiError as error:
                return error.status == 404

        await cluster.until(gone, seconds=20)
        assert await cluster.pods() == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_no_pod_keeps_the_finalizer_of_a_deleted_job(propagation: str) -> None:
    async def scenario() -> None:
        cluster = Cluster()
        async with cluster.controllers(always(ends_after=None)):
            await cluster.submit(completions=3, parallelism=3)
            await asyncio.sleep(5)
            await cluster.user.delete(JOBS, "default", "j", propagation=propagation)
            await asyncio.sleep(60)
            with pytest.raises(ApiError):
                await cluster.job()
            pods = await cluster.pods()
            assert len(pods) == (3 if propagation == "Orphan" else 0)
            assert not any(pod["metadata"].get("finalizers") for pod in pods)

    run_virtual(scenario(), until=timedelta(hours=1))


class DeletedBeforeItsStatus(Cluster):
    """Each Job is deleted just before the controller writes its status the first time, so that the write gets a 404."""

    def transport(self) -> Transport:
        return Deleting(super().transport(), self.user)


class Deleting(Relay):
    def __init__(self, inner: Transport, user: RestClient) -> None:
        super().__init__(inner)
        self.user = user

    async def request(self, request: Request) -> Response:
        if request.method != "PATCH" or not request.path.endswith("/jobs/j/status"):
            return await super().request(request)
        await self.user.delete(JOBS, "default", "j", propagation="Background")
        answer = await super().request(request)
        assert answer.status == 404
        return answer


def test_a_job_that_is_deleted_before_its_status_is_written_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster = DeletedBeforeItsStatus()
        async with cluster.controllers(always()):
            await cluster.submit()
            await asyncio.sleep(60)
            assert await cluster.user.list(JOBS, "default") == []
            assert await cluster.pods() == []

    run_virtual(scenario(), until=timedelta(hours=1))
    assert [record.getMessage() for record in caplog.records] == []


@virtually
async def test_pods_of_a_job_deleted_while_the_controller_was_down_are_released() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=None)):
        await cluster.submit()
        await asyncio.sleep(5)
    await cluster.user.delete(JOBS, "default", "j", propagation="Background")
    assert (await cluster.pods())[0]["metadata"]["finalizers"]
    async with cluster.controllers(always(ends_after=None)):

        async def gone() -> bool:
            return not await cluster.pods()

        await cluster.until(gone, seconds=60)


@virtually
async def test_job_recreated_under_its_name_inherits_nothing() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=1.0, exit_code=1)):
        await cluster.submit()
        await asyncio.sleep(5)
        await cluster.user.delete(JOBS, "default", "j", propagation="Background")
        await cluster.submit()
        await asyncio.sleep(1)
        job = await cluster.job()
        assert [pod["metadata"]["ownerReferences"][0]["uid"] for pod in await cluster.pods()] == [
            job["metadata"]["uid"]
        ]


@virtually
async def test_job_of_another_manager_is_left_alone() -> None:
    cluster = Cluster()
    async with cluster.controllers(always()):
        await cluster.submit(managedBy="example.com/mine")
        await asyncio.sleep(60)
        assert "conditions" not in (await cluster.job()).get("status", {})
        assert await cluster.pods() == []


@virtually
async def test_beside_a_built_in_controller_only_own_jobs_with_own_finalizer_run() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=None), JobControllerOptions(manage="ManagedBy")):
        await cluster.submit(name="theirs")
        await cluster.submit(name="ours", managedBy="sluice/job-controller")
        await asyncio.sleep(10)
        pods = await cluster.pods()
        assert [pod["metadata"]["generateName"] for pod in pods] == ["ours-"]
        assert pods[0]["metadata"]["finalizers"] == ["sluice/job-tracking"]


def managing(whom: Literal["All", "ManagedBy"]) -> JobControllerOptions:
    return JobControllerOptions(manage=whom)


@pytest.mark.parametrize(("before", "after"), [("ManagedBy", "All"), ("All", "ManagedBy")])
def test_pods_made_before_a_change_of_manage_are_counted_after_it(
    before: Literal["All", "ManagedBy"], after: Literal["All", "ManagedBy"]
) -> None:
    """They have the other finalizer and still belong to the Job."""

    @virtually
    async def scenario() -> None:
        cluster = Cluster()
        async with cluster.controllers(always(ends_after=None), managing(before)):
            await cluster.submit(managedBy="sluice/job-controller", completions=2, parallelism=2)
            await asyncio.sleep(5)
            names = {pod["metadata"]["name"] for pod in await cluster.pods()}
        async with cluster.controllers(always(ends_after=5), managing(after)):
            status = await cluster.finished()
            assert (types(status)[-1], status["succeeded"]) == ("Complete", 2)
            assert {pod["metadata"]["name"] for pod in await cluster.pods()} == names
            assert not any(pod["metadata"].get("finalizers") for pod in await cluster.pods())

    scenario()


@virtually
async def test_pods_of_a_job_deleted_during_a_change_of_manage_are_released() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=None), managing("ManagedBy")):
        await cluster.submit(managedBy="sluice/job-controller", completions=2, parallelism=2)
        await asyncio.sleep(5)
    await cluster.user.delete(JOBS, "default", "j", propagation="Background")
    async with cluster.controllers(always(ends_after=None), managing("All")):

        async def gone() -> bool:
            return not await cluster.pods()

        await cluster.until(gone)


@virtually
async def test_pod_that_lost_its_label_is_released_and_adopted_again_when_it_is_back() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=None)):
        job = await cluster.submit()
        await asyncio.sleep(5)
        [pod] = await cluster.pods()
        name, label = pod["metadata"]["name"], "batch.kubernetes.io/controller-uid"
        await cluster.user.patch(PODS, "default", name, {"metadata": {"labels": {label: "other"}}})
        await asyncio.sleep(5)
        pods = {pod["metadata"]["name"]: pod["metadata"] for pod in await cluster.pods()}
        assert len(pods) == 2
        assert not pods[name].get("ownerReferences")
        assert not pods[name].get("finalizers")
        uid = job["metadata"]["uid"]
        await cluster.user.patch(PODS, "default", name, {"metadata": {"labels": {label: uid}}})
        await asyncio.sleep(5)
        assert len(await cluster.pods()) == 1


@pytest.mark.thorough
@virtually
async def test_a_pod_that_succeeds_costs_the_controller_two_writes() -> None:
    cluster = Cluster()
    async with cluster.controllers(always(ready_after=1.0, ends_after=5.0)):
        await cluster.submit(completionMode="Indexed", completions=200, parallelism=200)
        status = await cluster.finished()
        assert status["completedIndexes"] == "0-199"
    ours = [(change, tree) for change, resource, tree in cluster.history if resource == "pods"]
    assert sum(change == "ADDED" for change, _ in ours) == 200
    assert len(ours) == 200 * 5  # created, bound, running, succeeded, released

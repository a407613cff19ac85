"""A tour of everything for which the managers need a right, on a real server behind a proxy that can refuse a write."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from job_controller.model import Pod
from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, EVENTS, JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from queue_manager.api.keys import MAX_EXEC_TIME, QUEUE_NAME
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.simulation.kubelet import PodScript
from tests.control_plane.manager.proxy import Proxy
from tests.control_plane.manager.scenario import QUICK, Scenario
from tests.waiting import until

# Jobs of all managers, shares of cohorts, and retention that deletes at once: each is a reason for a right.
SETTINGS: dict[str, Any] = {
    "jobController": {"manage": "All"},
    "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
    "objectRetentionPolicies": {"workloads": {"afterFinished": "1s", "afterDeactivatedByKueue": "0s"}},
}
ENDLESS = "endless"


def script(pod: Pod) -> PodScript:
    """Pods of the Jobs whose names begin with ENDLESS run until they are deleted."""
    endless = pod.metadata.name.startswith(ENDLESS)
    return PodScript(ready_after=0.1, ends_after=None, stops_within=0.1) if endless else QUICK


@dataclass(frozen=True)
class Tour:
    scenario: Scenario
    proxy: Proxy

    async def run(self) -> None:
        """Of an installation with the queue and ClusterQueues on the API server."""
        await self._queues()
        await self._jobs_in_queues()
        await self.a_cluster_queue_is_reported_twice()

    async def run_with_roles_only(self) -> None:
        """Of an installation that has its ClusterQueue `team` in a file."""
        local_queue = {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "team"}}
        await self.scenario.api.create(LOCAL_QUEUES, self.scenario.namespace, local_queue)
        await self._jobs_in_queues()

    async def run_without_queue(self) -> None:
        """Of an installation with the Job controller only."""
        scenario, api = self.scenario, self.scenario.api
        await scenario.submit("ends", queue="", suspend=False, parallelism=2, completions=2)
        await scenario.until_finished("ends")
        await scenario.submit("expires", queue="", suspend=False, ttlSecondsAfterFinished=0)
        await until(lambda: self._deleted("expires"), "the Job controller deletes the Job")
        job = f"{ENDLESS}-1"
        await scenario.submit(job, queue="", suspend=False)
        for _ in range(2):
            await until(lambda: self._active(job, 1), "its pod is active")
            await api.patch(JOBS, scenario.namespace, job, {"spec": {"suspend": True}})
            await until(lambda: self._active(job, 0), "its pod is deleted")
            await api.patch(JOBS, scenario.namespace, job, {"spec": {"suspend": False}})
        await until(lambda: self._is_counted(job, "Suspended"), "the Job controller's Event is counted")
        await api.delete(JOBS, scenario.namespace, job)
        await scenario.submit(f"{ENDLESS}-2", queue="", suspend=False)
        await until(lambda: self._active(f"{ENDLESS}-2", 1), "its pod is active")
        await self._add_orphan(f"{ENDLESS}-2")
        with self._refused(r"/jobs/[^/]+/status"):
            await scenario.submit("conflict", queue="", suspend=False)
            await scenario.until_finished("conflict")

    async def _jobs_in_queues(self) -> None:
        await self.a_job_ends()
        await self.a_finished_job_expires()
        await self.a_job_is_stopped_twice()
        await self.a_job_exceeds_its_time()
        await self.an_orphan_is_adopted()
        await self.a_job_whose_pods_are_refused_is_stopped()
        await self.writes_conflict()

    async def _queues(self) -> None:
        name, api = self.scenario.namespace, self.scenario.api
        await self.scenario.queues()
        await api.create(COHORTS, "", {"metadata": {"name": name}, "spec": {}})
        await api.patch(CLUSTER_QUEUES, "", name, {"spec": {"cohortName": name}})

        async def shared() -> bool:
            return "fairSharing" in (await api.get(COHORTS, "", name)).get("status", {})

        await until(shared, "the Cohort has its share")

    async def a_job_ends(self) -> None:
        """Pods are created and lose their finalizer; the finished Workload is deleted."""
        await self.scenario.submit("ends", parallelism=2, completions=2)
        await self.scenario.until_finished("ends")
        await until(lambda: self._without_workload("ends"), "the finished Workload is deleted")

    async def a_finished_job_expires(self) -> None:
        await self.scenario.submit("expires", ttlSecondsAfterFinished=0)
        await until(lambda: self._deleted("expires"), "the Job controller deletes the Job")

    async def a_job_is_stopped_twice(self) -> None:
        """Its pods are deleted. The second time the Events of both controllers are counted instead of repeated."""
        job = f"{ENDLESS}-1"
        await self.scenario.submit(job)
        for _ in range(2):
            await self.scenario.until_admitted(job)
            await until(lambda: self._active(job, 1), "its pod is active")
            await self._set_active(job, active=False)
            await until(lambda: self._active(job, 0), "its pod is deleted")
            await self._set_active(job, active=True)
        await until(lambda: self._is_counted(job, "Suspended"), "the Job controller's Event is counted")
        await until(lambda: self._is_counted(job, "Stopped"), "the queue's Event is counted")
        await self.scenario.api.delete(JOBS, self.scenario.namespace, job)

    async def a_job_exceeds_its_time(self) -> None:
        """The queue deactivates its Workload and deletes the Job."""
        job = f"{ENDLESS}-2"
        await self.scenario.submit(job, queue="")
        labels = {MAX_EXEC_TIME: "1", QUEUE_NAME: "lq"}
        await self.scenario.api.patch(JOBS, self.scenario.namespace, job, {"metadata": {"labels": labels}})
        await until(lambda: self._deleted(job), "the queue deletes the Job")

    async def an_orphan_is_adopted(self) -> None:
        """The Job controller reads the Job before it adopts a pod."""
        job = f"{ENDLESS}-3"
        await self.scenario.submit(job)
        await self.scenario.until_admitted(job)
        await until(lambda: self._active(job, 1), "its pod is active")
        await self._add_orphan(job)

    async def a_job_whose_pods_are_refused_is_stopped(self) -> None:
        """The queue reads why, to record the cause."""
        job = f"{ENDLESS}-4"
        self.proxy.refuse(422, 1_000, to=lambda request: request.method == "POST" and request.path.endswith("/pods"))
        await self.scenario.submit(job)
        await self.scenario.until_admitted(job)
        await until(lambda: self._is_counted(job, "FailedCreate", 1), "the Job controller says why it has no pod")
        await self._set_active(job, active=False)

        async def recorded() -> bool:
            status = (await self.scenario.workload(job))["status"]
            attempts = status.get("requeueHistory", {}).get("attempts", [])
            return [attempt["podCause"][:22] for attempt in attempts] == ["no pod can be created:"]

        await until(recorded, "the cause is recorded")
        self.proxy.refusals.pop()
        await self.scenario.api.delete(JOBS, self.scenario.namespace, job)

    async def _add_orphan(self, job: str) -> None:
        """Wait until a pod with the labels of the Job has an owner, and delete the Job."""
        [pod] = await self.scenario.pods(job)
        meta = {"name": f"{job}-orphan", "labels": pod["metadata"]["labels"]}
        spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
        await self.scenario.api.create(PODS, self.scenario.namespace, {"metadata": meta, "spec": spec})

        async def adopted() -> bool:
            """Or deleted at once, since one pod is enough."""
            pods = await self.scenario.pods(job)
            return all(pod["metadata"].get("ownerReferences") for pod in pods)

        await until(adopted, "the orphan has an owner")
        await self.scenario.api.delete(JOBS, self.scenario.namespace, job)

    async def a_cluster_queue_is_reported_twice(self) -> None:
        """Events about objects without a namespace are in another one than those about Jobs."""
        api, name = self.scenario.api, self.scenario.namespace
        policy = {"migration": {"mode": "TryPreferredFlavors"}}  # has no effect
        changes = ({"concurrentAdmissionPolicy": policy}, {"fairSharing": {"weight": "2"}})
        for times, change in enumerate(changes, start=1):
            await api.patch(CLUSTER_QUEUES, "", name, {"spec": change})
            reported = partial(self._is_counted, name, "FieldsWithoutEffect", times, "default")
            await until(reported, "an Event says so")

    async def writes_conflict(self) -> None:
        """Each writer reads its object after a conflict."""
        for number, path in enumerate((r"/jobs/[^/]+", r"/jobs/[^/]+/status", r"/workloads/[^/]+/status")):
            with self._refused(path):
                await self.scenario.submit(f"conflict-{number}")
                await self.scenario.until_finished(f"conflict-{number}")

    @contextlib.contextmanager
    def _refused(self, path: str) -> Iterator[None]:
        """The next PATCH of such a path is answered with a conflict."""
        before = self.proxy.refused
        wanted = re.compile(rf".*{path}")
        self.proxy.refuse(409, 1, to=lambda request: _patches(request, wanted))
        yield
        assert self.proxy.refused == before + 1, f"no PATCH of {path}"

    # --- what is waited for ---

    async def _without_workload(self, job: str) -> bool:
        workloads = await self.scenario.api.list(WORKLOADS, self.scenario.namespace)
        return not any(w["metadata"]["ownerReferences"][0]["name"] == job for w in workloads)

    async def _deleted(self, job: str) -> bool:
        """Gone, or waiting for the garbage collector, which does not run here."""
        try:
            return "deletionTimestamp" in (await self.scenario.job(job))["metadata"]
        except ApiError as error:
            return error.is_not_found

    async def _active(self, job: str, count: int) -> bool:
        return (await self.scenario.job(job))["status"].get("active", 0) == count

    async def _is_counted(self, name: str, reason: str, count: int = 2, namespace: str = "") -> bool:
        """Whether an Event about an object has happened so many times."""
        events = await self.scenario.api.list(EVENTS, namespace or self.scenario.namespace)
        about = [e for e in events if (e["involvedObject"]["name"], e["reason"]) == (name, reason)]
        return any(event["count"] >= count for event in about)

    async def _set_active(self, job: str, *, active: bool) -> None:
        name = (await self.scenario.workload(job))["metadata"]["name"]
        await self.scenario.api.patch(WORKLOADS, self.scenario.namespace, name, {"spec": {"active": active}})


def _patches(request: web.Request, path: re.Pattern[str]) -> bool:
    return request.method == "PATCH" and path.fullmatch(request.path) is not None

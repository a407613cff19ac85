"""What a scrape returns after a history of Jobs: each family of the Job controller has the value that it implies."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from job_controller.model import Pod
from queue_manager.api.api_resources import NODES, PODS
from queue_manager.api.metric_families import JOBS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.hosting.job_controller_port import attach_job_controller
from queue_manager.hosting.pod_controllers import attach_pod_controllers
from queue_manager.simulation.kubelet import Kubelet, PodScript
from queue_manager.simulation.virtual_time import run_virtual
from tests.unit.job_controller.test_on_the_api_server import Cluster

FAIL_JOB = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}
FAILING = {"policy": 3, "indexed-1": 1}  # exit codes of pods, by the beginning of their names
STUCK = "stuck"  # a pod that the pod garbage collector may not delete

# Pods: three, three, one and one. The two orphans and all ended pods are on nodes that are gone, so the garbage
# collector of pods deletes them, and tries to every 20 seconds with the one that it may not delete.
EXPECTED = """\
job_controller_job_finished_indexes_total{backoffLimit="perIndex",status="failed"} 1.0
job_controller_job_finished_indexes_total{backoffLimit="perIndex",status="succeeded"} 2.0
job_controller_job_pods_creation_total{reason="new",status="succeeded"} 8.0
job_controller_job_pods_finished_total{completion_mode="Indexed",result="failed"} 1.0
job_controller_job_pods_finished_total{completion_mode="Indexed",result="succeeded"} 2.0
job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="failed"} 1.0
job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 4.0
job_controller_job_sync_duration_seconds_count{action="pods_created",completion_mode="Indexed",result="success"} 1.0
job_controller_job_sync_duration_seconds_count{action="pods_created",completion_mode="NonIndexed",result="success"} 4.0
job_controller_job_sync_duration_seconds_count{action="reconciling",completion_mode="Indexed",result="success"} 1.0
job_controller_job_sync_duration_seconds_count{action="reconciling",completion_mode="NonIndexed",result="success"} 1.0
job_controller_job_sync_duration_seconds_count{action="tracking",completion_mode="Indexed",result="success"} 3.0
job_controller_job_sync_duration_seconds_count{action="tracking",completion_mode="NonIndexed",result="success"} 14.0
job_controller_job_sync_duration_seconds_sum{action="pods_created",completion_mode="Indexed",result="success"} 0.0
job_controller_job_sync_duration_seconds_sum{action="pods_created",completion_mode="NonIndexed",result="success"} 0.0
job_controller_job_sync_duration_seconds_sum{action="reconciling",completion_mode="Indexed",result="success"} 0.0
job_controller_job_sync_duration_seconds_sum{action="reconciling",completion_mode="NonIndexed",result="success"} 0.0
job_controller_job_sync_duration_seconds_sum{action="tracking",completion_mode="Indexed",result="success"} 0.0
job_controller_job_sync_duration_seconds_sum{action="tracking",completion_mode="NonIndexed",result="success"} 0.0
job_controller_job_syncs_total{action="pods_created",completion_mode="Indexed",result="success"} 1.0
job_controller_job_syncs_total{action="pods_created",completion_mode="NonIndexed",result="success"} 4.0
job_controller_job_syncs_total{action="reconciling",completion_mode="Indexed",result="success"} 1.0
job_controller_job_syncs_total{action="reconciling",completion_mode="NonIndexed",result="success"} 1.0
job_controller_job_syncs_total{action="tracking",completion_mode="Indexed",result="success"} 3.0
job_controller_job_syncs_total{action="tracking",completion_mode="NonIndexed",result="success"} 14.0
job_controller_jobs_by_external_controller_total{controller_name="example.com/controller"} 1.0
job_controller_jobs_finished_total{completion_mode="Indexed",reason="FailedIndexes",result="failed"} 1.0
job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="CompletionsReached",result="succeeded"} 2.0
job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="PodFailurePolicy",result="failed"} 1.0
job_controller_pod_failures_handled_by_failure_policy_total{action="FailJob"} 1.0
job_controller_terminated_pods_tracking_finalizer_total{event="add"} 8.0
job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 8.0
pod_gc_collector_force_delete_pod_errors_total{namespace="default",reason="orphaned"} 8.0
pod_gc_collector_force_delete_pods_total{namespace="default",reason="orphaned"} 9.0
ttl_after_finished_controller_job_deletion_duration_seconds_count 1.0
ttl_after_finished_controller_job_deletion_duration_seconds_sum 0.0
"""


class Refusing(Relay):
    """Refuses to delete the pod STUCK."""

    async def request(self, request: Request) -> Response:
        if request.method == "DELETE" and request.path.endswith(f"/pods/{STUCK}"):
            return Response(403, {}, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"not this one"}')
        return await self._inner.request(request)


def script(pod: Pod) -> PodScript:
    code = next((code for name, code in FAILING.items() if pod.metadata.name.startswith(name)), 0)
    return PodScript(ready_after=1.0, ends_after=10.0, exit_code=code)


async def history() -> str:
    cluster = Cluster()
    runtime = Runtime(Refusing(cluster.transport()), cluster.clock, Random(2))
    attach_job_controller(runtime)
    attach_pod_controllers(runtime)
    Kubelet(runtime, script)
    async with runtime:
        await cluster.submit(name="plain", parallelism=2, completions=3)
        await cluster.submit(
            name="indexed", completionMode="Indexed", parallelism=3, completions=3, backoffLimitPerIndex=0
        )
        await cluster.submit(name="policy", podFailurePolicy=FAIL_JOB)
        await cluster.submit(name="expires", ttlSecondsAfterFinished=5)
        await cluster.submit(name="theirs", managedBy="example.com/controller")
        for name in ("plain", "indexed", "policy"):
            await cluster.finished(name)
        for name in ("orphan", STUCK):
            await orphaned_pod(cluster, name)
        await asyncio.sleep(200)
        return runtime.metrics.exposition()


async def orphaned_pod(cluster: Cluster, name: str) -> None:
    """A pod without a Job, on a node that is gone."""
    if name == "orphan":
        await cluster.user.create(NODES, "", {"metadata": {"name": "gone"}})
    container = {"name": "main", "image": "i"}
    spec: Any = {"restartPolicy": "Never", "containers": [container], "nodeName": "gone"}
    await cluster.user.create(PODS, "default", {"metadata": {"name": name}, "spec": spec})
    if name == STUCK:
        await cluster.user.delete(NODES, "", "gone")


@pytest.fixture(scope="module")
def scraped() -> list[str]:
    names = tuple(family.name for family in JOBS)
    lines = run_virtual(history()).splitlines()
    return [line for line in lines if line.startswith(names) and "_bucket{" not in line]


def test_each_series_has_the_value_that_the_history_implies(scraped: list[str]) -> None:
    assert "\n".join(sorted(scraped)) == EXPECTED.strip()


def test_each_family_of_the_job_controller_has_a_series(scraped: list[str]) -> None:
    assert {family.name for family in JOBS if not any(line.startswith(family.name) for line in scraped)} == set()

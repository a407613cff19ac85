"""The user stories of KEP-1282, with Jobs as real processes, on the embedded and on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from queue_manager.api import condition_types, reasons
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, RESOURCE_FLAVORS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.rest_client import RestClient
from tests.local.cluster.conftest import Up, sluice
from tests.local.cluster.fleet import HEAD, Fleet
from tests.local.cluster.work import ended, job, running
from tests.waiting import until

Begin = Callable[..., Up | Fleet]
Tree = dict[str, Any]
SHORT = {"sluice/pods-ready-timeout": "2s"}  # a Job's own, so that the others have all the time that they need


def config(**strategy: int) -> str:
    again = ", ".join(f"{key}: {value}" for key, value in strategy.items())
    waiting = (
        f"{{timeout: 2m, unschedulableTimeout: 1s, overrides: {{minTimeout: 1s}}, requeuingStrategy: {{{again}}}}}"
    )
    return f"{HEAD}waitForPodsReady: {waiting}\n"


async def queue(client: RestClient, flavors: dict[str, Tree], cpu: str) -> None:
    """ClusterQueue and LocalQueue `story`, with so much cpu of each flavor."""
    for name, spec in flavors.items():
        await client.create(RESOURCE_FLAVORS, "", {"metadata": {"name": name}, "spec": spec})
    quota = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for name in flavors]
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}]}
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": "story"}, "spec": spec})
    await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "story"}, "spec": {"clusterQueue": "story"}})


def submission(name: str, *command: str, cpu: str = "200m", annotations: dict[str, str] | None = None) -> Tree:
    tree: Tree = job(name, "true")
    tree["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "story"}
    tree["metadata"]["annotations"] = annotations or {}
    container = tree["spec"]["template"]["spec"]["containers"][0]
    container["command"] = list(command)
    container["resources"] = {"requests": {"cpu": cpu}}
    return tree


async def workload(client: RestClient, job_name: str) -> Workload:
    found = await client.list(WORKLOADS, "default", type=Workload)
    for one in found:
        if one.metadata.controller is not None and one.metadata.controller.name == job_name:
            return one
    raise LookupError(f"no Workload of {job_name}")


async def until_workload(client: RestClient, name: str, question: Callable[[Workload], object], what: str) -> Workload:
    async def so() -> bool:
        try:
            return bool(question(await workload(client, name)))
        except LookupError:
            return False

    await until(so, what)
    return await workload(client, name)


def flavor(w: Workload) -> str:
    admission = w.status.admission
    return admission.pod_set_assignments[0].flavors["cpu"] if admission is not None else ""


def evictions(w: Workload) -> dict[tuple[str | None, str | None], int | None]:
    stats = w.status.scheduling_stats
    return {(e.reason, e.underlying_cause): e.count for e in (stats.evictions if stats is not None else ())}


async def test_story_1_without_stock_of_the_second_flavor_the_first_is_used(cluster: Begin, tmp_path: Path) -> None:
    """The quota of reserved machines is used, and there are no spot machines: no node can run the pod."""
    go = tmp_path / "go"
    up = cluster(config(backoffBaseSeconds=0))
    async with up.client() as client:
        await queue(client, {"reserved": {}, "spot": {"nodeLabels": {"pool": "spot"}}}, "200m")
        waits = f"while [ ! -e {go} ]; do sleep 0.1; done"
        await client.create(JOBS, "default", submission("first", "sh", "-c", waits))
        await running(client, "first")
        await client.create(JOBS, "default", submission("second", "true"))
        timed_out = (reasons.PODS_READY_TIMEOUT, reasons.UNSCHEDULABLE)
        out_of_stock = await until_workload(
            client, "second", lambda w: evictions(w).get(timed_out), "no node takes it, and it is evicted"
        )
        assert out_of_stock.status.requeue_state is not None
        await until_workload(client, "second", lambda w: flavor(w) == "spot", "it is tried again at once")
        go.touch()
        await ended(client, "first")
        await ended(client, "second")
        done = await workload(client, "second")
        assert flavor(done) == "reserved"
        assert (await client.get(JOBS, "default", "second"))["spec"]["template"]["spec"].get("nodeSelector") is None


async def test_story_2_a_job_that_cannot_start_backs_off_and_is_deactivated(cluster: Begin, tmp_path: Path) -> None:
    """A missing command, like a missing image; and a pod that is larger than what the node has left."""
    up = cluster(config(backoffBaseSeconds=1, backoffLimitCount=2), cpu="1")
    async with up.client() as client:
        await queue(client, {"default": {}}, "2500m")
        no_command = submission("bad", str(tmp_path / "missing"), cpu="1", annotations=SHORT)
        await client.create(JOBS, "default", no_command)
        await until_workload(client, "bad", lambda w: w.is_true(condition_types.ADMITTED), "it has quota")
        # The quota is that of two nodes, 1 cpu of each is free: no room for one pod of 1500m.
        await client.create(JOBS, "default", submission("big", "true", cpu="1500m"))
        await client.create(JOBS, "default", submission("good", "true", cpu="800m"))
        await ended(client, "good")
        for name, cause in (("bad", reasons.WAIT_FOR_START), ("big", reasons.UNSCHEDULABLE)):
            given_up = await until_workload(
                client,
                name,
                lambda w: not w.spec.active and not w.is_true(condition_types.QUOTA_RESERVED),
                f"{name} is deactivated and has no quota",
            )
            history = given_up.status.requeue_history
            assert history is not None
            tried = history.attempts
            assert [(a.reason, a.cause) for a in tried[:2]] == [(reasons.PODS_READY_TIMEOUT, cause)] * 2
            waits = [(a.retry_at - a.end).total_seconds() for a in tried[:2] if a.retry_at and a.end]
            assert waits == [1, 2]
            assert all(
                later.start is not None and earlier.retry_at is not None and later.start >= earlier.retry_at
                for earlier, later in pairwise(tried)
            )
            evicted = given_up.condition(condition_types.EVICTED)
            assert evicted is not None
            assert evicted.reason == "DeactivatedDueToRequeuingLimitExceeded"
            assert given_up.status.requeue_state is None
            assert (await client.get(JOBS, "default", name))["spec"]["suspend"]
        left = [p["metadata"]["name"] for p in await client.list(PODS, "default") if p["status"]["phase"] == "Pending"]
        assert left == []


async def test_story_3_a_deactivated_job_is_reactivated_without_recreating_it(cluster: Begin, tmp_path: Path) -> None:
    """The cause is fixed, the operator runs `sluice reactivate`, and the same Job runs."""
    program = tmp_path / "program"
    up = cluster(config(backoffBaseSeconds=0, backoffLimitCount=0))
    async with up.client() as client:
        await queue(client, {"default": {}}, "1")
        restarting = submission("job", str(program), annotations=SHORT)
        restarting["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"  # with Never the Job fails
        created = await client.create(JOBS, "default", restarting)
        await until_workload(
            client,
            "job",
            lambda w: not w.spec.active and not w.is_true(condition_types.QUOTA_RESERVED),
            "it is deactivated",
        )
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
        said = await asyncio.to_thread(sluice, "reactivate", "job", "--kubeconfig", str(up.kubeconfig))
        assert said.returncode == 0, said.stderr
        done = await ended(client, "job")
        assert done.metadata.uid == created["metadata"]["uid"]
        await until_workload(client, "job", lambda w: w.is_true(condition_types.FINISHED), "its Workload is finished")
        requeued = (await workload(client, "job")).condition(condition_types.REQUEUED)
        assert requeued is not None
        assert (requeued.status, requeued.reason) == ("True", "Reactivated")

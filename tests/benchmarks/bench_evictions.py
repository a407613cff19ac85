"""Evictions: the writes of one, and the seconds that a thousand at the same time take.

The first figure counts the writes of a whole round trip in virtual time. For the second, a thousand Jobs that no node
can run are admitted on an embedded cluster with its journal on disk. A new configuration then puts all their deadlines
into the past. Measured is the time until each Workload is evicted, its Job suspended and its quota free, and the time
until all are pending again after a backoff of one second.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, RESOURCE_FLAVORS
from queue_manager.configuration import loads
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.local.local_cluster import ClusterOptions, LocalCluster
from queue_manager.simulation.virtual_time import run_virtual
from tests.simulation.round_trip import round_trip

WORKLOADS = 1000
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
PATIENT = HEAD + "waitForPodsReady: {timeout: 1h, requeuingStrategy: {backoffBaseSeconds: 1}}\n"
HASTY = HEAD + "waitForPodsReady: {timeout: 1s, requeuingStrategy: {backoffBaseSeconds: 1}}\n"


def main() -> None:
    counted = run_virtual(round_trip())
    print(f"writes of one round trip: {len(counted)}")
    for write in counted:
        print(f"    {write}")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tune_garbage_collector()
        with event_loop() as loop:
            loop.run(thousand(Path(folder)))


async def thousand(folder: Path) -> None:
    options = ClusterOptions(data_dir=folder / "data", cpu="1", memory="1Gi", first_queue=False)
    async with LocalCluster(options, loads(PATIENT)) as cluster:
        ledger = cluster._queue.quota_cache
        await queues(cluster.client)
        began = time.perf_counter()
        gate = asyncio.Semaphore(20)

        async def submit(number: int) -> None:
            async with gate:
                await cluster.client.create(JOBS, "default", job(number))

        await asyncio.gather(*(submit(number) for number in range(WORKLOADS)))
        await until(lambda: sum(h.admitted for h in ledger.state.holdings.values()) == WORKLOADS)
        await until_suspended(cluster.client, 0)
        await asyncio.sleep(3)  # until all Events are delivered
        print(f"{WORKLOADS} Jobs submitted and admitted: {time.perf_counter() - began - 3:.1f} s")

        await cluster.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "Hold"}})  # nothing is requeued
        before, began, cpu = await revision(cluster.client), time.perf_counter(), time.process_time()
        cluster.reconfigure(loads(HASTY))
        await until(lambda: not ledger.state.holdings)
        print(f"{WORKLOADS} evicted, Jobs suspended, quota free: {time.perf_counter() - began:.2f} s")
        await until(lambda: len(ledger.queues.cluster_queues["cq"]) == WORKLOADS)
        await until(lambda: not any(info.in_backoff(now()) for info in ledger.queues.cluster_queues["cq"].in_order()))
        seconds, busy = time.perf_counter() - began, time.process_time() - cpu
        writes = (await revision(cluster.client) - before) / WORKLOADS
        print(f"{WORKLOADS} evicted and requeued, backoff of 1 s over: {seconds:.2f} s ({busy:.2f} s of CPU)")
        print(f"writes of everybody, Events and pods included: {writes:.1f} each")
        await until_suspended(cluster.client, WORKLOADS)


def now() -> Any:
    return SystemClock().now()


async def queues(client: RestClient) -> None:
    await client.create(RESOURCE_FLAVORS, "", {"metadata": {"name": "default"}, "spec": {}})
    quota = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(2 * WORKLOADS)}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}]}
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": spec})
    await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}})


def job(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "command": ["true"], "resources": {"requests": {"cpu": "2"}}}
    meta = {"name": f"job-{number}", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": meta, "spec": {"suspend": True, "template": template}}


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.05)


async def until_suspended(client: RestClient, count: int) -> None:
    while sum(bool(job["spec"].get("suspend")) for job in await client.list(JOBS, "default")) != count:
        await asyncio.sleep(0.2)


async def revision(client: RestClient) -> int:
    """The store's resourceVersion, which counts all writes."""
    answer = await client.transport.request(Request("GET", JOBS.path("default"), query={"limit": "1"}))
    return int(orjson.loads(answer.body)["metadata"]["resourceVersion"])


if __name__ == "__main__":
    main()

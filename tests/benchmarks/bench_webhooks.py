"""Latency of the admission webhooks at 200 reviews per second, over TLS on connections that stay open.

The server runs in a process of its own, as in `sluice manager`: HTTPS server, kopf's admission handlers, our rules, and
caches filled from an embedded API server. Reviews are of Jobs and Workloads, half to be changed and half to be
validated. Each review is sent at its time, whether or not earlier ones are answered, as an API server does: a pause of
the server counts for every review that falls into it. The anchor is the same server with handlers of kopf that do
nothing. In a third row the process also leads: its queue controllers admit a stream of Jobs in the same event loop. The
embedded API server that they write to runs there too, so that the latencies are an upper bound.

Two things would measure the benchmark or the machine instead: the client's garbage collector, which is off, and other
processes. Both sides run with real-time priority where that is permitted (as root); the column "no core" is the time
for which the server could have run but had no core.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp
import orjson
from rich.console import Console
from rich.table import Table

from job_controller.json_tree import Json
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from queue_manager.api.webhook_table import WEBHOOKS
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.addresses import Address
from queue_manager.engine.certificates import issue
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.operator.tls import ServingCertificate, server_context
from queue_manager.operator.webhooks import https_server
from queue_manager.operator.webhooks.admission import ClusterAdmission
from queue_manager.operator.webhooks.cluster_contexts import ClusterContexts
from queue_manager.operator.webhooks.kopf_admission import KopfAdmission
from queue_manager.wiring import attach_queue_controllers
from tests.kopf_reviews import request, review_function
from tests.process_figures import cpu_seconds, waited_for_core_seconds

RATE, SECONDS, RUNS, CONNECTIONS = 200, 10, 3, 8
GOAL_MILLISECONDS = 15  # of the 99th percentile
NAMESPACES_IN_CACHE = 500
ADMISSIONS = 20  # Jobs per second that are submitted, and admitted, beside the reviews
TITLES = {
    "empty": "kopf with empty handlers (anchor)",
    "rules": "the rules of Sluice",
    "admitting": "the rules, beside admissions",
}
QUEUE = {"kueue.x-k8s.io/queue-name": "q"}


def template() -> Json:
    env = [{"name": f"SETTING_{index}", "value": f"value-{index}-of-this-setting"} for index in range(12)]
    resources = {"requests": {"cpu": "2", "memory": "4Gi"}}
    container = {"name": "main", "image": "registry.example.com/training:v1", "env": env, "resources": resources}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def job() -> Json:
    meta = {"name": "training", "namespace": "ns-7", "labels": QUEUE, "uid": "u"}
    spec = {"parallelism": 3, "completions": 3, "suspend": False, "template": template()}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def workload() -> Json:
    flavors = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "6"}, "count": 3}
    time = "2026-01-01T10:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": time}
        for kind in ("QuotaReserved", "Admitted")
    ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "job-training", "namespace": "ns-7", "uid": "w"},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 3, "template": template()}]},
        "status": {"conditions": conditions, "admission": {"clusterQueue": "cq", "podSetAssignments": [flavors]}},
    }


REVIEWS = {
    "/mutate-batch-v1-job": request("CREATE", JOBS, job()),
    "/validate-batch-v1-job": request("UPDATE", JOBS, job(), job()),
    "/mutate-kueue-x-k8s-io-v1beta2-workload": request("UPDATE", WORKLOADS, workload(), workload()),
    "/validate-kueue-x-k8s-io-v1beta2-workload": request(
        "UPDATE", WORKLOADS, workload(), workload(), subresource="status"
    ),
}


# --- the process of the server -------------------------------------------------------------------------------


async def serve(handlers: str) -> None:
    """Print the URL, serve until standard input ends, and print how many Jobs were admitted per second.

    `handlers`: a key of TITLES.
    """
    clock = SystemClock()
    transport = LocalTransport(ApiServer(Store(clock, Random(1)), KindRegistry.builtin(), clock, []), "bench")
    await install_crds(RestClient(transport))
    for number in range(NAMESPACES_IN_CACHE):
        await RestClient(transport).create(NAMESPACES, "", {"metadata": {"name": f"ns-{number}"}})
    runtime = Runtime(transport, clock, Random(1), silence=None)
    admission = KopfAdmission(ClusterAdmission(ClusterContexts(runtime, WorkloadSettings())))
    routes = _empty_routes() if handlers == "empty" else await _routes(admission)
    certificate, context = ServingCertificate(), server_context(None)
    certificate.present(issue("bench", ["127.0.0.1"], clock.now()).pem)
    certificate.attach(context)
    async with runtime, _admitting(transport) if handlers == "admitting" else _idle() as admitted:
        url, close = await https_server.serve(Address("127.0.0.1", 0), context, routes, MetricRegistry())
        began = time.perf_counter()
        print(url, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(round(admitted() / (time.perf_counter() - began)), flush=True)
        await close()


@contextlib.asynccontextmanager
async def _idle() -> AsyncIterator[Callable[[], int]]:
    yield lambda: 0


@contextlib.asynccontextmanager
async def _admitting(transport: LocalTransport) -> AsyncIterator[Callable[[], int]]:
    """Submit Jobs to a queue whose controllers run here; yields what counts the admitted ones."""
    logging.getLogger("queue_manager").setLevel(logging.WARNING)
    runtime = Runtime(transport, SystemClock(), Random(1), silence=None)
    queue = attach_queue_controllers(runtime, KueueConfig())
    client = RestClient(transport)
    await create_queues(client)
    async with runtime:
        submitting = asyncio.create_task(_submit(client))
        yield lambda: sum(holding.admitted for holding in queue.quota_cache.state.holdings.values())
        submitting.cancel()


async def _submit(client: RestClient) -> None:
    began = time.perf_counter()
    for number in itertools.count():
        await asyncio.sleep(max(0.0, began + number / ADMISSIONS - time.perf_counter()))
        await client.create(JOBS, "default", submission(number))


async def create_queues(client: RestClient) -> None:
    await client.create(RESOURCE_FLAVORS, "", {"metadata": {"name": "f"}, "spec": {}})
    flavor = {"name": "f", "resources": [{"name": name, "nominalQuota": "1P"} for name in ("cpu", "memory")]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [flavor]}]}
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": spec})
    await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "q"}, "spec": {"clusterQueue": "cq"}})


def submission(number: int) -> Json:
    tree = job()
    meta = {"name": f"training-{number}", "labels": QUEUE}
    return {**tree, "metadata": meta, "spec": {**tree["spec"], "suspend": True}}


async def _routes(admission: KopfAdmission) -> dict[str, https_server.Answer]:
    review, settings = review_function(admission.attach)
    server = settings.admission.server(review)
    await anext(server)  # as kopf does: it passes its function
    return dict(admission.routes)


def _empty_routes() -> dict[str, https_server.Answer]:
    logging.getLogger("kopf").setLevel(logging.CRITICAL)

    async def nothing(**_: object) -> None:
        pass

    def attach(kopf: Any, registry: Any, settings: Any) -> None:
        for webhook in WEBHOOKS:
            place = (webhook.resource.group, webhook.resource.version, webhook.resource.plural)
            kopf.on.validate(*place, id=webhook.path, subresource="*", registry=registry)(nothing)

    review, _ = review_function(attach)

    def answer(path: str) -> https_server.Answer:
        async def route(asked: Json) -> Json:
            return await review(asked, webhook=path)

        return route

    return {path: answer(path) for path in REVIEWS}


# --- the process of the client -------------------------------------------------------------------------------


@dataclass
class Figures:
    """Of the runs with one kind of handlers: latencies, and seconds of the server's process."""

    latencies: list[float] = field(default_factory=list)
    cpu: float = 0.0
    without_core: float = 0.0
    admitted: list[int] = field(default_factory=list)  # Jobs per second, by run

    def row(self) -> list[str]:
        ascending = sorted(self.latencies)
        shown = [ascending[min(int(len(ascending) * share), len(ascending) - 1)] for share in (0.5, 0.9, 0.99, 1.0)]
        return [
            *(f"{seconds * 1e3:.1f}" for seconds in shown),
            f"{self.cpu / len(ascending) * 1e3:.2f}",
            f"{self.without_core * 1e3:.0f}",
            f"{sum(self.admitted) / len(self.admitted):.0f}",
        ]


async def measure(url: str, pid: int, figures: Figures) -> None:
    """Add one run: seconds from the time at which each review is due to its answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    bodies = [(url + path, orjson.dumps(review)) for path, review in REVIEWS.items()]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=CONNECTIONS)) as session:

        async def send(number: int, due: float) -> float:
            target, body = bodies[number % len(bodies)]
            async with session.post(target, data=body) as answer:
                review = orjson.loads(await answer.read())
            assert review["response"]["allowed"], review
            return time.perf_counter() - due

        await _paced(send, RATE)  # connections, and what the first requests load
        cpu, waited = cpu_seconds(pid), waited_for_core_seconds(pid)
        figures.latencies += await _paced(send, RATE * SECONDS)
        figures.cpu += cpu_seconds(pid) - cpu
        figures.without_core += waited_for_core_seconds(pid) - waited


async def _paced(send: Callable[[int, float], Awaitable[float]], count: int) -> list[float]:
    began = time.perf_counter()
    tasks = []
    for number in range(count):
        due = began + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(_coroutine(send(number, due))))
    return await asyncio.gather(*tasks)


async def _coroutine(result: Awaitable[float]) -> float:
    return await result


def run(handlers: str, figures: Figures) -> None:
    """Start a server, add its figures, and stop it."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_webhooks", handlers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            asyncio.run(measure(server.stdout.readline().strip(), server.pid, figures))
        finally:
            server.stdin.close()
        figures.admitted.append(int(server.stdout.readline()))


def preempt_others() -> bool:
    """Give this process, and those that it starts, real-time priority; False if that is not permitted."""
    with contextlib.suppress(PermissionError, AttributeError):  # AttributeError: macOS
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return True
    return False


def main() -> None:
    real_time = preempt_others()
    gc.disable()
    found = {handlers: Figures() for handlers in TITLES}
    for _ in range(RUNS):
        for handlers, figures in found.items():
            run(handlers, figures)
    table = Table(title=f"Admission webhooks: {RATE} reviews per second over TLS, {RUNS} runs of {SECONDS} s, in ms")
    for column in ("handlers", "p50", "p90", "p99", "max", "CPU per review", "no core", "Jobs/s"):
        table.add_column(column, justify="left" if column == "handlers" else "right")
    for handlers, title in TITLES.items():
        table.add_row(title, *found[handlers].row())
    Console(width=110).print(table)
    print(f"goal: p99 below {GOAL_MILLISECONDS} ms")
    priority = "real-time" if real_time else "ordinary, so other processes count"
    print(f"priority: {priority}; load average of {os.cpu_count()} cores: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        tune_garbage_collector()
        with event_loop() as loop:
            loop.run(serve(sys.argv[1]))
    else:
        main()

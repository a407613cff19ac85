"""CPU time per watch event, sync, write and log line, with causes, and with traces sent to a collector on loopback.

There is no API server: events are decoded objects, the transport of writes responds at once. Each figure is the best of
some repetitions. A write on a real server takes hundreds of microseconds more.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
from collections.abc import Callable
from time import process_time

from job_controller.model import Key, ObjectMeta, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine import tracing
from queue_manager.engine.cache import Cache
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.log import JsonFormatter, TextFormatter
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.engine.workqueue import WorkQueue
from tests.collector import collecting

NUMBER, REPETITIONS = 10_000, 5
UID = "11111111-2222-3333-4444-555555555555"
ANSWER = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "x", "namespace": "d", "uid": UID, "resourceVersion": "5"},
}
EXTRA = {"verb": "patch", "resource": "pods/status", "key": "default/train-x7k2p", "uid": UID, "resourceVersion": "812"}


class Immediate(Relay):
    """A server that responds at once."""

    def __init__(self) -> None:
        self._answer = json.dumps(ANSWER).encode()

    async def request(self, request: Request) -> Response:
        return Response(200, {}, self._answer)


def main() -> None:
    CURRENT.set(CauseId(UID, "811"))
    report("watch event, with one subscriber that enqueues it", events)
    report("sync of a key that does nothing", lambda: asyncio.run(syncs()))
    report("write, without the request itself", lambda: asyncio.run(writes()))
    report("log line, text", lambda: lines(TextFormatter()))
    report("log line, JSON", lambda: lines(JsonFormatter()))
    for sampler in ("always_on", "always_off"):
        traced(sampler)


def traced(sampler: str) -> None:
    """Print what spans cost. The SDK reads the environment of the process."""
    with collecting() as collector:
        os.environ.update({**collector.environment(), "OTEL_TRACES_SAMPLER": sampler})
        tracing.configure("benchmark", os.environ)
        report(f"sync of a key, traces {sampler}", lambda: asyncio.run(syncs()))
        report(f"write, traces {sampler}", lambda: asyncio.run(writes()))
        tracing.close()


def report(title: str, measure: Callable[[], float]) -> None:
    best = min(measure() for _ in range(REPETITIONS))
    print(f"{title:<54} {best / NUMBER * 1e6:>8.1f} us")


def events() -> float:
    """Seconds for NUMBER events about as many objects."""
    cache: Cache[Pod] = Cache("pods")
    queue: WorkQueue[Key] = WorkQueue("q")
    cache.subscribe(lambda old, new: queue.add(new.metadata.key) if new is not None else None)
    pods = [
        Pod(
            metadata=ObjectMeta(
                name=f"p{number}", namespace="d", uid=f"{UID}{number}", resource_version=str(number + 1)
            )
        )
        for number in range(NUMBER)
    ]
    token = CURRENT.set(None)
    began = process_time()
    for pod in pods:
        cache.observe(pod)
    took = process_time() - began
    CURRENT.reset(token)
    return took


async def syncs() -> float:
    queue: WorkQueue[Key] = WorkQueue("q", metrics=MetricRegistry())

    async def nothing(key: Key) -> None:
        pass

    keys = [Key("d", str(number)) for number in range(NUMBER)]
    began = process_time()
    for key in keys:
        queue.add(key)
    queue.finish()
    await queue.run(nothing, 10)
    return process_time() - began


async def writes() -> float:
    client, cache = RestClient(Immediate(), MetricRegistry()), Cache[Pod]("pods")
    client.attach_cache(cache, PODS, Pod)
    began = process_time()
    for _ in range(NUMBER):
        await client.patch(PODS, "d", "x", {"spec": {}}, type=Pod)
    return process_time() - began


def lines(formatter: logging.Formatter) -> float:
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(formatter)
    logger = logging.Logger("queue_manager.engine.write_trail")
    logger.addHandler(handler)
    began = process_time()
    for _ in range(NUMBER):
        logger.info("wrote", extra=EXTRA)
    return process_time() - began


if __name__ == "__main__":
    main()

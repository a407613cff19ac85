"""Rate at which watch events become cached pods, and the memory of a cached pod.

A server in a process of its own sends the events over loopback; the reflector decodes them into
`job_controller.model.Pod` and puts them into the cache. The anchor is plain `json.loads` of the same lines without a
network: the least that a client pays which keeps trees.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Coroutine
from typing import Any

from job_controller.model import Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.reflector import Reflector
from queue_manager.engine.rest_client import RestClient

EVENTS = 60_000
WEIGHED = 5_000


def pod(number: int, revision: int) -> dict[str, Any]:
    """A running pod of a Job as a real cluster serves it: about 3.5 KB without managedFields."""
    job = number // 100
    uid = f"{number:08x}-1c3b-4a57-9f0e-5d2a8c4b7e11"
    owner = f"{job:08x}-7d54-41a2-8a7e-2f1d6b9c0d33"
    labels = {
        "batch.kubernetes.io/controller-uid": owner,
        "batch.kubernetes.io/job-name": f"training-{job}",
        "batch.kubernetes.io/job-completion-index": str(number % 100),
        "controller-uid": owner,
        "job-name": f"training-{job}",
    }
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T10:00:00Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    resources = {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "2", "memory": "4Gi"}}
    env = [{"name": f"SETTING_{index}", "value": f"value-{index}-of-this-setting"} for index in range(12)]
    mount = {"name": "kube-api-access-x7k2p", "readOnly": True}
    container = {
        "name": "main",
        "image": "registry.example.com/team/training:v1.2.3",
        "command": ["python", "-m", "training.main"],
        "args": ["--epochs=10", "--shard=$(JOB_COMPLETION_INDEX)"],
        "env": env,
        "resources": resources,
        "volumeMounts": [{**mount, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"training-{job}-{number % 100}-x7k2p",
            "generateName": f"training-{job}-{number % 100}-",
            "namespace": "team-a",
            "uid": uid,
            "resourceVersion": str(revision),
            "creationTimestamp": "2026-01-01T09:59:58Z",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": str(number % 100)},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": f"training-{job}",
                    "uid": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": {
            "volumes": [{"name": "kube-api-access-x7k2p", "projected": {"sources": [], "defaultMode": 420}}],
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": f"node-{number % 50}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "10.0.0.7",
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "startTime": "2026-01-01T09:59:59Z",
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": "2026-01-01T10:00:00Z"}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example.com/team/training:v1.2.3",
                    "imageID": "registry.example.com/team/training@sha256:" + "0123456789abcdef" * 4,
                    "containerID": "containerd://" + "fedcba9876543210" * 4,
                    "started": True,
                }
            ],
            "qosClass": "Guaranteed",
        },
    }


def lines(count: int) -> list[bytes]:
    """Watch events: each pod is added, and half of them are modified."""
    return [
        json.dumps(
            {
                "type": "ADDED" if number < 2 * count // 3 else "MODIFIED",
                "object": pod(number % (2 * count // 3), number + 2),
            },
            separators=(",", ":"),
        ).encode()
        + b"\n"
        for number in range(count)
    ]


async def serve(count: int) -> None:
    """Serve an empty list, then all events as fast as the client reads them; prints the port."""
    body = b"".join(lines(count))
    listing = json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await request(reader):
            if b"watch=1" not in head.split(b"\r\n", 1)[0]:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(listing) + listing)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(body), 1 << 16):
                piece = body[start : start + (1 << 16)]
                writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
                await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def request(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def receive(port: int, count: int) -> tuple[float, float, int]:
    """Wall and CPU seconds of receiving all events, and the pods cached at the end."""
    transport = HttpTransport(f"http://127.0.0.1:{port}")
    cache: Cache[Pod] = Cache("pods")
    cache.index("owner", lambda pod: [owner.uid] if (owner := pod.metadata.controller) else [])
    client = RestClient(transport)
    client.attach_cache(cache, PODS, Pod)
    done = asyncio.Event()
    cache.subscribe(lambda old, new: done.set() if cache.progress >= count else None)
    reflector = Reflector(transport, PODS, Pod, cache, rng=random.Random(1))
    wall, cpu = time.perf_counter(), time.process_time()
    task = asyncio.create_task(reflector.run())
    await done.wait()
    seconds, busy = time.perf_counter() - wall, time.process_time() - cpu
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await transport.close()
    return seconds, busy, len(cache)


def _run(work: Coroutine[Any, Any, tuple[float, float, int]]) -> tuple[float, float, int]:
    with event_loop() as loop:
        return loop.run(work)


def weigh(events: list[bytes]) -> tuple[float, float]:
    """Bytes per cached pod, index included, and bytes per tree of json.loads."""
    cache: Cache[Pod] = Cache("pods")
    cache.index("owner", lambda pod: [owner.uid] if (owner := pod.metadata.controller) else [])
    reflector = Reflector(HttpTransport("http://127.0.0.1"), PODS, Pod, cache, rng=random.Random(1))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for line in events:
        reflector.take(line)
    gc.collect()
    records = tracemalloc.get_traced_memory()[0] - before
    before = tracemalloc.get_traced_memory()[0]
    trees = [json.loads(line) for line in events]
    gc.collect()
    anchor = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return records / len(cache), anchor / len(trees)


def main() -> None:
    events = lines(EVENTS)
    gc.collect()
    tune_garbage_collector()
    gc.freeze()  # keep the garbage collector away from what the benchmark itself holds
    with subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.bench_reflector", "serve"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            best = min(_run(receive(port, EVENTS)) for _ in range(3))
        finally:
            server.kill()
    seconds, busy, cached = best
    start = time.perf_counter()
    for line in events:
        json.loads(line)
    anchor = time.perf_counter() - start
    record, tree = weigh(events[:WEIGHED])
    size = sum(map(len, events)) / len(events)
    print(f"reflector: {EVENTS} events of {size:.0f} bytes, {cached} pods cached, best of 3")
    print(f"  {'':24}{'events/s':>12}{'µs/event':>12}{'µs CPU':>10}{'bytes/pod':>12}")
    print(
        f"  {'reflector -> cache':24}{EVENTS / seconds:12,.0f}{seconds / EVENTS * 1e6:12.1f}"
        f"{busy / EVENTS * 1e6:10.1f}{record:12,.0f}"
    )
    print(
        f"  {'json.loads (anchor)':24}{EVENTS / anchor:12,.0f}{anchor / EVENTS * 1e6:12.1f}"
        f"{anchor / EVENTS * 1e6:10.1f}{tree:12,.0f}"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve(EVENTS))
    else:
        main()

"""The embedded cluster as a whole: start-up time, cost at rest, delay between freed quota and the next start.

The anchor of the delay is a shell loop that starts the same command as often, one after another.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from queue_manager.api.api_resources import JOBS
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from tests.process_figures import cpu_seconds, resident_bytes

ROOT = Path(__file__).resolve().parents[2]
STARTS = 3
IDLE_SECONDS = 10.0
JOBS_SUBMITTED = 500
SLOTS = 8
RUN_SECONDS = 0.3


class Up:
    """A `sluice up` process."""

    def __init__(self, folder: Path, cpu: int) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "queue_manager.cli.main", "up", "--data-dir", str(folder), "--cpu", str(cpu)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Ready"):
                break
        self.seconds = time.perf_counter() - began
        self.kubeconfig = folder / "kubeconfig"

    def cpu_seconds(self) -> float:
        """User and system time of the process so far."""
        return cpu_seconds(self.process.pid)

    def resident_mib(self) -> float:
        return resident_bytes(self.process.pid) / 2**20

    def stop(self) -> float:
        began = time.perf_counter()
        self.process.terminate()
        self.process.communicate(timeout=60)
        return time.perf_counter() - began


def job(number: int, marks: Path) -> dict[str, Any]:
    command = f"date +s%s.%N >> {marks}; sleep {RUN_SECONDS}; date +e%s.%N >> {marks}"
    container = {"name": "main", "image": "local", "command": ["sh", "-c", command]}
    return {
        "metadata": {"name": f"job-{number}", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{**container, "resources": {"requests": {"cpu": "1"}}}],
                }
            },
        },
    }


async def revision(client: RestClient) -> int:
    """The store's resourceVersion, which counts all writes."""
    answer = await client.transport.request(Request("GET", JOBS.path("default"), query={"limit": "1"}))
    return int(orjson.loads(answer.body)["metadata"]["resourceVersion"])


async def load(up: Up, marks: Path) -> tuple[float, int]:
    """Submit all Jobs and wait for their end; returns seconds and API writes per Job."""
    transport = HttpTransport.from_kubeconfig(up.kubeconfig)
    client = RestClient(transport)
    try:
        before, began = await revision(client), time.perf_counter()
        gate = asyncio.Semaphore(20)

        async def submit(number: int) -> None:
            async with gate:
                await client.create(JOBS, "default", job(number, marks))

        await asyncio.gather(*(submit(number) for number in range(JOBS_SUBMITTED)))
        while not marks.exists() or marks.read_text().count("e") < JOBS_SUBMITTED:
            await asyncio.sleep(0.2)
        seconds = time.perf_counter() - began
        await asyncio.sleep(2)
        return seconds, await revision(client) - before
    finally:
        await transport.close()


async def rest(up: Up) -> tuple[float, int]:
    """Returns the CPU share and the number of writes during IDLE_SECONDS."""
    transport = HttpTransport.from_kubeconfig(up.kubeconfig)
    try:
        client = RestClient(transport)
        writes, cpu = await revision(client), up.cpu_seconds()
        await asyncio.sleep(IDLE_SECONDS)
        used = up.cpu_seconds() - cpu
        return used / IDLE_SECONDS, await revision(client) - writes
    finally:
        await transport.close()


def gaps(marks: Path) -> list[float]:
    """Sorted seconds from the end of a process, which frees its quota, to the start of the next one."""
    lines = sorted((float(line[1:]), line[0]) for line in marks.read_text().splitlines())
    freed: list[float] = []
    waits: list[float] = []
    for at, kind in lines:
        if kind == "e":
            freed.append(at)
        elif freed:
            waits.append(at - freed.pop(0))
    return sorted(waits)


def loop_seconds() -> float:
    """The anchor: a shell starts the same command in turn, SLOTS at a time; returns seconds."""
    script = f"seq {JOBS_SUBMITTED} | xargs -P {SLOTS} -I N sh -c 'date +s%s.%N; sleep {RUN_SECONDS}; date +e%s.%N'"
    began = time.perf_counter()
    subprocess.run(["sh", "-c", script], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = Path(name)
        starts = []
        for number in range(STARTS):
            up = Up(folder / f"start-{number}", SLOTS)
            starts.append(up.seconds)
            stopped = up.stop()
        print(f"  command to Ready, new data directory   {min(starts):8.2f} s     stops in {stopped:.2f} s")
        up = Up(folder / "load", SLOTS)
        try:
            share, writes = asyncio.run(rest(up))
            print(
                f"  at rest, empty: share of a core        {share:8.2%}   writes {writes}, {up.resident_mib():.0f} MiB"
            )
            marks = folder / "marks"
            cpu = up.cpu_seconds()
            seconds, written = asyncio.run(load(up, marks))
            waits = gaps(marks)
            print(f"  {JOBS_SUBMITTED} Jobs of {RUN_SECONDS} s, {SLOTS} at a time       {seconds:8.1f} s")
            print(f"  the same by a shell loop (anchor)      {loop_seconds():8.1f} s")
            for label, share_of in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                index = min(len(waits) - 1, int(len(waits) * share_of))
                print(f"  freed quota to next process, {label}       {waits[index]:8.3f} s")
            print(
                f"  CPU per Job                            {(up.cpu_seconds() - cpu) / JOBS_SUBMITTED * 1000:8.1f} ms"
            )
            print(f"  API writes per Job, Events included    {written / JOBS_SUBMITTED:8.1f}")
            share, writes = asyncio.run(rest(up))
            print(
                f"  at rest after the load                 {share:8.2%}   writes {writes}, {up.resident_mib():.0f} MiB"
            )
        finally:
            up.stop()
        again = Up(folder / "load", SLOTS)
        print(f"  command to Ready with {JOBS_SUBMITTED} Jobs stored     {again.seconds:8.2f} s")
        again.stop()


if __name__ == "__main__":
    main()

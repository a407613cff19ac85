"""The two Job controllers as child processes, with their health, metrics, CPU and memory."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.control_plane import provide
from tests.control_plane.server import ControlPlane, free_ports
from tests.process_figures import cpu_seconds, peak_resident_bytes

READY_SECONDS = 60.0
JOB_CONTROLLER = "job-controller"
GARBAGE_COLLECTOR = "garbage-collector-controller"
ROOT = Path(__file__).resolve().parents[3]
_SERIES = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class ControllerProcess:
    """A running controller."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def wait_healthy(self) -> None:
        """Wait for /healthz; raises RuntimeError with the end of the log if it does not become healthy."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self._get("/healthz") == "ok":
                    return
            time.sleep(0.05)  # readiness can only be polled
        raise RuntimeError(f"{self.log.stem} is not healthy:\n{self.log.read_text()[-2000:]}")

    def _get(self, path: str) -> str:
        context = ssl._create_unverified_context() if self.url.startswith("https") else None
        with urllib.request.urlopen(self.url + path, context=context, timeout=5) as answer:
            return str(answer.read().decode())

    def metrics(self) -> Series:
        return parse_metrics(self._get("/metrics"))

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return cpu_seconds(self.process.pid)

    def peak_memory(self) -> int:
        """The highest resident set so far, in bytes."""
        return peak_resident_bytes(self.process.pid)


@contextlib.contextmanager
def built_in(plane: ControlPlane, *controllers: str) -> Iterator[ControllerProcess]:
    """kube-controller-manager with these controllers, without client-side rate limits."""
    binary = provide.find("kube-controller-manager")
    if binary is None:
        raise RuntimeError("kube-controller-manager is missing; run: make control-plane")
    (port,) = free_ports(1)
    command = [
        str(binary),
        f"--kubeconfig={plane.kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={plane.folder / 'manager-certs'}",
        "--authorization-always-allow-paths=/healthz,/metrics",
        "--kube-api-qps=5000",
        "--kube-api-burst=10000",
        "--concurrent-job-syncs=20",
    ]
    with _running(plane, "kube-controller-manager", command, f"https://127.0.0.1:{port}") as controller:
        yield controller


@contextlib.contextmanager
def ours(
    plane: ControlPlane, options: Mapping[str, object], kubeconfig: Path | None = None
) -> Iterator[ControllerProcess]:
    """Our controller in a process of its own. `kubeconfig`: by default that of the administrator."""
    (port,) = free_ports(1)
    module = [sys.executable, "-m", "tests.control_plane.jobs.our_controller"]
    command = [*module, str(kubeconfig or plane.kubeconfig), str(port), json.dumps(options)]
    with _running(plane, "ours", command, f"http://127.0.0.1:{port}") as controller:
        yield controller


@contextlib.contextmanager
def _running(plane: ControlPlane, name: str, command: Sequence[str], url: str) -> Iterator[ControllerProcess]:
    log = plane.folder / f"{name}-{url.rsplit(':', 1)[1]}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=sink, cwd=ROOT)
    try:
        controller = ControllerProcess(process, url, log)
        controller.wait_healthy()
        yield controller
    finally:
        process.kill()
        process.communicate()


def parse_metrics(text: str) -> Series:
    """Parse Prometheus' text format."""
    series: Series = {}
    for line in text.splitlines():
        found = _SERIES.match(line)
        if found:
            labels = tuple(sorted(_LABEL.findall(found[2] or "")))
            series[found[1], labels] = float(found[3])
    return series


def job_counters(series: Series) -> dict[str, float]:
    """The counters of finished Jobs and pods, by a readable name."""
    wanted = (
        "job_controller_jobs_finished_total",
        "job_controller_job_pods_finished_total",
        "job_controller_pod_failures_handled_by_failure_policy_total",
        "job_controller_job_finished_indexes_total",
    )
    return {
        name + "{" + ",".join(f"{key}={value}" for key, value in labels) + "}": value
        for (name, labels), value in sorted(series.items())
        if name in wanted and value
    }

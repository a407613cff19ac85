"""Commands run as processes, against a `sluice up` of the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli.ps import job_table
from tests.local.cluster.conftest import SLUICE, Up, cluster, kinds, real_server, sluice
from tests.local.cluster.fleet import Fleet
from tests.waiting import until

__all__ = ["cluster", "kinds", "real_server"]  # fixtures of the cluster's tests

CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: {timeout}
  requeuingStrategy: {{backoffLimitCount: 1, backoffBaseSeconds: 1}}
"""

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels: {{kueue.x-k8s.io/queue-name: user-queue}}
  annotations: {{sluice/backoff-seconds: "600"}}
spec:
  suspend: true
  {spec}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers: [{{name: main, image: local, command: {command}, resources: {{requests: {{cpu: {cpu}}}}}}}]
"""


class User:
    """A user of a cluster of 2 cpu."""

    def __init__(self, up: Up | Fleet, config: Path) -> None:
        self.up = up
        self.config = config

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = sluice(*arguments, "--kubeconfig", str(self.up.kubeconfig), stdin=stdin)
        assert "Traceback" not in done.stderr
        return done

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command in the background that Ctrl-C reaches."""
        argv = [*SLUICE, *arguments]
        env = os.environ | {"KUBECONFIG": str(self.up.kubeconfig)}
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)

    async def interrupt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Send SIGINT to a command that reactivates, after its first reactivation."""
        with self.begin(*arguments) as process:
            async with self.up.client() as client:

                async def begun() -> bool:
                    return any(w.spec.active for w in await client.list(WORKLOADS, "default", type=Workload))

                await until(begun, "one is reactivated")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def says(self, *arguments: str, stdin: str = "") -> str:
        """The output of a command that succeeds."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "-o", "json"))

    def submit(self, name: str, *, command: str = "[sleep, '600']", spec: str = "{}", cpu: str = "100m") -> None:
        spec = "backoffLimit: 6" if spec == "{}" else spec
        self.says("submit", "-f", "-", stdin=JOB.format(name=name, command=command, spec=spec, cpu=cpu))

    async def until_state(self, name: str, *states: str) -> Any:
        """Wait until the Job is in one of these states; returns the output of `sluice show`."""
        async with self.up.client() as client:

            async def so() -> bool:
                return any(row.name == name and row.state in states for row in await job_table(client, "default"))

            await until(so, f"{name} is {' or '.join(states)}")
        return self.json("show", name)


@pytest.fixture
def user(cluster: Callable[..., Up | Fleet], tmp_path: Path) -> Callable[..., User]:
    """Start a cluster for a user; `timeout` is that of waitForPodsReady, `retention` that of finished Workloads."""

    def begin(timeout: str = "30m", retention: str = "") -> User:
        config = tmp_path / "config.yaml"
        kept = f"objectRetentionPolicies: {{workloads: {{afterFinished: {retention}}}}}\n" if retention else ""
        config.write_text(CONFIG.format(timeout=timeout) + kept)
        return User(cluster(config.read_text()), config)

    return begin

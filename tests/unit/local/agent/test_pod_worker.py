"""The worker of one pod with a test clock; no process is started."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from job_controller.model import ObjectMeta
from queue_manager.local.agent.environment import Host
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import Layout
from queue_manager.local.agent.pod_logs import LogIndexer
from queue_manager.local.agent.pod_worker import PodWorker
from queue_manager.local.agent.pod_worker_dependencies import NodePod, WorkerDependencies

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class WorkerHarness:
    """Plays the API server and the clock for one worker."""

    def __init__(self, directory: Path, **spec: Any) -> None:
        self.now = T0
        self.written: list[dict[str, Any]] = []
        self.asked: list[float] = []
        meta = ObjectMeta(name="pod", namespace="default", uid="u")
        self.pod = NodePod(metadata=meta, spec=msgspec.Raw(msgspec.json.encode(spec)))
        layout, host = Layout(directory), Host("node-1", "127.0.0.1", {})
        layout.prepare()
        logs, pipes = LogIndexer(lambda: self.now), OutputPipes()
        tools = WorkerDependencies(layout, host, self.source, self, logs, pipes, lambda: self.now)
        self.worker = PodWorker(self.pod, tools, self.asked.append)

    async def source(self, _kind: str, _namespace: str, _name: str) -> None:
        return None

    async def patch_status(self, pod: NodePod, status: dict[str, Any], annotations: Mapping[str, str]) -> None:
        self.written.append(status)
        conditions = {c["type"]: c for c in [*pod.status.get("conditions", ()), *status.get("conditions", ())]}
        merged = {**pod.status, **status, "conditions": list(conditions.values())}
        self.pod = NodePod(metadata=pod.metadata, spec=pod.spec, status=merged)

    async def delete(self, pod: NodePod) -> None: ...

    def event(self, pod: NodePod, type: str, reason: str, message: str) -> None: ...

    async def after(self, seconds: float) -> dict[str, Any]:
        """Sync after so many seconds; returns the waiting state of the container."""
        self.now += timedelta(seconds=seconds)
        await self.worker.sync(self.pod)
        waiting: dict[str, Any] = self.pod.status["containerStatuses"][0]["state"]["waiting"]
        return waiting


async def test_a_pod_without_command_backs_off_once_and_is_not_synced_again(tmp_path: Path) -> None:
    bench = WorkerHarness(tmp_path, containers=[{"name": "main", "image": "perl"}])
    assert (await bench.after(0))["reason"] == "ErrImagePull"
    assert bench.asked == [10.0]
    backing_off = await bench.after(10)
    assert backing_off["reason"] == "ImagePullBackOff"
    assert backing_off["message"].startswith('Back-off pulling image "perl": ErrImagePull: ')
    assert bench.asked == [10.0]  # a pod without command cannot start later, so it is not synced again
    await bench.after(3600)
    assert len(bench.written) == 2


async def test_a_start_that_keeps_failing_is_written_once(tmp_path: Path) -> None:
    missing = {"configMapKeyRef": {"name": "cm", "key": "k"}}
    container = {"name": "main", "command": ["true"], "env": [{"name": "A", "valueFrom": missing}]}
    bench = WorkerHarness(tmp_path, containers=[container])
    for seconds in (0, 10, 20, 40):
        assert (await bench.after(seconds))["reason"] == "CreateContainerConfigError"
    assert bench.asked == [10.0, 20.0, 40.0, 80.0]
    assert len(bench.written) == 1

"""Types that the agent passes to a PodWorker: the pod, the receiver of reports, and what all workers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Object
from job_controller.pod_phases import TERMINAL
from queue_manager.local.agent import environment as env
from queue_manager.local.agent.cgroups import Cgroups
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import Layout, RunFiles


class NodePod(Object):
    """A pod as the agent reads it; its spec stays undecoded until it is needed."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    def tree(self) -> Json:
        """The pod as JSON."""
        metadata = msgspec.to_builtins(self.metadata)
        return {"metadata": metadata, "spec": msgspec.json.decode(self.spec), "status": self.status}

    @property
    def is_over(self) -> bool:
        """Whether the phase is terminal; containers may still run."""
        return self.status.get("phase") in TERMINAL


def awaits_confirmation(pod: NodePod) -> bool:
    """Whether the pod is being deleted and the API server waits for the node to confirm that nothing runs."""
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds != 0


class WorkerReports(Protocol):
    """Receives what a worker writes to the API: statuses, deletions and Events."""

    async def patch_status(self, pod: NodePod, status: Json, annotations: Mapping[str, str]) -> None:
        """Merge `status` and `annotations` into the pod, unless it is gone or another one has its name."""
        ...

    async def delete(self, pod: NodePod) -> None:
        """Delete the pod from the API immediately. None of its processes may run any more."""
        ...

    def event(self, pod: NodePod, type: str, reason: str, message: str) -> None:
        """Record an Event about the pod, of type Normal or Warning."""
        ...


class LogIndex(Protocol):
    """Receives the logs that grow."""

    def add(self, run: RunFiles) -> None:
        """Start indexing the log of a container that runs."""
        ...

    def remove(self, run: RunFiles) -> None:
        """Stop indexing the log of a container that has ended."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerDependencies:
    """Dependencies shared by all workers of a node."""

    layout: Layout
    host: env.Host
    source: env.Source
    reports: WorkerReports
    logs: LogIndex
    pipes: OutputPipes
    now: Callable[[], datetime]
    cgroups: Cgroups | None = None  # of containers; None where the agent may create none

"""The row that `kubectl get pods` prints (printPod in kube/pkg/printers/internalversion).

The STATUS is overridden in this order: phase, status.reason, scheduling gates; then the first init container that is
not done, or else the containers from last to first; finally deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from job_controller import pod_phases
from job_controller.json_tree import Json
from queue_manager.local.kinds.ages import format_age, parse_time
from queue_manager.local.kinds.kind import Column
from queue_manager.local.kinds.tables import AGE, NAME, age

COLUMNS = (
    NAME,
    Column("Ready", "string", "Containers that are ready, of all"),
    Column("Status", "string", "What the pod is doing, or why it does not"),
    Column("Restarts", "string", "How often its containers were restarted, and when last"),
    AGE,
    Column("IP", "string", "Address of the pod", priority=1),
    Column("Node", "string", "Node the pod is bound to", priority=1),
    Column("Nominated Node", "string", "Node the pod may get when others are preempted", priority=1),
    Column("Readiness Gates", "string", "Conditions that must hold before the pod is ready", priority=1),
)
NONE = "<none>"


def row(pod: Json, now: datetime) -> list[Any]:
    """The cells of a Pod in `kubectl get`, in the order of the columns."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    progress = _Progress(pod, spec, status)
    restarts = str(progress.restarts)
    if progress.restarts and progress.last_restart:
        restarts = f"{restarts} ({format_age((now - progress.last_restart).total_seconds())} ago)"
    addresses = status.get("podIPs") or [{}]
    return [
        pod["metadata"].get("name", ""),
        f"{progress.ready}/{progress.total}",
        progress.reason,
        restarts,
        age(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


class _Progress:
    """Ready containers, restarts and reason of a pod, read from its container statuses."""

    def __init__(self, pod: Json, spec: Json, status: Json) -> None:
        inits = spec.get("initContainers") or []
        self._init_count = len(inits)
        self._sidecars = {c.get("name") for c in inits if c.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers") or []) + len(self._sidecars)
        self.ready = self.restarts = 0
        self.last_restart: datetime | None = None
        self._sidecar_restarts = 0
        self._sidecar_restart: datetime | None = None
        phase = status.get("phase", "")
        conditions = status.get("conditions") or []
        self.reason = status.get("reason") or phase
        if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
            self.reason = "SchedulingGated"
        initializing = self._initialize(status.get("initContainerStatuses") or [])
        if not initializing or _holds(conditions, "Initialized"):
            self.restarts, self.last_restart = self._sidecar_restarts, self._sidecar_restart
            self._run(status.get("containerStatuses") or [], conditions)
        if pod["metadata"].get("deletionTimestamp"):
            if status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif phase not in pod_phases.TERMINAL:
                self.reason = "Terminating"

    def _initialize(self, statuses: list[Json]) -> bool:
        """Whether an init container still runs or has failed."""
        for index, status in enumerate(statuses):
            state = status.get("state") or {}
            self._count(status)
            sidecar = status.get("name") in self._sidecars
            if sidecar:
                self._sidecar_restarts += status.get("restartCount") or 0
                self._sidecar_restart = _later(self._sidecar_restart, status)
            terminated, waiting = state.get("terminated"), state.get("waiting") or {}
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if sidecar and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            if terminated is not None:
                self.reason = f"Init:{_ending(terminated)}"
            elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{self._init_count}"
            return True
        return False

    def _run(self, statuses: list[Json], conditions: list[Json]) -> None:
        running = False
        for status in reversed(statuses):
            state = status.get("state") or {}
            self._count(status)
            waiting, terminated = state.get("waiting") or {}, state.get("terminated")
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif terminated is not None:
                self.reason = _ending(terminated)
            elif status.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed" and running:
            self.reason = "Running" if _holds(conditions, "Ready") else "NotReady"

    def _count(self, status: Json) -> None:
        self.restarts += status.get("restartCount") or 0
        self.last_restart = _later(self.last_restart, status)


def _later(time: datetime | None, status: Json) -> datetime | None:
    """The later of a time and the end of a container's previous run."""
    ended = parse_time(((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    return ended if ended and (time is None or time < ended) else time


def _ending(terminated: Json) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _holds(conditions: Iterable[Json], type: str) -> bool:
    return any(c.get("type") == type and c.get("status") == "True" for c in conditions)


def _gates(spec: Json, status: Json) -> str:
    gates = spec.get("readinessGates") or []
    if not gates:
        return NONE
    met = sum(_holds(status.get("conditions") or [], gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}"

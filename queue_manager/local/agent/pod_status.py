"""The status of a pod as the kubelet writes it (kubelet_pods.go, status/generate.go), computed from the facts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from job_controller import pod_phases
from job_controller.disruption_target import DISRUPTION_TARGET, is_announced
from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.local.agent.container_starts import (
    CONTAINER_CREATING,
    CRASH_LOOP,
    POD_INITIALIZING,
    STATUS_UNKNOWN,
    Container,
    ContainerRun,
    failed_for_good,
    waiting_since_crash,
)

NODE_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
NODE_SHUTDOWN_REASON = "NodeShutdown"  # in the last state of a container that the next agent restarts
DEADLINE = "Pod was active on the node longer than the specified deadline"
LOST = "The container could not be located when the pod was terminated"
# A container that the API shows as running and of which no files exist here.
VANISHED = "The container could not be located when the pod was deleted.  The container used to be Running"


@dataclass(frozen=True, slots=True)
class Termination:
    """Why the agent ends a pod that would have continued: the phase becomes Failed, with this reason.

    disruption: reason and message of the DisruptionTarget condition; None adds no such condition.
    """

    reason: str
    message: str
    disruption: str = ""


DEADLINE_EXCEEDED = Termination("DeadlineExceeded", DEADLINE)
SHUTDOWN = Termination("Terminated", NODE_SHUTDOWN, disruption=NODE_SHUTDOWN)
PREEMPTED = Termination(
    "Preempting",
    "Preempted in order to admit critical pod",
    disruption="Pod was preempted by Kubelet to accommodate a critical pod.",
)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts from which a pod's status is computed. `ending`: no container will start any more."""

    pod: Json
    containers: Sequence[Container]
    host_ip: str
    now: datetime
    start_time: datetime
    ending: bool = False
    verdict: Termination | None = None
    unready: Mapping[str, str] = field(default_factory=dict)  # containers that their probes report as unready, and why

    @property
    def restart_policy(self) -> str:
        """spec.restartPolicy, with the default Always."""
        return str(self.pod["spec"].get("restartPolicy") or "Always")


def phase(view: PodFacts) -> str:
    """Pending, Running, Succeeded or Failed. A pod never leaves a terminal phase, whoever wrote it."""
    if (known := _terminal_phase(view)) is not None:
        return known
    regular = [c for c in view.containers if not c.init]
    if any(c.running for c in view.containers):
        initialized = any(c.current for c in regular)
        return pod_phases.RUNNING if initialized else pod_phases.PENDING
    if view.verdict is not None:
        return pod_phases.FAILED
    if any(c.init and not c.sidecar and failed_for_good(c, view.restart_policy) for c in view.containers):
        return pod_phases.FAILED
    if view.ending:
        return pod_phases.SUCCEEDED if all(c.succeeded for c in regular) else pod_phases.FAILED
    if not any(c.current for c in regular):
        return pod_phases.PENDING
    if any(c.current is None for c in regular):
        return pod_phases.PENDING
    if view.restart_policy == "Always":
        return pod_phases.RUNNING
    if all(c.succeeded for c in regular):
        return pod_phases.SUCCEEDED
    if all(c.succeeded or failed_for_good(c, view.restart_policy) for c in regular):
        return pod_phases.FAILED
    return pod_phases.RUNNING


def pod_status(view: PodFacts) -> Json:
    """The status fields that the kubelet owns, with only the conditions that it writes."""
    current = phase(view)
    status: dict[str, Any] = {
        "phase": current,
        "startTime": timestamp(view.start_time),
        "hostIP": view.host_ip,
        "hostIPs": [{"ip": view.host_ip}],
        "podIP": view.host_ip,
        "podIPs": [{"ip": view.host_ip}],
        "observedGeneration": view.pod["metadata"].get("generation", 1),
        "conditions": _conditions(view, current),
        "containerStatuses": [_container_status(c, view) for c in view.containers if not c.init],
    }
    if any(c.init for c in view.containers):
        status["initContainerStatuses"] = [_container_status(c, view) for c in view.containers if c.init]
    if view.verdict is not None and current == pod_phases.FAILED and _terminal_phase(view) is None:
        status |= {"reason": view.verdict.reason, "message": view.verdict.message}
    return status


def _terminal_phase(view: PodFacts) -> str | None:
    """Succeeded or Failed if the API already has that phase; its reason and message are then kept."""
    known = (view.pod.get("status") or {}).get("phase")
    return known if known in pod_phases.TERMINAL else None


# --- containers --------------------------------------------------------------------------------------------


def _container_status(container: Container, view: PodFacts) -> Json:
    ready = container.succeeded if container.init and not container.sidecar else _ready(container, view)
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.spec.get("image") or "",
        "imageID": "",
        "ready": ready,
        "started": container.running,
        "restartCount": container.current.number if container.current else 0,
        "state": _state(container, view),
        "lastState": {},
    }
    shown = container.current
    if "waiting" in status["state"] and container.exit is not None:
        status["lastState"] = {"terminated": _terminated(container.current, view, container.name)}
    elif container.previous is not None:
        status["lastState"] = {"terminated": _terminated(container.previous, view, container.name)}
    if shown is not None:
        status["containerID"] = _container_id(view, container.name, shown)
    return status


def _ready(container: Container, view: PodFacts) -> bool:
    return container.running and container.name not in view.unready


def _state(container: Container, view: PodFacts) -> Json:
    if container.running and container.current is not None:
        return {"running": {"startedAt": timestamp(container.current.started_at)}}
    if view.ending and (container.current is not None or _is_initialized(view)):
        return {"terminated": _terminated(container.current, view, container.name)}
    if container.refusal is not None:
        return _waiting(container.refusal.reason, container.refusal.message)
    if waiting_since_crash(container, view.restart_policy, view.now) is not None:
        return _waiting(CRASH_LOOP, _back_off(container, view.pod["metadata"]))
    if container.current is not None:
        return {"terminated": _terminated(container.current, view, container.name)}
    pending_init = any(c.init for c in view.containers)
    return _waiting(POD_INITIALIZING if pending_init else CONTAINER_CREATING)


def _waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}


def _back_off(container: Container, metadata: Json) -> str:
    delay = container.backoff or timedelta()
    pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    return f"back-off {go_duration(delay)} restarting failed container={container.name} pod={pod}"


def go_duration(delay: timedelta) -> str:
    """A duration in Go's format: 10s, 1m20s, 5m0s."""
    minutes, seconds = divmod(round(delay.total_seconds()), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _terminated(attempt: ContainerRun | None, view: PodFacts, name: str) -> Json:
    """The terminated state. A container without an exit when its pod ends is reported lost, as by the kubelet."""
    if attempt is None or attempt.exit is None:
        unknown = {"startedAt": None, "finishedAt": None}
        return {"exitCode": 137, "reason": STATUS_UNKNOWN, "message": LOST, **unknown}
    end = attempt.exit
    state: dict[str, Any] = {
        "exitCode": end.code,
        "reason": end.reason or ("Completed" if end.code == 0 else "Error"),
        "startedAt": timestamp(attempt.started_at),
        "finishedAt": timestamp(end.finished_at),
        "containerID": _container_id(view, name, attempt),
    }
    return state | ({"message": end.message} if end.message else {})


def _container_id(view: PodFacts, name: str, attempt: ContainerRun) -> str:
    return f"process://{view.pod['metadata']['uid']}/{name}/{attempt.number}"


# --- conditions --------------------------------------------------------------------------------------------


def _conditions(view: PodFacts, current: str) -> list[Json]:
    over = current in pod_phases.TERMINAL
    ready = _containers_ready(view, current)
    found = [
        _condition("PodReadyToStartContainers", not over),
        _condition("Initialized", *_initialized(view, current)),
        _condition("Ready", *_ready_for_all(view, ready)),
        _condition("ContainersReady", *ready),
        _condition("PodScheduled", True),
    ]
    old = {c["type"]: c for c in (view.pod.get("status") or {}).get("conditions") or ()}
    announced = is_announced((name, c.get("status")) for name, c in old.items())
    if view.verdict is not None and view.verdict.disruption and over and not announced:
        found.append(_condition(DISRUPTION_TARGET, True, "TerminationByKubelet", view.verdict.disruption))
    generation = view.pod["metadata"].get("generation", 1)
    return [_dated(c, old.get(c["type"]), generation, view.now) for c in found]


def _condition(type: str, value: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    texts = {"reason": reason, "message": message}
    return {"type": type, "status": str(value), **{key: text for key, text in texts.items() if text}}


def _dated(condition: dict[str, Any], old: Json | None, generation: int, now: datetime) -> Json:
    """The condition with lastTransitionTime, which changes only when the condition's status does."""
    unchanged = old is not None and old.get("status") == condition["status"]
    since = old["lastTransitionTime"] if unchanged and old and old.get("lastTransitionTime") else timestamp(now)
    return {**condition, "lastProbeTime": None, "lastTransitionTime": since, "observedGeneration": generation}


def _initialized(view: PodFacts, current: str) -> tuple[bool, str, str]:
    if current == pod_phases.SUCCEEDED:
        return True, "PodCompleted", ""
    if any(c.current for c in view.containers if not c.init):
        return True, "", ""
    if missing := _uninitialized(view):
        return False, "ContainersNotInitialized", f"containers with incomplete status: {_go_list(missing)}"
    return True, "", ""


def _uninitialized(view: PodFacts) -> list[str]:
    return [c.name for c in view.containers if c.init and not (c.running if c.sidecar else c.succeeded)]


def _is_initialized(view: PodFacts) -> bool:
    """Whether initialization is complete. After the end of the pod a sidecar counts if it has ever run."""
    return all(c.current is not None if c.sidecar else c.succeeded for c in view.containers if c.init)


def _containers_ready(view: PodFacts, current: str) -> tuple[bool, str, str]:
    if current in pod_phases.TERMINAL:
        return False, "PodCompleted" if current == pod_phases.SUCCEEDED else "PodFailed", ""
    unready = [c.name for c in view.containers if (c.sidecar or not c.init) and not _ready(c, view)]
    if unready:
        failed = next((why for name in unready if (why := view.unready.get(name, ""))), "")
        message = f"containers with unready status: {_go_list(unready)}"
        return False, "ContainersNotReady", f"{message}; {failed}" if failed else message
    return True, "", ""


def _ready_for_all(view: PodFacts, containers: tuple[bool, str, str]) -> tuple[bool, str, str]:
    """The Ready condition: ready containers and all readiness gates (GeneratePodReadyCondition)."""
    if not containers[0]:
        return containers
    known = {c["type"]: c["status"] for c in (view.pod.get("status") or {}).get("conditions") or ()}
    closed = []
    for gate in (g["conditionType"] for g in view.pod["spec"].get("readinessGates") or ()):
        if gate not in known:
            closed.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif known[gate] != "True":
            closed.append(f'the status of pod readiness gate "{gate}" is not "True", but {known[gate]}')
    return (False, "ReadinessGatesNotReady", ", ".join(closed)) if closed else containers


def _go_list(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"


# --- patches ----------------------------------------------------------------------------------------------


def status_patch(old: Json, new: Json) -> Json:
    """The fields of `new` that differ from `old`, conditions compared one by one; empty if none differs.

    It is a strategic merge patch: null removes the reason or message that a condition no longer has.
    """
    changed = {key: value for key, value in new.items() if key != "conditions" and not _same(old.get(key), value)}
    changed.pop("observedGeneration", None)
    known = {c.get("type"): c for c in old.get("conditions") or ()}
    differ = [c for c in new["conditions"] if not _same_condition(known.get(c["type"]), c)]
    conditions = [{**dict.fromkeys(_gone(known.get(c["type"]), c)), **c} for c in differ]
    if conditions:
        changed["conditions"] = conditions
    if changed and "observedGeneration" in new:
        changed["observedGeneration"] = new["observedGeneration"]
    return changed


def _gone(old: Json | None, new: Json) -> list[str]:
    """Return the names of text fields (reason, message) that `old` has and `new` lacks."""
    return [key for key in ("reason", "message") if old and old.get(key) and not new.get(key)]


def _same(old: Json, new: Json) -> bool:
    return bool(old == new or (old is not None and _bare(old) == _bare(new)))


def _bare(value: Json) -> Json:
    """The value without nulls and empty values, which an API server may omit."""
    if isinstance(value, dict):
        return {key: bare for key, part in value.items() if (bare := _bare(part)) not in (None, {}, [], "")}
    if isinstance(value, list | tuple):
        return [_bare(part) for part in value]
    return value


def _same_condition(old: Json | None, new: Json) -> bool:
    return old is not None and all(
        (old.get(key) or "") == (new.get(key) or "") for key in ("status", "reason", "message")
    )

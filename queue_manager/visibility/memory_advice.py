"""What to do about a container that was killed for its memory, from the Job's template and its pods. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api import keys
from queue_manager.lifecycle.pod_causes import OOM_KILLED
from queue_manager.visibility.pod_attempts import creation_order
from queue_manager.visibility.wire_types import ContainerStatus, Pod

MI = 1 << 20


class MemoryOf(msgspec.Struct, frozen=True, kw_only=True):
    """A container that was killed. Quantities as in the API, "" where absent; `peak`: of the pod, in bytes."""

    container: str
    limit: str
    request: str
    peak: int | None

    @property
    def text(self) -> str:
        """`container main: limits.memory 64Mi, request 64Mi, peak 98Mi`."""
        known = [f"limits.memory {self.limit}" if self.limit else "no limits.memory"]
        known += [f"request {self.request}"] if self.request else []
        known += [f"peak {_mebibytes(self.peak)}"] if self.peak is not None else []
        return f"container {self.container}: {', '.join(known)}"


def killed_for_memory(job: Job, pods: Sequence[Pod]) -> MemoryOf | None:
    """The container that was killed in the newest such pod; if no pod is left, the only container with a limit."""
    killed = [(pod, one) for pod in sorted(pods, key=creation_order) for one in _statuses(pod) if was_oom_killed(one)]
    containers = _containers(job)
    if killed:
        pod, status = killed[-1]
        peak = pod.metadata.annotations.get(keys.PEAK_MEMORY, "")
        return _memory(status.name, containers, int(peak) if peak.isascii() and peak.isdecimal() else None)
    limited = [name for name, container in containers.items() if _amount(container, "limits")]
    return _memory(limited[0], containers, None) if len(limited) == 1 else None


def memory_advice(job: Job, pods: Sequence[Pod], cause: str, *, deactivated: bool = False) -> list[str]:
    """Sentences for a Job whose cause is OOMKilled: its memory limit, and what to do next. Empty for other Jobs.

    `deactivated`: the Job is suspended, so that the resources of its pods may be edited (KEP-5440).
    """
    found = killed_for_memory(job, pods) if cause.startswith(OOM_KILLED) else None
    if found is None:
        return []
    again = "then reactivate the Job" if deactivated else "and submit the Job again"
    if not found.limit:
        return [found.text, f"the memory of its node ran out: request as much memory as it needs, {again}"]
    return [found.text, f"raise limits.memory, and the request with it, above {_above(found)}, {again}"]


def was_oom_killed(status: ContainerStatus) -> bool:
    """Whether the container was killed for its memory, now or before its last restart."""
    ends = (status.state.terminated, status.last_state.terminated)
    return any(end is not None and end.reason == OOM_KILLED for end in ends)


def _above(found: MemoryOf) -> str:
    """The limit as text, with the peak if that is higher, as is possible where memory is sampled."""
    return found.limit if found.peak is None else f"{found.limit} (it had {_mebibytes(found.peak)} and needed more)"


def _memory(name: str, containers: dict[str, Json], peak: int | None) -> MemoryOf:
    container = containers.get(name) or {}
    limit = _amount(container, "limits")
    return MemoryOf(container=name, limit=limit, request=_amount(container, "requests") or limit, peak=peak)


def _containers(job: Job) -> dict[str, Json]:
    spec = job.spec.template.get("spec") or {}
    listed = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return {str(container.get("name")): container for container in listed}


def _amount(container: Json, kind: str) -> str:
    amounts = (container.get("resources") or {}).get(kind) or {}
    return str(amounts.get("memory") or "")


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _mebibytes(amount: int) -> str:
    return f"{-(-amount // MI)}Mi"

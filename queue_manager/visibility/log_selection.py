"""Chooses the pods and containers whose logs `sluice logs` prints. Pure.

The pods of a Job fill slots: the indexes of an Indexed Job; one slot if a Job wants a single pod; otherwise each pod is
a slot of its own, since nothing says which pod another one replaced. Within a slot the newest pod is the current
attempt, and the one before it the previous attempt. A container that was restarted in its pod has a previous log there,
which counts as the previous attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from job_controller.model import Job
from job_controller.pod_facts import completion_index
from queue_manager.visibility.pod_attempts import creation_order, failed_container, has_started
from queue_manager.visibility.wire_types import ContainerStatus, Pod


class LogSource(NamedTuple):
    """One log: a container of a pod. `label` is unique among the pods of a Job.

    `restarts`: how often the container was restarted. `before_restart`: its log before the last restart.
    `started`: when the process was started, if known. `sluice up` starts a process that its stop interrupted again
    without counting a restart, and the log of the interrupted process is continued by that of the next. `others`: the
    other containers of the pod, if none was named.
    """

    pod: str
    uid: str
    container: str
    label: str
    restarts: int = 0
    before_restart: bool = False
    started: datetime | None = None
    others: tuple[str, ...] = ()

    @property
    def log(self) -> LogSource:
        """Return the source without what differs between the processes that write to the same log, for comparison."""
        return self._replace(before_restart=False, started=None, others=())


def has_several_pods(job: Job) -> bool:
    """Whether the Job may run more than one pod beside retries."""
    return job.spec.completion_mode == "Indexed" or job.spec.pods_at_once > 1 or (job.spec.completions or 1) > 1


def missing_index(job: Job, index: int | None) -> str:
    """Return why the Job has no such index; "" if it has, or if no index was named (None)."""
    if index is None:
        return ""
    if job.spec.completion_mode != "Indexed" or job.spec.completions is None:
        return f"Job {job.metadata.key} is not indexed"
    last = job.spec.completions - 1
    return "" if 0 <= index <= last else f"Job {job.metadata.key} has no index {index}; its indexes are 0 to {last}"


def log_sources(
    job: Job,
    pods: Iterable[Pod],
    *,
    index: int | None = None,
    failed: bool = False,
    previous: bool = False,
    container: str = "",
    all_attempts: bool = False,
) -> list[LogSource]:
    """Return the logs in the order of indexes, then of creation.

    `index`: only of this one. `failed`: only of pods that failed, or of which a container has. `all_attempts`: of each
    slot all pods, as needed to follow a Job.
    """
    found = []
    for slot in _slots(job, pods):
        if index is not None and completion_index(slot[-1]) != index:
            continue
        chosen = [pod for pod in slot if _has_failed(pod)] if failed else slot
        if all_attempts:
            found += [source for pod in chosen if (source := _source(job, pod, container)) is not None]
        else:
            source = _attempt(job, chosen, container, previous=previous, failed=failed)
            found += [source] if source is not None else []
    return found


def _slots(job: Job, pods: Iterable[Pod]) -> list[list[Pod]]:
    """Return the pods of each slot in the order of their creation."""
    ordered = sorted(pods, key=creation_order)
    if not has_several_pods(job):
        return [ordered] if ordered else []
    if job.spec.completion_mode != "Indexed":
        return [[pod] for pod in ordered]
    slots: dict[int, list[Pod]] = {}
    for pod in ordered:
        slots.setdefault(completion_index(pod), []).append(pod)
    return [slot for _, slot in sorted(slots.items())]


def _has_failed(pod: Pod) -> bool:
    return pod.status.has_failed or failed_container(pod) is not None


def _attempt(job: Job, slot: Sequence[Pod], container: str, *, previous: bool, failed: bool) -> LogSource | None:
    newest = _source(job, slot[-1], container, failed=failed) if slot else None
    if not previous:
        return newest
    if newest is not None and newest.restarts:
        return newest._replace(before_restart=True)
    return _source(job, slot[-2], container) if len(slot) > 1 else None


def _source(job: Job, pod: Pod, container: str, *, failed: bool = False) -> LogSource | None:
    """Return the log of the named container; None if it has not started.

    By default of the one that failed, once the pod has failed, or if only failed ones are wanted (`failed`).
    """
    status = _container(pod, container, failed)
    if status is None or not has_started(status):
        return None
    index = completion_index(pod)
    label = str(index) if job.spec.completion_mode == "Indexed" and index >= 0 else pod.metadata.name
    return LogSource(
        pod.metadata.name,
        pod.metadata.uid,
        status.name,
        label,
        status.restart_count,
        started=_started_at(status),
        others=() if container else _others(pod, status.name),
    )


def _others(pod: Pod, name: str) -> tuple[str, ...]:
    own = (status.name for status in pod.status.container_statuses)
    init = (f"{status.name} (init)" for status in pod.status.init_container_statuses)
    return tuple(other for other in (*own, *init) if other.removesuffix(" (init)") != name)


def _started_at(status: ContainerStatus) -> datetime | None:
    """When the process of the last start of a container was started; None if that is unknown."""
    state = status.state.running or status.state.terminated or status.last_state.terminated
    return state.started_at if state is not None else None


def _container(pod: Pod, name: str, of_failed: bool) -> ContainerStatus | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    if name:
        return next((status for status in statuses if status.name == name), None)
    failed = failed_container(pod)
    own = pod.status.container_statuses
    is_wanted = failed is not None and (of_failed or pod.status.has_failed)
    return failed if is_wanted else own[0] if own else None

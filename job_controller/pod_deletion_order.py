"""Which pods of a Job are deleted first if there are too many (BEHAVIOUR.md#b24-removal-order)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime

from job_controller import pod_phases
from job_controller.model import Pod
from job_controller.pod_facts import completion_index

_PHASES = {pod_phases.PENDING: 0, pod_phases.UNKNOWN: 1, pod_phases.RUNNING: 2}
_NO_TIME = datetime.max.replace(tzinfo=UTC)  # sorts before every time, as upstream


def removal_order(pods: Iterable[Pod]) -> list[Pod]:
    """The pods in the order in which surplus ones are deleted (upstream ActivePodsWithRanks).

    Unassigned before bound; Pending before Unknown before Running; unready before ready; then ready for a shorter time,
    more restarts (of containers, then of sidecars), created later. Remaining ties go by lower completion index, then by
    UID.
    """
    return sorted(pods, key=_removal_key)


def _removal_key(pod: Pod) -> tuple[bool, int, bool, float, int, int, float, int, str]:
    statuses = pod.status.container_statuses
    restarts = statuses[0].restart_count if len(statuses) == 1 else max((s.restart_count for s in statuses), default=0)
    ready_since = _ready_since(pod)
    sidecar_restarts = _sidecar_restarts(pod) if pod.spec.init_containers else 0
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready_since is not None,
        -ready_since.timestamp() if ready_since is not None else 0.0,
        -restarts,
        -sidecar_restarts,
        -(pod.metadata.creation_timestamp or _NO_TIME).timestamp(),
        completion_index(pod),
        pod.metadata.uid,
    )


def _sidecar_restarts(pod: Pod) -> int:
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    return max((s.restart_count for s in pod.status.init_container_statuses if s.name in sidecars), default=0)


def _ready_since(pod: Pod) -> datetime | None:
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time or _NO_TIME
    return None


def surplus(pods: Sequence[Pod], wanted: int) -> list[Pod]:
    """The active pods to delete so that `wanted` remain."""
    extra = len(pods) - wanted
    return removal_order(pods)[:extra] if extra > 0 else []


def surplus_indexed(pods: Sequence[Pod], wanted: int, completions: int, settled: Set[int]) -> list[Pod]:
    """The active pods of an Indexed Job to delete so that at most `wanted` remain.

    First the pods that serve no unsettled index, and all but the last in removal order of each index.
    """
    best: dict[int, Pod] = {}
    needless: list[Pod] = []
    for pod in removal_order(pods):
        index = completion_index(pod)
        if not 0 <= index < completions or index in settled:
            needless.append(pod)
            continue
        worse = best.pop(index, None)
        if worse is not None:
            needless.append(worse)
        best[index] = pod
    extra = len(best) - wanted
    return needless + list(best.values())[: max(0, extra)]

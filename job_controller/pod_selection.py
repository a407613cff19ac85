"""Which pods belong to a Job, and which of them go first when there are too many (spec 2.2.9, 2.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import NamedTuple

from job_controller.model import Job, LabelSelector, LabelSelectorRequirement, Pod
from job_controller.pod_facts import completion_index

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NO_TIME = datetime.max.replace(tzinfo=UTC)  # goes before every time, as with the built-in controller


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Label selector semantics of the API: no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(name) != value for name, value in selector.match_labels.items()):
        return False
    return all(_meets(requirement, labels) for requirement in selector.match_expressions)


def _meets(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


class Claims(NamedTuple):
    """Pods that are the Job's, and those whose owner reference must change."""

    owned: tuple[Pod, ...]
    adopt: tuple[Pod, ...]
    release: tuple[Pod, ...]


def claims(job: Job, owned: Iterable[Pod], orphans: Iterable[Pod]) -> Claims:
    """Sort pods of this Job's UID, and pods without a controller, by what the selector says.

    A Job being deleted neither adopts nor releases; a pod being deleted is not adopted.
    """
    selector = job.spec.selector
    deleting = job.metadata.deletion_timestamp is not None
    owned = tuple(owned)
    if selector is None:  # no API server stores such a Job: it is left alone
        return Claims(owned, (), ())
    mine = _matching(selector, owned)
    release: list[Pod] = []
    if len(mine) < len(owned) and not deleting:
        release = [pod for pod in owned if not matches(selector, pod.metadata.labels)]
    adopt = (
        []
        if deleting
        else [p for p in orphans if p.metadata.deletion_timestamp is None and matches(selector, p.metadata.labels)]
    )
    return Claims(tuple(mine), tuple(adopt), tuple(release))


def _matching(selector: LabelSelector, pods: Sequence[Pod]) -> Sequence[Pod]:
    if len(selector.match_labels) == 1 and not selector.match_expressions:  # nearly always
        [(name, value)] = selector.match_labels.items()
        return [pod for pod in pods if pod.metadata.labels.get(name) == value]
    return [pod for pod in pods if matches(selector, pod.metadata.labels)]


def removal_order(pods: Iterable[Pod]) -> list[Pod]:
    """The pods, those whose loss costs least first.

    Unassigned before bound, pending before running, unready before ready; then the one ready for a shorter
    time, with more restarts (of its containers, then of its sidecars), created later. Of equal ones, as with the
    built-in controller, those of the lower completion index; the UID makes the order total.
    """
    return sorted(pods, key=_worth)


def _worth(pod: Pod) -> tuple[bool, int, bool, float, int, int, float, int, str]:
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
    """The active pods to remove so that `wanted` are left."""
    extra = len(pods) - wanted
    return removal_order(pods)[:extra] if extra > 0 else []


def surplus_indexed(pods: Sequence[Pod], wanted: int, completions: int, settled: Set[int]) -> list[Pod]:
    """As surplus, for an Indexed Job: first those that serve no open index, and all but the best of each index."""
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

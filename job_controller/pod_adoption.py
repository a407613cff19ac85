"""Which pods belong to a Job, which it adopts, and which it releases (BEHAVIOUR.md#b14-owned-pods)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from job_controller.model import Job, LabelSelector, LabelSelectorRequirement, Pod


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches the labels: None matches nothing, an empty selector everything."""
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
    """The pods that belong to the Job, the pods to adopt, and the pods to release."""

    owned: tuple[Pod, ...]
    adopt: tuple[Pod, ...]
    release: tuple[Pod, ...]


def claims(job: Job, owned: Iterable[Pod], orphans: Iterable[Pod]) -> Claims:
    """Classify the pods controlled by this Job's UID (`owned`) and the pods without a controller (`orphans`) by the
    selector.

    A Job being deleted neither adopts nor releases; a pod being deleted is not adopted (upstream
    PodControllerRefManager.ClaimPods).
    """
    selector = job.spec.selector
    deleting = job.metadata.deletion_timestamp is not None
    owned = tuple(owned)
    if selector is None:  # invalid, see job_warnings.invalid_job
        return Claims(owned, (), ())
    matching = _matching(selector, owned)
    release: list[Pod] = []
    if len(matching) < len(owned) and not deleting:
        release = [pod for pod in owned if not matches(selector, pod.metadata.labels)]
    adopt = (
        []
        if deleting
        else [p for p in orphans if p.metadata.deletion_timestamp is None and matches(selector, p.metadata.labels)]
    )
    return Claims(tuple(matching), tuple(adopt), tuple(release))


def _matching(selector: LabelSelector, pods: Sequence[Pod]) -> Sequence[Pod]:
    if len(selector.match_labels) == 1 and not selector.match_expressions:  # the common case
        [(name, value)] = selector.match_labels.items()
        return [pod for pod in pods if pod.metadata.labels.get(name) == value]
    return [pod for pod in pods if matches(selector, pod.metadata.labels)]

"""Counts running pods that `sluice import` leaves outside, because they belong to no batch/v1 Job. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from job_controller.model import Pod
from job_controller.pod_facts import is_terminal

NO_CONTROLLER = "without a controller"


def left_out(pods: Iterable[Pod]) -> dict[str, int]:
    """Count the unfinished pods on nodes without a batch/v1 Job, by the kind of their owner, the most frequent first.

    An owner without running pods is not found; it needs no quota now either.
    """
    counts = Counter(whose for pod in pods if (whose := _whose(pod)))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def sentence(counts: dict[str, int]) -> str:
    """Name what is left out; "" if nothing is."""
    if not counts:
        return ""
    total = sum(counts.values())
    pods = "1 pod" if total == 1 else f"{total} pods"
    parts = ", ".join(f"{count} {whose}" for whose, count in counts.items())
    return f"Left out, as only batch/v1 Jobs are imported: {pods} on nodes but in no quota ({parts})"


def _whose(pod: Pod) -> str:
    """Return `of kind K` for a pod of another owner than a Job, NO_CONTROLLER without one; "" if it has ended, has no
    node yet, or is a Job's.
    """
    owner = pod.metadata.controller
    if is_terminal(pod) or not pod.spec.node_name or (owner is not None and owner.is_job):
        return ""
    return NO_CONTROLLER if owner is None else f"of kind {owner.kind}"

"""How the pods of a Job failed, as far as those pods still exist. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from job_controller.disruption_target import DISRUPTION_TARGET
from job_controller.pod_facts import finish_time
from queue_manager.api import reasons
from queue_manager.api.types import Workload
from queue_manager.visibility.pod_attempts import failed_container
from queue_manager.visibility.wire_types import Pod

OOM_KILLED = "OOMKilled"


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The end of one failed pod. `exit_code` None: no container of it failed, the pod itself did (`reason`)."""

    namespace: str
    pod: str
    container: str
    exit_code: int | None
    reason: str
    message: str
    at: datetime
    last_line: str = ""  # of its container's log

    @property
    def text(self) -> str:
        """`exit 3: ValueError: no such column`, `OOMKilled (exit 137)`."""
        code = "" if self.exit_code is None else f"exit {self.exit_code}"
        named = self.reason if self.reason != "Error" else ""
        head = f"{named} ({code})" if named and code else named or code
        return ": ".join(part for part in (head, self.last_line or self.message) if part)


def newest_failure(pods: Iterable[Pod], since: datetime | None = None) -> Failure | None:
    """That of the pod that failed last, and not before `since`. Disrupted pods did not fail by themselves."""
    failed = [pod for pod in pods if pod.status.phase == "Failed" and not _disrupted(pod)]
    newest = max(failed, key=lambda pod: (finish_time(pod), pod.metadata.name), default=None)
    return None if newest is None or (since is not None and finish_time(newest) < since) else _failure(newest)


def _disrupted(pod: Pod) -> bool:
    return any(c.type == DISRUPTION_TARGET and c.is_true for c in pod.status.conditions)


def _failure(pod: Pod) -> Failure:
    container = failed_container(pod)
    end = container.state.terminated if container is not None else None
    return Failure(
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        container=container.name if container is not None else "",
        exit_code=end.exit_code if end is not None else None,
        reason=end.reason if end is not None else pod.status.reason,
        message=end.message if end is not None else pod.status.message,
        at=finish_time(pod),
    )


def failures(workloads: Iterable[Workload], pods: Iterable[Pod]) -> dict[str, Failure]:
    """The newest failure of each Workload's Job by Workload UID, in the tries that led to its last deactivation."""
    by_job: dict[str, list[Pod]] = {}
    for pod in pods:
        owner = pod.metadata.controller
        if owner is not None:
            by_job.setdefault(owner.uid, []).append(pod)
    found: Mapping[str, Failure | None] = {
        workload.metadata.uid: newest_failure(by_job.get(owner.uid, ()), first_try(workload))
        for workload in workloads
        if (owner := workload.metadata.controller) is not None
    }
    return {uid: failure for uid, failure in found.items() if failure is not None}


def first_try(workload: Workload) -> datetime | None:
    """When the first try began of those that led to the newest deactivation; None if no try is recorded."""
    history = workload.status.requeue_history
    attempts = history.attempts if history is not None else ()
    start = None
    for number, attempt in enumerate(reversed(attempts)):
        if number and attempt.reason.startswith(reasons.DEACTIVATED):
            break
        start = attempt.start
    return start

"""The failures of containers that their node starts again, as steps of the history. Pure.

Such a pod lives on, and may have many of them. A step is identified by the pod and the number of the restart, so that
a state that is read again has the same step. The first EACH restarts have one each, later ones only where their number
has doubled: so a pod has few steps, however long its containers fail.
"""

from __future__ import annotations

from collections.abc import Iterator

from job_controller.model import Pod
from queue_manager.accounting.record_types import StepKind, StepRecord
from queue_manager.lifecycle.pod_causes import failure_before_restart

EACH = 10


def container_failures(old: Pod | None, new: Pod, job_uid: str) -> Iterator[StepRecord]:
    """The failure before the newest restart in `new`, if its number has a step that `old` does not show.

    Of several restarts between two states only the last one is known.
    """
    known = _step(old, job_uid) if old is not None else None
    found = _step(new, job_uid)
    if found is not None and (known is None or known.key != found.key):
        yield found


def _step(pod: Pod, job_uid: str) -> StepRecord | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    restarts = sum(status.restart_count for status in statuses)
    failure = failure_before_restart(pod)
    if failure is None or restarts == 0:
        return None
    where = f"{pod.metadata.name} on {pod.spec.node_name or 'no node'}"
    return StepRecord(
        job_uid=job_uid,
        uid=pod.metadata.uid,
        attempt=0,
        kind=StepKind.CONTAINER_FAILED,
        at=failure.at,
        occurrence=_number_with_step(restarts),
        message=f"{where}: {failure.text} (restart {restarts})",
    )


def _number_with_step(restarts: int) -> int:
    """The number of the newest restart up to this one that has a step: 1, 2, ..., EACH, and its doubles."""
    number = EACH
    while number * 2 <= restarts:
        number *= 2
    return min(restarts, number)

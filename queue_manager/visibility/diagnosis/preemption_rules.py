"""Jobs that preempt others again and again, and never get ready with the quota. Pure.

The scheduler knows quota and no nodes, as Kueue's does: an evicted preemptor preempts again after its backoff.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from queue_manager.api import reasons
from queue_manager.api.condition_types import FINISHED, PREEMPTED
from queue_manager.api.types import Attempt, Workload
from queue_manager.visibility.attempt_counts import budget_attempts
from queue_manager.visibility.deactivated_jobs import LIMIT, job_name
from queue_manager.visibility.diagnosis.problem import Problem, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot

REPEATED_PREEMPTION = "RepeatedPreemption"
REPEATED = 2  # attempts: the first one may have been bad luck
_NEVER_READY = (reasons.WAIT_FOR_START, reasons.UNSCHEDULABLE)


def repeated_preemptions(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Jobs for which others were preempted, and whose pods were not ready in time in any attempt.

    The victim's condition names its last preemptor, and that of an attempt before is not known.
    """
    victims = [each for each in snapshot.workloads or () if each.condition(PREEMPTED) is not None]
    for workload in snapshot.workloads or ():
        attempts = budget_attempts(workload)
        if workload.is_true(FINISHED) or len(attempts) < REPEATED or not all(map(_never_ready, attempts)):
            continue
        of_it = [victim for victim in victims if _is_preempted_by(victim, workload)]
        if of_it:
            namespace, name = workload.metadata.namespace, job_name(workload)
            yield warning(
                REPEATED_PREEMPTION,
                f"job/{name} -n {namespace}",
                f"Job {namespace}/{name} preempts others ({_victims(of_it)}), and its pods were not ready in time in "
                f"any of its {len(attempts)} attempts{_cause(attempts)}.",
                f"sluice explain {namespace}/{name}; sluice deactivate {namespace}/{name}",
            )


def _never_ready(attempt: Attempt) -> bool:
    return attempt.reason in (reasons.PODS_READY_TIMEOUT, LIMIT) and attempt.cause in _NEVER_READY


def _is_preempted_by(victim: Workload, workload: Workload) -> bool:
    condition = victim.condition(PREEMPTED)
    return condition is not None and f"(UID: {workload.metadata.uid}, " in condition.message


def _victims(workloads: Sequence[Workload]) -> str:
    """`default/low`, or `3, such as default/low`."""
    first = min(f"{each.metadata.namespace}/{job_name(each)}" for each in workloads)
    return first if len(workloads) == 1 else f"{len(workloads)}, such as {first}"


def _cause(attempts: Sequence[Attempt]) -> str:
    return f": {attempts[-1].pod_cause}" if attempts[-1].pod_cause else ""

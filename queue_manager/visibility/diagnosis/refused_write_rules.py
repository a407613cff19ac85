"""Jobs that do not run because the API server refuses what the queue manager writes about them. Pure.

Jobs with one cause are one finding: their number, and an example. BEHAVIOUR.md#q246-writes-that-the-api-server-refuses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from job_controller.model import Key
from queue_manager.visibility.diagnosis.problem import Problem, error, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.job_states import job_state, workloads_by_job
from queue_manager.visibility.refused_writes import AWAITED, WRITES, newest_refusal, remedy, rule
from queue_manager.visibility.wire_types import Event

REFUSED_WRITES = "RefusedWrites"


def refused_writes(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Jobs that wait for a write of the manager which the API server refuses, by what refuses it.

    An error if a policy, a webhook, a quota or a missing right does, a warning if it is about the Job itself.
    """
    groups: dict[tuple[str, str], list[tuple[Key, Event]]] = defaultdict(list)
    for job, event in _refused(snapshot):
        groups[rule(event), remedy(event, "").change].append((job, event))
    for (why, change), found in sorted(groups.items(), key=lambda group: group[0]):
        first, event = min(found, key=lambda pair: pair[0])
        needed = remedy(event, str(first))
        which = f"Job {first}" if len(found) == 1 else f"{len(found)} Jobs, such as {first}"
        problem = error if needed.of_admins else warning
        yield problem(
            REFUSED_WRITES,
            f"job/{first.name} -n {first.namespace}",
            f"The API server refuses {WRITES} about {which}: {why.rstrip('.')}. Nothing of that starts until {change}.",
            f"sluice explain {first}; {needed.command}",
        )


def _refused(snapshot: ClusterSnapshot) -> Iterator[tuple[Key, Event]]:
    by_job = workloads_by_job(snapshot.workloads or ())
    by_object: dict[str, list[Event]] = defaultdict(list)
    for event in snapshot.refusals:
        by_object[event.involved_object.uid].append(event)
    for job in snapshot.jobs or () if by_object else ():
        workload = by_job.get(job.metadata.uid)
        uids = [thing.metadata.uid for thing in (job, workload) if thing is not None]
        events = [event for uid in uids for event in by_object.get(uid, ())]
        found = newest_refusal(job, workload, events, snapshot.now) if events else None
        if found is not None and job_state(job, workload, snapshot.now) in AWAITED:
            yield job.metadata.key, found

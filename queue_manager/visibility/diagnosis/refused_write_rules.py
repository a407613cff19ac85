"""Jobs that do not run because the API server refuses what the queue manager writes about them, or their pods. Pure.

Jobs with one cause are one finding: their number, and an example. BEHAVIOUR.md#q246-writes-that-the-api-server-refuses
and BEHAVIOUR.md#q249-pods-that-the-api-server-refuses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from job_controller.model import Job, Key
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.lifecycle import refused_pods as pod_refusals
from queue_manager.lifecycle.refused_pods import without_object
from queue_manager.visibility.diagnosis.problem import Problem, error, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.job_states import JobState, job_state, workloads_by_job
from queue_manager.visibility.refused_writes import AWAITED, PODS, WRITES, answer, newest_refusal, remedy_of

REFUSED_WRITES, REFUSED_PODS = "RefusedWrites", "RefusedPods"


class _Refusal(NamedTuple):
    """What the API server has answered about a Job."""

    job: Key
    answer: str


def refused_writes(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Jobs that wait for a write of the manager which the API server refuses, by what refuses it.

    An error if a policy, a webhook, a quota or a missing right does, a warning if it is about the Job itself.
    """
    found = []
    for job, workload, events in _with_refusals(snapshot):
        event = newest_refusal(job, workload, events, snapshot.now)
        if event is not None and job_state(job, workload, snapshot.now) in AWAITED:
            found.append(_Refusal(job.metadata.key, answer(event)))
    yield from _problems(REFUSED_WRITES, found, WRITES, f"{WRITES} about", "Nothing of that starts")


def refused_pods(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Jobs that hold quota without pods, since the API server refuses these, by what refuses them; as above."""
    found = []
    for job, workload, events in _with_refusals(snapshot):
        event = pod_refusals.newest_refusal(job, events)
        if event is not None and job_state(job, workload, snapshot.now) == JobState.STARTING:
            found.append(_Refusal(job.metadata.key, pod_refusals.answer(event)))
    yield from _problems(REFUSED_PODS, found, PODS, "the pods of", "Quota is held without pods")


def _problems(code: str, refusals: Iterable[_Refusal], what: str, subject: str, effect: str) -> Iterator[Problem]:
    """Yield a problem for each cause. `what` must be allowed; `subject`: what is refused, before the names of Jobs."""
    groups: dict[tuple[str, str], list[_Refusal]] = defaultdict(list)
    for each in refusals:
        change = remedy_of(each.answer, each.job.namespace, what, "").change
        groups[without_object(each.answer), change].append(each)
    for (why, change), found in sorted(groups.items(), key=lambda group: group[0]):
        first = min(found)
        needed = remedy_of(first.answer, first.job.namespace, what, str(first.job))
        which = f"Job {first.job}" if len(found) == 1 else f"{len(found)} Jobs, such as {first.job}"
        problem = error if needed.of_admins else warning
        yield problem(
            code,
            f"job/{first.job.name} -n {first.job.namespace}",
            f"The API server refuses {subject} {which}: {why.rstrip('.')}. {effect} until {change}.",
            f"sluice explain {first.job}; {needed.command}",
        )


def _with_refusals(snapshot: ClusterSnapshot) -> Iterator[tuple[Job, Workload | None, list[Event]]]:
    """Yield each Job about which, or about whose Workload, something was refused, with these Events."""
    by_job = workloads_by_job(snapshot.workloads or ())
    by_object: dict[str, list[Event]] = defaultdict(list)
    for event in snapshot.refusals:
        by_object[event.involved_object.uid].append(event)
    for job in snapshot.jobs or () if by_object else ():
        workload = by_job.get(job.metadata.uid)
        uids = [thing.metadata.uid for thing in (job, workload) if thing is not None]
        events = [event for uid in uids for event in by_object.get(uid, ())]
        if events:
            yield job, workload, events

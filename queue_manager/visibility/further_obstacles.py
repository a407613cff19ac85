"""What else keeps a pending Job from ever starting, beside its dominant reason. Pure.

The scheduler stops at the first rule that refuses a Workload, and an inactive ClusterQueue hides all of them: without
this, whoever puts one obstacle right learns of the next one only then. The checks are those of `sluice submit`
(`obstacles`, `never_fits`) on the objects on which the scheduler decides. BEHAVIOUR.md#q51-explanations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from job_controller.model import Job
from queue_manager.api import messages, reasons
from queue_manager.api.types import ClusterQueue
from queue_manager.visibility.explained_case import Case
from queue_manager.visibility.never_fits import group_obstacles, without_quota
from queue_manager.visibility.obstacles import judged_job, selects_namespace
from queue_manager.visibility.reason_with_sentence import Finding, with_besides
from queue_manager.visibility.scheduler_judgement import NEVER_REASONS, ClusterObjects


class Further(NamedTuple):
    """A further obstacle, and what would remove it, both as clauses."""

    what: str
    change: str


def with_further_obstacles(case: Case, found: Finding) -> Finding:
    """Add the obstacles that `found` does not name to its sentence, and to each of its changes what they require.

    Unchanged is a Job that may start, and one whose reader may not list all objects of the queue.
    """
    objects, queue = case.around.objects, case.around.above
    if found.reason not in NEVER_REASONS or objects is None or queue is None:
        return found
    further = [*_of_namespace(case, found, objects, queue)]
    job = judged_job(case.job)
    if job is not None:
        further += [*_of_groups(case, found, objects, queue, job), *_of_resources(case, found, queue, job)]
    if not further:
        return found
    besides = "; ".join(each.what for each in further)
    needed = ", and ".join(each.change for each in further)
    changes = tuple(f"{change}, and {needed}" for change in found.changes)
    return replace(found, sentence=with_besides(found.sentence, besides), changes=changes)


def _of_namespace(case: Case, found: Finding, objects: ClusterObjects, queue: ClusterQueue) -> Iterator[Further]:
    namespaces = {each.metadata.name: each.metadata.labels for each in objects.namespaces}
    name, namespace = f"ClusterQueue {queue.metadata.name}", case.key.namespace
    if found.message != messages.NAMESPACE_MISMATCH_MESSAGE and not selects_namespace(queue, namespace, namespaces):
        what = f"{name} admits no Jobs of namespace {namespace} (namespaceSelector)"
        yield Further(what, f"an admin lets {name} admit Jobs of namespace {namespace}")


def _of_groups(case: Case, found: Finding, objects: ClusterObjects, queue: ClusterQueue, job: Job) -> Iterator[Further]:
    flavors = {each.metadata.name: each for each in objects.flavors}
    rules = case.around.settings.resources
    for each in group_obstacles(job, queue, objects.cluster_queues, flavors, rules, objects.cohorts):
        if each.refused and (found.reason != reasons.NO_MATCHING_FLAVOR or _lacks_quota(found)):
            fits = f"its node selector, affinity and tolerations fit a flavor of ClusterQueue {queue.metadata.name}"
            yield Further(f"no flavor of ClusterQueue {queue.metadata.name} takes it: {each.text}", fits)
        if not each.refused and found.reason != reasons.EXCEEDS_MAX_QUOTA:
            less = f"it requests less or an admin raises the quota of ClusterQueue {queue.metadata.name}"
            yield Further(f"it {each.text}", less)


def _of_resources(case: Case, found: Finding, queue: ClusterQueue, job: Job) -> Iterator[Further]:
    names = ", ".join(without_quota(job, queue, case.around.settings.resources))
    if names and found.reason != reasons.NO_MATCHING_FLAVOR:  # else the scheduler has found that, too
        what = f"ClusterQueue {queue.metadata.name} has no quota for {names}"
        yield Further(what, f"it does not request {names} or an admin adds a quota for {names}")


def _lacks_quota(found: Finding) -> bool:
    """Whether the scheduler has found that the ClusterQueue has no quota for a resource."""
    evidence = found.judgement.evidence if found.judgement is not None else None
    return evidence is not None and any(not row.flavor for row in evidence.flavors)

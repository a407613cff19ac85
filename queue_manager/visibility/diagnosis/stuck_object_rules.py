"""Rules of `sluice doctor` on objects whose deletion does not end, and Workloads whose Job is gone. Pure.

A deletion waits for a controller that has not removed its finalizer (`stuck_finalizers`), or for the objects that use a
queue or flavor (`deletions_in_use`).

A snapshot is not taken at one moment: the Job of a Workload may have been deleted while it was read, and the garbage
collector needs a while. So `TRANSIENT` findings count only if a second snapshot has them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TypeVar

from job_controller.model import Object
from queue_manager.api.condition_types import FINISHED, QUOTA_RESERVED
from queue_manager.api.keys import FINALIZER
from queue_manager.api.types import ClusterQueue, Workload
from queue_manager.visibility.diagnosis.problem import Problem, error, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot

STUCK_FINALIZER = "StuckFinalizer"
ORPHANED_WORKLOAD = "OrphanedWorkload"
DELETION_IN_USE = "DeletionInUse"
TRANSIENT = frozenset({STUCK_FINALIZER, ORPHANED_WORKLOAD, DELETION_IN_USE})

Kept = TypeVar("Kept", bound=Object)

STUCK_AFTER = timedelta(minutes=5)  # past the grace period: controllers retry a failed write within minutes


def stuck_finalizers(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Objects whose deletion has lasted longer than STUCK_AFTER and waits for no object that still exists."""
    used_queues = {name for workload in snapshot.workloads or () if (name := _queue_held(workload))}
    used_flavors = {name for queue in snapshot.cluster_queues or () for name in _flavors_of(queue)}
    owners = {owner.uid for pod in snapshot.pods or () for owner in pod.metadata.owner_references}
    kinds: Sequence[tuple[str, Iterable[Object], Collection[str]]] = (
        ("workload", snapshot.workloads or (), ()),
        ("pod", snapshot.pods or (), ()),
        ("job", snapshot.jobs or (), owners),
        ("localqueue", snapshot.local_queues or (), ()),
        ("clusterqueue", snapshot.cluster_queues or (), used_queues),
        ("resourceflavor", snapshot.flavors or (), used_flavors),
        ("cohort", snapshot.cohorts or (), ()),
    )
    for kind, objects, busy in kinds:
        for each in objects:
            if _is_stuck(each, snapshot) and not {each.metadata.uid, each.metadata.name} & set(busy):
                yield _stuck(kind, each)


def deletions_in_use(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Deleted ClusterQueues in which Workloads hold quota, and deleted flavors that ClusterQueues name.

    A flavor is left out if these ClusterQueues are being deleted, too: their end is its end.
    """
    for queue in _kept(snapshot.cluster_queues or ()):
        name = queue.metadata.name
        users = [str(each.metadata.key) for each in snapshot.workloads or () if _queue_held(each) == name]
        if users:
            wait = f"the quota of Workload {_first(users)} is released; no other is admitted meanwhile"
            if waiting := _waiting_in(name, snapshot):
                wait += f", so that Workload {_first(waiting)} cannot start"
            command = f"sluice drain cq/{name}: stops their Jobs; or wait for the end of these"
            yield _in_use(f"clusterqueue/{name}", queue, wait, command)
    for flavor in _kept(snapshot.flavors or ()):
        name = flavor.metadata.name
        naming = [queue.metadata for queue in snapshot.cluster_queues or () if name in _flavors_of(queue)]
        users = [meta.name for meta in naming if meta.deletion_timestamp is None]
        if users:
            wait = f"ClusterQueue {_first(users)} no longer names it"
            if running := [str(each.metadata.key) for each in snapshot.workloads or () if name in _flavors_held(each)]:
                wait += f"; quota of it is used by Workload {_first(running)}, and counts nowhere afterwards"
            edits = "; ".join(f"kubectl edit clusterqueue {user}" for user in users)
            yield _in_use(f"resourceflavor/{name}", flavor, wait, f"{edits}: take it out of spec.resourceGroups")


def orphaned_workloads(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Workloads that are not finished and whose Job does not exist. Those that users made without one are left out."""
    if snapshot.workloads is None or snapshot.jobs is None:
        return
    jobs = {job.metadata.uid for job in snapshot.jobs}
    for workload in snapshot.workloads:
        owner, meta = workload.metadata.controller, workload.metadata
        of_a_job = owner is None or owner.kind == "Job"
        if not of_a_job or not workload.job_uid or workload.job_uid in jobs or workload.is_true(FINISHED):
            continue
        place, command = (
            f"workload/{meta.name} -n {meta.namespace}",
            f"kubectl delete workload {meta.name} -n {meta.namespace}",
        )
        if workload.is_true(QUOTA_RESERVED):
            yield error(ORPHANED_WORKLOAD, place, "Its Job does not exist, and it holds quota.", command)
        elif meta.deletion_timestamp is None:
            yield warning(ORPHANED_WORKLOAD, place, "Its Job does not exist.", command)


def _is_stuck(each: Object, snapshot: ClusterSnapshot) -> bool:
    since = each.metadata.deletion_timestamp  # after the grace period
    return since is not None and bool(each.metadata.finalizers) and snapshot.now - since > STUCK_AFTER


def _stuck(kind: str, each: Object) -> Problem:
    meta = each.metadata
    where = f" -n {meta.namespace}" if meta.namespace else ""
    return warning(
        STUCK_FINALIZER,
        f"{kind}/{meta.name}{where}",
        f"It is being deleted since {meta.deletion_timestamp:%Y-%m-%dT%H:%M:%SZ} and waits for the owner of "
        f"{', '.join(meta.finalizers)}: is that running?",
        f'kubectl patch {kind} {meta.name}{where} --type merge -p \'{{"metadata":{{"finalizers":null}}}}\'',
    )


def _kept(objects: Iterable[Kept]) -> Iterator[Kept]:
    """Yield the deleted objects that Sluice keeps while they are in use."""
    for each in objects:
        if each.metadata.deletion_timestamp is not None and FINALIZER in each.metadata.finalizers:
            yield each


def _in_use(place: str, each: Object, wait: str, command: str) -> Problem:
    since = f"{each.metadata.deletion_timestamp:%Y-%m-%dT%H:%M:%SZ}"
    return warning(DELETION_IN_USE, place, f"It is being deleted since {since}, which ends when {wait}.", command)


def _first(names: Sequence[str]) -> str:
    more = len(names) - 1
    return f"{names[0]} and {more} more" if more else names[0]


def _queue_held(workload: Workload) -> str:
    """The ClusterQueue in which the Workload holds quota; "" if it holds none."""
    admission = workload.status.admission
    return admission.cluster_queue if admission is not None and not workload.is_true(FINISHED) else ""


def _flavors_held(workload: Workload) -> set[str]:
    """The flavors of which the Workload holds quota."""
    admission = workload.status.admission if not workload.is_true(FINISHED) else None
    pod_sets = admission.pod_set_assignments if admission is not None else ()
    return {flavor for each in pod_sets for flavor in each.flavors.values()}


def _waiting_in(name: str, snapshot: ClusterSnapshot) -> list[str]:
    """The Workloads without quota that are in a LocalQueue of this ClusterQueue."""
    queues = {queue.metadata.key for queue in snapshot.local_queues or () if queue.spec.cluster_queue == name}
    inside = (each for each in snapshot.workloads or () if each.local_queue in queues and each.spec.active)
    return [str(each.metadata.key) for each in inside if not (_queue_held(each) or each.is_true(FINISHED))]


def _flavors_of(queue: ClusterQueue) -> set[str]:
    return {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}

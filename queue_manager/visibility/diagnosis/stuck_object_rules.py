"""Rules of `sluice doctor` on objects whose deletion does not end, and Workloads whose Job is gone. Pure.

A snapshot is not taken at one moment: the Job of a Workload may have been deleted while it was read, and the garbage
collector needs a while. So `TRANSIENT` findings count only if a second snapshot has them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta

from job_controller.model import Object
from queue_manager.api.condition_types import FINISHED, QUOTA_RESERVED
from queue_manager.api.types import ClusterQueue, Workload
from queue_manager.visibility.diagnosis.problem import Problem, error, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot

STUCK_FINALIZER = "StuckFinalizer"
ORPHANED_WORKLOAD = "OrphanedWorkload"
TRANSIENT = frozenset({STUCK_FINALIZER, ORPHANED_WORKLOAD})

STUCK_AFTER = timedelta(minutes=5)  # past the grace period: controllers retry a failed write within minutes


def stuck_finalizers(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Objects whose deletion has lasted longer than STUCK_AFTER and waits for no object that still exists."""
    used_queues, used_flavors = _queues_in_use(snapshot.workloads or ()), _flavors_in_use(snapshot.cluster_queues or ())
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


def _queues_in_use(workloads: Iterable[Workload]) -> set[str]:
    """Names of the ClusterQueues in which Workloads hold quota, so that their deletion has to wait."""
    return {
        each.status.admission.cluster_queue
        for each in workloads
        if each.status.admission is not None and not each.is_true(FINISHED)
    }


def _flavors_in_use(queues: Iterable[ClusterQueue]) -> set[str]:
    return {flavor.name for queue in queues for group in queue.spec.resource_groups for flavor in group.flavors}

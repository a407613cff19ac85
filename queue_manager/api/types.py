"""Wire types of kueue.x-k8s.io/v1beta2: the fields that the controllers read, decoded directly from JSON.

`models` has all fields, with validation and descriptions; the CRDs are generated from there. Unknown fields are
skipped here, so objects written by a newer client can be read.
"""

# ruff: noqa: RUF012 - msgspec copies mutable defaults
from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

import job_controller.model as model
from job_controller.model import Key, Object, Record
from queue_manager.api import condition_types
from queue_manager.api.keys import JOB_UID
from queue_manager.api.pod_template_shape import mismatch

# A resource quantity as on the wire ("500m", "2Gi", 4).
Quantity = str | int


class Condition(model.Condition):
    """A condition. An empty message is encoded too: the API requires it, and a write has all conditions of a status."""

    message: str = msgspec.field(default_factory=str)  # a factory: a plain default would not be encoded
    observed_generation: int = 0


# --- Workload ----------------------------------------------------------------------------------------------


class PodSet(Record):
    """`count` pods created from one template."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Raises ValueError, so that a Workload is not decoded whose template the scheduler cannot read."""
        found = mismatch(self.template)
        if found is not None:
            raise ValueError(f"template{found.path} {found.detail}")


class PriorityClassRef(Record):
    """The class that gives a Workload its priority."""

    group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Record):
    """The requests of a Workload."""

    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    active: bool = True
    maximum_execution_time_seconds: int | None = None


class PodSetAssignment(Record):
    """The flavor of each resource of a pod set, and the usage of all its pods together."""

    name: str = ""
    flavors: dict[str, str] = {}
    resource_usage: dict[str, Quantity] = {}
    count: int | None = None


class Admission(Record):
    """The quota assigned to a Workload."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(Record):
    """Retries after PodsReady timeouts, and the end of the backoff."""

    count: int | None = None
    requeue_at: datetime | None = None


class ReclaimablePod(Record):
    """The number of pods of a pod set that no longer use quota."""

    name: str = ""
    count: int = 0


class AdmissionCheckState(Record):
    """The state of one admission check. An empty message is encoded too: the API requires it."""

    name: str = ""
    state: str = ""
    last_transition_time: datetime | None = None
    message: str | None = None
    requeue_after_seconds: int | None = None
    retry_count: int | None = None
    pod_set_updates: tuple[dict[str, Any], ...] = ()


class PodSetRequest(Record):
    """The requests of a pod set at the last admission attempt."""

    name: str = ""
    resources: dict[str, Quantity] = {}


class EvictionCount(Record):
    """The number of evictions for one reason and cause.

    All fields are required on the wire, an empty cause too; so the defaults are None, which no value equals.
    """

    reason: str | None = None
    underlying_cause: str | None = None
    count: int | None = None


class SchedulingStats(Record):
    """Counters over the life of a Workload."""

    evictions: tuple[EvictionCount, ...] = ()


class Attempt(Record):
    """A run with quota that ended in an eviction. Sluice's own."""

    start: datetime | None = None
    end: datetime | None = None
    reason: str = ""  # of the Evicted condition
    cause: str = ""  # underlying cause
    pod_cause: str = ""  # why the pods were not ready
    retry_at: datetime | None = None
    ran_seconds: int | None = None  # with quota, until its Job had stopped
    preemptor: str = ""  # UID of the Workload for which it was preempted


class RequeueHistory(Record):
    """Attempts, the oldest first, and since when the pods have not been ready over all attempts. Sluice's own.

    `pod_cause`: why the pods of a failed Job failed. `ran_seconds`: how long all ended attempts together held quota.
    `inactive_seconds`: how long the Workload was deactivated and without quota, apart from the present deactivation,
    which counts from `inactive_since`. `spared`: the UIDs of Workloads that it may not preempt once more, although
    their attempts do not record all the times that it has.
    """

    since: datetime | None = None
    attempts: tuple[Attempt, ...] = ()
    pod_cause: str = ""
    ran_seconds: int = 0
    inactive_seconds: int = 0
    inactive_since: datetime | None = None
    spared: tuple[str, ...] = ()


class WorkloadStatus(Record):
    """Conditions, assigned quota and counters of a Workload."""

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    resource_requests: tuple[PodSetRequest, ...] = ()
    accumulated_past_execution_time_seconds: int | None = None
    scheduling_stats: SchedulingStats | None = None
    requeue_history: RequeueHistory | None = None


class Workload(Object):
    """The unit of admission: all pods of one Job."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def condition(self, type: str) -> Condition | None:
        """The condition of this type, or None."""
        for condition in self.status.conditions:  # a hundred times per admission: a generator takes twice as long
            if condition.type == type:
                return condition
        return None

    def is_true(self, type: str) -> bool:
        """Whether the condition of this type is True."""
        condition = self.condition(type)
        return condition is not None and condition.status == "True"

    @property
    def last_attempt(self) -> Attempt | None:
        """The last run with quota that an eviction ended, from status.requeueHistory; None without one."""
        history = self.status.requeue_history
        return history.attempts[-1] if history is not None and history.attempts else None

    @property
    def job_uid(self) -> str:
        """UID of the Job of this Workload, "" if it has none.

        It is that of the controller owner reference. The garbage collector removes the reference when a Job is deleted
        with propagationPolicy Orphan, and a user may remove it at any time; then the label `kueue.x-k8s.io/job-uid`
        has it.
        """
        owner = self.metadata.controller
        return owner.uid if owner is not None else self.metadata.labels.get(JOB_UID, "")

    @property
    def local_queue(self) -> Key:
        """The LocalQueue that this Workload names."""
        return Key(self.metadata.namespace, self.spec.queue_name)


# --- queues and flavors ------------------------------------------------------------------------------------


class ResourceQuota(Record):
    """Quota of one resource in one flavor."""

    name: str = ""
    nominal_quota: Quantity = "0"
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Record):
    """The quotas of one flavor."""

    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Record):
    """Resources that share a flavor, and the flavors in order of preference."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FlavorFungibility(Record):
    """When the next flavor is tried instead of borrowing or preempting in this one."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = ""  # "": BorrowingOverPreemption


class BorrowWithinCohort(Record):
    """Preemption in other ClusterQueues by a Workload that borrows."""

    policy: str = "Never"
    max_priority_threshold: int | None = None  # None: every priority below that of the preemptor


class Preemption(Record):
    """Which Workloads a pending Workload may preempt (KEP-83, KEP-1337)."""

    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None  # None: Never


class FairSharing(Record):
    """The weight of a ClusterQueue, Cohort or LocalQueue among its siblings."""

    weight: Quantity | None = None  # None: 1


class AdmissionScope(Record):
    """Whether past usage orders the LocalQueues of a ClusterQueue (KEP-4136)."""

    admission_mode: str = ""


class AdmissionCheckRule(Record):
    """A required check, and the flavors to which it applies; no flavors: all."""

    name: str = ""
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Record):
    """The required checks of a ClusterQueue."""

    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class ClusterQueueSpec(Record):
    """Quota and policies of a ClusterQueue."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: dict[str, Any] | None = None  # None: selects no namespace
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: str = "None"
    preemption: Preemption = Preemption()
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    # Read only for `without_effect`.
    concurrent_admission_policy: dict[str, Any] | None = None


class ResourceUsage(Record):
    """Usage of one resource; `borrowed` is the part above nominal quota."""

    name: str = ""
    total: Quantity = "0"
    borrowed: Quantity | None = None


class FlavorUsage(Record):
    """Usage in one flavor."""

    name: str = ""
    resources: tuple[ResourceUsage, ...] = ()


class AdmissionFairSharingStatus(Record):
    """The past usage of a LocalQueue at its last sample. All fields are required on the wire."""

    consumed_resources: dict[str, Quantity] | None = None
    last_update: datetime | None = None


class FairSharingStatus(Record):
    """The weighted share of a ClusterQueue or Cohort; of a LocalQueue it is 0, and past usage is beside it."""

    weighted_share: int | None = None
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class QueueStatus(Record):
    """The part of the status that ClusterQueues and LocalQueues share. None: not written yet."""

    conditions: tuple[Condition, ...] = ()
    pending_workloads: int | None = None
    reserving_workloads: int | None = None
    admitted_workloads: int | None = None
    flavors_reservation: tuple[FlavorUsage, ...] | None = None
    flavors_usage: tuple[FlavorUsage, ...] | None = None
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(Object):
    """A pool of quota."""

    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: QueueStatus = QueueStatus()


def stops(policy: str) -> bool:
    """Whether a queue with this spec.stopPolicy admits nothing. An absent policy is the same as None."""
    return policy not in ("", "None")


class LocalQueueSpec(Record):
    """The ClusterQueue of a LocalQueue, and its stop policy."""

    cluster_queue: str = ""
    stop_policy: str = "None"
    fair_sharing: FairSharing | None = None


class LocalQueue(Object):
    """A queue of one namespace, which leads to a ClusterQueue."""

    spec: LocalQueueSpec = LocalQueueSpec()
    status: QueueStatus = QueueStatus()


class Taint(Record):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ResourceFlavorSpec(Record):
    """Node labels, taints and tolerations of a flavor."""

    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    # Injected into pods unchanged.
    tolerations: tuple[dict[str, Any], ...] = ()
    # Read only for `without_effect`.
    topology_name: str = ""
    resource_weights: dict[str, Quantity] = {}


class ResourceFlavor(Object):
    """A kind of machine, for which quota is counted separately."""

    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class CohortSpec(Record):
    """The parent of a Cohort, and the quota that it adds to its subtree."""

    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Record):
    """The share of a Cohort."""

    fair_sharing: FairSharingStatus | None = None


class Cohort(Object):
    """A node of the tree in which ClusterQueues share quota. The object is optional: a name is enough."""

    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


class AdmissionCheckStatus(Record):
    """Conditions of an AdmissionCheck."""

    conditions: tuple[Condition, ...] = ()


class AdmissionCheck(Object):
    """A check whose state another controller sets in status.admissionChecks of Workloads, before they may start."""

    status: AdmissionCheckStatus = AdmissionCheckStatus()

    @property
    def active(self) -> bool:
        """Whether the controller of the check is ready."""
        return any(c.type == condition_types.ACTIVE and c.is_true for c in self.status.conditions)


class LimitRangeItem(Record):
    """Defaults and bounds for one type, Container or Pod."""

    type: str = ""
    max: dict[str, Quantity] = {}
    min: dict[str, Quantity] = {}
    default: dict[str, Quantity] = {}
    default_request: dict[str, Quantity] = {}


class LimitRangeSpec(Record):
    """The items of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] | None = ()  # the API writes null for an empty list


class LimitRange(Object):
    """core/v1: defaults and bounds of the containers and pods of a namespace."""

    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Record):
    """The overhead of each pod of a RuntimeClass."""

    pod_fixed: dict[str, Quantity] = {}


class RuntimeClass(Object):
    """node.k8s.io/v1: the overhead of a pod beyond its containers."""

    overhead: Overhead | None = None


class WorkloadPriorityClass(Object):
    """A named priority."""

    value: int = 0


class PriorityClass(Object):
    """scheduling.k8s.io/v1: the priority of pods, which a Workload has if it has no class of its own."""

    value: int = 0
    global_default: bool = False


class Namespace(Object):
    """core/v1: only its labels are read."""

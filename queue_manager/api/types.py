"""Wire types of kueue.x-k8s.io/v1beta2: the fields that decisions need, decoded straight from JSON.

The full field set, with validation and documentation, is in the pydantic models the CRDs are generated
from. Unknown fields are skipped here, so an object written by a newer client does no harm.
"""

# ruff: noqa: RUF012 - msgspec copies mutable defaults
from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

import job_controller.model as model
from job_controller.model import Key, Object, Record
from queue_manager.api.keys import JOB_UID

# A resource quantity as it stands on the wire ("500m", "2Gi", 4).
Quantity = str | int


class Condition(model.Condition):
    """An empty message is written too: the API requires it, and others' conditions are written with ours."""

    message: str = msgspec.field(default_factory=str)  # not a default, which would be left out
    observed_generation: int = 0


# --- Workload ----------------------------------------------------------------------------------------------


class PodSet(Record):
    """`count` pods made from one template."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: dict[str, Any] = {}


class PriorityClassRef(Record):
    group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Record):
    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    active: bool = True
    maximum_execution_time_seconds: int | None = None


class PodSetAssignment(Record):
    """What a pod set got: a flavor for each resource, and the usage of all its pods together."""

    name: str = ""
    flavors: dict[str, str] = {}
    resource_usage: dict[str, Quantity] = {}
    count: int | None = None


class Admission(Record):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(Record):
    count: int | None = None
    requeue_at: datetime | None = None


class ReclaimablePod(Record):
    name: str = ""
    count: int = 0


class AdmissionCheckState(Record):
    """An empty message is written too: the API requires it."""

    name: str = ""
    state: str = ""
    last_transition_time: datetime | None = None
    message: str | None = None
    requeue_after_seconds: int | None = None
    retry_count: int | None = None
    pod_set_updates: tuple[dict[str, Any], ...] = ()


class PodSetRequest(Record):
    name: str = ""
    resources: dict[str, Quantity] = {}


class EvictionCount(Record):
    """All fields are required on the wire, an empty cause too: so their defaults are none of their values."""

    reason: str | None = None
    underlying_cause: str | None = None
    count: int | None = None


class SchedulingStats(Record):
    evictions: tuple[EvictionCount, ...] = ()


class Attempt(Record):
    """One time with quota that ended in an eviction. Sluice's own."""

    start: datetime | None = None
    end: datetime | None = None
    reason: str = ""  # that of the Evicted condition
    cause: str = ""  # what is behind it
    retry_at: datetime | None = None


class RequeueHistory(Record):
    """Attempts, the oldest first, and since when the pods have not been ready over all tries. Sluice's own."""

    since: datetime | None = None
    attempts: tuple[Attempt, ...] = ()


class WorkloadStatus(Record):
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
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def condition(self, type: str) -> Condition | None:
        return next((c for c in self.status.conditions if c.type == type), None)

    def is_true(self, type: str) -> bool:
        condition = self.condition(type)
        return condition is not None and condition.status == "True"

    @property
    def job_uid(self) -> str:
        """UID of the Job that this Workload stands for; empty if it stands for none.

        It is that of the controller. The garbage collector removes the owner reference when a Job is deleted with
        cascade=orphan, and a user may remove it at any time: then the label tells.
        """
        owner = self.metadata.controller
        return owner.uid if owner is not None else self.metadata.labels.get(JOB_UID, "")

    @property
    def local_queue(self) -> Key:
        return Key(self.metadata.namespace, self.spec.queue_name)


# --- queues and flavors ------------------------------------------------------------------------------------


class ResourceQuota(Record):
    name: str = ""
    nominal_quota: Quantity = "0"
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Record):
    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Record):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FlavorFungibility(Record):
    """The other fields than when_can_borrow are read only to say that they have no effect (`without_effect`)."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = ""


class AdmissionCheckRule(Record):
    name: str = ""
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Record):
    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class ClusterQueueSpec(Record):
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: dict[str, Any] | None = None  # None: no namespace at all
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: str = "None"
    # Read only to say that they have no effect.
    preemption: dict[str, Any] | None = None
    fair_sharing: dict[str, Any] | None = None
    admission_scope: dict[str, Any] | None = None
    concurrent_admission_policy: dict[str, Any] | None = None


class ResourceUsage(Record):
    name: str = ""
    total: Quantity = "0"
    borrowed: Quantity | None = None


class FlavorUsage(Record):
    name: str = ""
    resources: tuple[ResourceUsage, ...] = ()


class QueueStatus(Record):
    """The part of the status that ClusterQueues and LocalQueues share. None: never written."""

    conditions: tuple[Condition, ...] = ()
    pending_workloads: int | None = None
    reserving_workloads: int | None = None
    admitted_workloads: int | None = None
    flavors_reservation: tuple[FlavorUsage, ...] | None = None
    flavors_usage: tuple[FlavorUsage, ...] | None = None


class ClusterQueue(Object):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: QueueStatus = QueueStatus()


def stops(policy: str) -> bool:
    """Whether a queue with this spec.stopPolicy admits nothing. One without a policy is as open as one with None."""
    return policy not in ("", "None")


class LocalQueueSpec(Record):
    cluster_queue: str = ""
    stop_policy: str = "None"
    fair_sharing: dict[str, Any] | None = None  # read only to say that it has no effect


class LocalQueue(Object):
    spec: LocalQueueSpec = LocalQueueSpec()
    status: QueueStatus = QueueStatus()


class Taint(Record):
    key: str = ""
    value: str = ""
    effect: str = ""


class ResourceFlavorSpec(Record):
    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    # Injected into pods as they stand.
    tolerations: tuple[dict[str, Any], ...] = ()
    # Read only to say that they have no effect.
    topology_name: str = ""
    resource_weights: dict[str, Quantity] = {}


class ResourceFlavor(Object):
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class Cohort(Object):
    """Read only to say which of its fields have no effect: ClusterQueues share quota by the name of their cohort."""

    spec: dict[str, Any] = {}


class AdmissionCheckStatus(Record):
    conditions: tuple[Condition, ...] = ()


class AdmissionCheck(Object):
    """A question that somebody else answers in status.admissionChecks of Workloads, before they may start."""

    status: AdmissionCheckStatus = AdmissionCheckStatus()

    @property
    def active(self) -> bool:
        """Somebody is there to answer."""
        return any(c.type == "Active" and c.is_true for c in self.status.conditions)


class LimitRangeItem(Record):
    type: str = ""
    max: dict[str, Quantity] = {}
    min: dict[str, Quantity] = {}
    default: dict[str, Quantity] = {}
    default_request: dict[str, Quantity] = {}


class LimitRangeSpec(Record):
    limits: tuple[LimitRangeItem, ...] | None = ()  # null where there are none: the API writes it all the same


class LimitRange(Object):
    """core/v1: defaults and bounds for the containers and pods of a namespace."""

    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Record):
    pod_fixed: dict[str, Quantity] = {}


class RuntimeClass(Object):
    """node.k8s.io/v1: what running a pod costs beyond its containers."""

    overhead: Overhead | None = None


class WorkloadPriorityClass(Object):
    value: int = 0


class PriorityClass(Object):
    """scheduling.k8s.io/v1: the priority of pods, a fallback for that of the Workload."""

    value: int = 0
    global_default: bool = False


class Namespace(Object):
    """core/v1: only its labels matter here."""

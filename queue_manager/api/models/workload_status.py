"""The status of a Workload."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from queue_manager.api.models.base import (
    ATOMIC,
    ApiModel,
    CelRule,
    CheckName,
    Count,
    Int32,
    Name,
    NotNegative,
    PodSetName,
    Quantities,
    Time,
    cel,
    list_map,
)
from queue_manager.api.models.common import Conditions, Tolerations
from queue_manager.api.models.topology import TopologyAssignment

CLUSTER_RULE = CelRule(
    "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
    "clusterName is immutable once set",
)
NOMINATED_RULE = CelRule(
    "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
    "clusterName and nominatedClusterNames are mutually exclusive",
)

Reason = Annotated[str, Field(max_length=316)]
ClusterName = Annotated[str, Field(max_length=256)]


class PodSetAssignmentFields(ApiModel):
    """What an assignment to a pod set has in both versions."""

    name: PodSetName = "main"
    """The pod set."""

    flavors: dict[str, Name] | None = None
    """The flavor of each resource."""

    resource_usage: dict[str, NotNegative] | None = None
    """
    Quota of all pods of the set together, with LimitRange defaults and runtime overhead as they were at
    admission. Does not change when pods are reclaimed. Informational: the queue computes usage from the
    requests of the pod set.
    """

    count: Count | None = None
    """How many pods were admitted."""

    delayed_topology_request: Literal["Pending", "Ready"] | None = None
    """Whether the topology is assigned later, and whether that has happened."""


class PodSetAssignment(PodSetAssignmentFields):
    """The quota assigned to one pod set."""

    topology_assignment: TopologyAssignment | None = None
    """The domains that the pods were assigned to."""


class Admission(ApiModel):
    """The quota assigned to the workload. Can be removed, but not changed."""

    cluster_queue: Name | None = None
    """The ClusterQueue that assigned it."""

    pod_set_assignments: Annotated[list[PodSetAssignment], Field(max_length=18), list_map("name")] | None = None
    """The quota of each pod set."""


class RequeueState(ApiModel):
    """Retries after pods did not become ready in time. Cleared when the workload is deactivated."""

    count: Count | None = None
    """How many times the workload was requeued."""

    requeue_at: Time | None = None
    """When the backoff ends; absent if the workload is not in backoff."""


class ReclaimablePod(ApiModel):
    """Pods that no longer use quota."""

    name: PodSetName
    """The pod set."""

    count: Count
    """How many of its pods no longer use quota."""


class PodSetUpdate(ApiModel):
    """What an admission check adds to the pods of a set. Keys that exist must not get another value."""

    name: PodSetName
    """The pod set."""

    labels: dict[str, str] | None = None
    """Labels to add."""

    annotations: dict[str, str] | None = None
    """Annotations to add."""

    node_selector: dict[str, str] | None = None
    """Node labels to demand."""

    tolerations: Tolerations | None = None
    """Tolerations to add."""


class AdmissionCheckState(ApiModel):
    """The state of one admission check."""

    name: CheckName
    """The AdmissionCheck."""

    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    """Ready lets the workload start, Retry evicts it for now, Rejected deactivates it."""

    last_transition_time: Time
    """When the state last changed."""

    message: Annotated[str, Field(max_length=32768)]
    """Details for people. May be empty."""

    requeue_after_seconds: Count | None = None
    """With Retry: seconds to back off from lastTransitionTime. Unset: none."""

    retry_count: Count | None = None
    """How many times the state became Retry."""

    pod_set_updates: Annotated[list[PodSetUpdate], Field(max_length=18), ATOMIC] | None = None
    """What the check adds to the pods. Immutable while Ready."""


class PodSetRequest(ApiModel):
    """The requests of a pod set, as the scheduler counted them."""

    name: PodSetName
    """The pod set."""

    resources: Quantities | None = None
    """
    All pods of the set together, with LimitRange defaults, runtime overhead and the resource transformations
    of the configuration applied.
    """


class EvictionStats(ApiModel):
    """Evictions for one reason."""

    reason: Reason
    """The reason."""

    underlying_cause: Reason
    """The underlying cause. May be empty."""

    count: Count
    """The number of evictions."""


class SchedulingStats(ApiModel):
    """Counters over the life of a workload; never reset."""

    evictions: Annotated[list[EvictionStats], Field(max_length=256), list_map("reason", "underlyingCause")] | None = (
        None
    )
    """Evictions by reason and cause."""


class Attempt(ApiModel):
    """A run with quota that ended in an eviction."""

    start: Time | None = None
    """When the workload was admitted."""

    end: Time
    """When it was evicted."""

    reason: Reason
    """The reason of the eviction."""

    cause: Reason | None = None
    """The underlying cause."""

    pod_cause: Annotated[str, Field(max_length=256)] | None = None
    """Why its pods were not ready: the worst cause, for example "exit 3: cannot open data.csv"."""

    retry_at: Time | None = None
    """When the backoff ended. Unset: no backoff, or the workload was deactivated or its queue stopped."""

    ran_seconds: Int32 | None = None
    """Seconds with quota, until its Job had stopped. Unset: it is still being stopped."""

    preemptor: Annotated[str, Field(max_length=64)] | None = None
    """The UID of the workload for which it was preempted. Unset: it was evicted for another reason."""


class RequeueHistory(ApiModel):
    """The last attempts. Only Sluice has this field."""

    since: Time | None = None
    """Since when the pods have not been ready, over all attempts. Unset: they were ready, or it was deactivated."""

    attempts: Annotated[list[Attempt], Field(max_length=10), ATOMIC] | None = None
    """The last ten, the oldest first. Kept over deactivation and reactivation."""

    pod_cause: Annotated[str, Field(max_length=256)] | None = None
    """Why the pods of the Job failed, which has failed: the worst cause, kept after their deletion."""

    ran_seconds: Int32 | None = None
    """Seconds with quota of all attempts that ended, until their Job had stopped."""

    inactive_seconds: Int32 | None = None
    """Seconds in which the Workload was deactivated and held no quota, until the last reactivation."""

    inactive_since: Time | None = None
    """Since when it is deactivated and holds no quota. Unset: it is active, or its Job is still being stopped."""

    spared: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=64), ATOMIC] | None = None
    """The UIDs of workloads that it may not preempt once more, although their attempts do not record all the times that
    it has: some preemptions end before they are written."""


class UnhealthyNode(ApiModel):
    """A node that failed while a pod of the workload ran on it."""

    name: Annotated[str, Field(max_length=63)]
    """The node."""


class PreemptionGateState(ApiModel):
    """Whether a gate lets the workload preempt others."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The gate."""

    state: Literal["Closed", "Open"]
    """Open lets the workload preempt."""

    last_transition_time: Time
    """When the state last changed."""


class WorkloadStatusFields(ApiModel):
    """What the status of a Workload has in both versions."""

    model_config = ConfigDict(json_schema_extra=cel(CLUSTER_RULE, NOMINATED_RULE))

    conditions: Conditions | None = None
    """QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued, DeactivationTarget and Finished."""

    requeue_state: RequeueState | None = None
    """Retries after pods did not become ready in time."""

    reclaimable_pods: Annotated[list[ReclaimablePod], Field(max_length=18), list_map("name")] | None = None
    """Pods that no longer use quota. Can only grow while quota is reserved."""

    admission_checks: Annotated[list[AdmissionCheckState], Field(max_length=8), list_map("name")] | None = None
    """The states of the admission checks."""

    resource_requests: Annotated[list[PodSetRequest], Field(max_length=18), list_map("name")] | None = None
    """The requests at the last admission attempt; empty while quota is reserved."""

    scheduling_stats: SchedulingStats | None = None
    """Counters over the life of the workload."""

    requeue_history: RequeueHistory | None = None
    """The last attempts, one by one. Only Sluice has this field."""

    nominated_cluster_names: Annotated[list[ClusterName], Field(max_length=20), ATOMIC] | None = None
    """Clusters that may take the workload; cleared when one has."""

    cluster_name: ClusterName | None = None
    """The cluster that took the workload. Immutable once set, until the workload is evicted."""

    unhealthy_nodes: Annotated[list[UnhealthyNode], Field(max_length=8), list_map("name")] | None = None
    """Failed nodes whose pods wait for another node."""


class WorkloadStatus(WorkloadStatusFields):
    """Assigned quota, conditions and counters."""

    admission: Admission | None = None
    """The quota that the workload holds. Can be removed, but not changed."""

    accumulated_past_execution_time_seconds: Int32 | None = None
    """Seconds in admitted state in all past attempts."""

    preemption_gates: Annotated[list[PreemptionGateState], Field(max_length=8), list_map("name")] | None = None
    """The state of the preemption gates."""

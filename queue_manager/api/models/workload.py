"""Workload: the requests of a Job, and the quota assigned to it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from queue_manager.api.models.base import (
    ApiModel,
    CelRule,
    Count,
    CustomKind,
    Int32,
    Name,
    PodSetName,
    PodTemplate,
    Positive,
    PrinterColumn,
    cel,
    list_map,
)
from queue_manager.api.models.topology import PodSetTopologyRequest
from queue_manager.api.models.workload_status import WorkloadStatus


def _holds(who: str, condition: str) -> str:
    return (
        f"has({who}.status) && has({who}.status.conditions)"
        f" && {who}.status.conditions.exists(c, c.type == '{condition}' && c.status == 'True')"
    )


RESERVED, WAS_RESERVED = _holds("self", "QuotaReserved"), _holds("oldSelf", "QuotaReserved")
ADMITTED, WAS_ADMITTED = _holds("self", "Admitted"), _holds("oldSelf", "Admitted")
REF = "spec.priorityClassRef"
EITHER_LACKS_REF = f"!has(oldSelf.{REF}) || !has(self.{REF})"

COUNT_RULE = CelRule(
    "!has(self.minCount) || self.minCount <= self.count",
    "minCount should be positive and less or equal to count",
)
PRIORITY_RULE = CelRule(
    "!has(self.priorityClassRef) || has(self.priority)",
    "priority should not be nil when priorityClassRef is set",
)
POD_CLASS_RULE = CelRule(
    "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
    "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
)
WORKLOAD_CLASS_RULE = CelRule(
    "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
    "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
)
# The API server evaluates these at each write, and each field that a rule reads costs it a copy of the schema around
# that field. So a rule first compares what hardly ever differs, and reads the conditions only if that does.
ASSIGNMENTS_RULE = CelRule(
    "!has(self.status) || !has(self.status.admission) || (has(self.spec.podSets) ? size(self.spec.podSets) : 0) =="
    " (has(self.status.admission.podSetAssignments) ? size(self.status.admission.podSetAssignments) : 0)"
    f" || !({RESERVED})",
    "podSetAssignments must have the same number of podSets as the spec",
)
REF_RULE = CelRule(
    f"has(oldSelf.{REF}) == has(self.{REF}) || !({WAS_RESERVED})",
    "priorityClassRef is immutable while workload quota reserved",
)
REF_GROUP_RULE = CelRule(
    f"{EITHER_LACKS_REF} || oldSelf.{REF}.group == self.{REF}.group || !({WAS_RESERVED})",
    "priorityClassRef.group is immutable while workload quota reserved",
)
REF_KIND_RULE = CelRule(
    f"{EITHER_LACKS_REF} || oldSelf.{REF}.kind == self.{REF}.kind || !({WAS_RESERVED})",
    "priorityClassRef.kind is immutable while workload quota reserved",
)
REF_NAME_RULE = CelRule(
    f"{EITHER_LACKS_REF} || oldSelf.{REF}.name == self.{REF}.name"
    f" || self.{REF}.group != 'scheduling.k8s.io' || self.{REF}.kind != 'PriorityClass' || !({WAS_RESERVED})",
    "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
)
# Kueue allows removing the name, and then setting another one.
QUEUE_RULE = CelRule(
    "(has(oldSelf.spec.queueName) ? oldSelf.spec.queueName : '') =="
    f" (has(self.spec.queueName) ? self.spec.queueName : '') || !({WAS_RESERVED} && {RESERVED})",
    "queueName is immutable while workload quota reserved",
)
EXECUTION_TIME_RULE = CelRule(
    "(has(oldSelf.spec.maximumExecutionTimeSeconds) ? oldSelf.spec.maximumExecutionTimeSeconds : 0) =="
    " (has(self.spec.maximumExecutionTimeSeconds) ? self.spec.maximumExecutionTimeSeconds : 0)"
    f" || !({WAS_ADMITTED} && {ADMITTED})",
    "maximumExecutionTimeSeconds is immutable while workload quota reserved",
)
SHARED_RULES = (ASSIGNMENTS_RULE, QUEUE_RULE, EXECUTION_TIME_RULE)  # of both versions


class PriorityClassRef(ApiModel):
    """The class that gives a workload its priority."""

    model_config = ConfigDict(json_schema_extra=cel(POD_CLASS_RULE, WORKLOAD_CLASS_RULE))

    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"]
    """kueue.x-k8s.io for a WorkloadPriorityClass, scheduling.k8s.io for a PriorityClass of pods."""

    kind: Literal["WorkloadPriorityClass", "PriorityClass"]
    """The kind that belongs to the group."""

    name: Annotated[Name, Field(min_length=1)]
    """The name of the class."""


class PodSetFields(ApiModel):
    """What a pod set has in both versions."""

    model_config = ConfigDict(json_schema_extra=cel(COUNT_RULE))

    name: PodSetName = "main"
    """The name of the set."""

    template: PodTemplate
    """The template of the pods. Without a request, a limit counts as the request."""

    count: Count = 1
    """How many pods there are."""

    min_count: Positive | None = None
    """The least number of pods, for partial admission. Only one pod set may have it."""


class PodSet(PodSetFields):
    """Pods of one template."""

    topology_request: PodSetTopologyRequest | None = None
    """Where the pods should be, relative to each other."""


class PreemptionGate(ApiModel):
    """A gate that must open before the workload may preempt others."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The name of the gate."""


class WorkloadFields(ApiModel):
    """What the spec of a Workload has in both versions."""

    queue_name: Name | None = None
    """The LocalQueue. Immutable while quota is reserved."""

    priority: Int32 | None = None
    """Higher is admitted first. Required if a priority class is named; may be changed at any time."""

    active: bool | None = True
    """false evicts the workload and removes it from the queue; true enqueues it again."""

    maximum_execution_time_seconds: Positive | None = None
    """
    Seconds in admitted state, over all attempts, after which the workload is deactivated. Unset: no limit.
    Immutable while admitted.
    """


class WorkloadSpec(WorkloadFields):
    """The requests of the workload."""

    model_config = ConfigDict(json_schema_extra=cel(PRIORITY_RULE))

    pod_sets: Annotated[list[PodSet], Field(min_length=1, max_length=18), list_map("name")] | None = None
    """The pods, one set per template. Immutable while quota is reserved, except that a count may be lowered."""

    priority_class_ref: PriorityClassRef | None = None
    """The class from which the priority was taken."""

    preemption_gates: Annotated[list[PreemptionGate], Field(max_length=8), list_map("name")] | None = None
    """Gates, closed at first, that keep the workload from preempting others."""


class Workload(CustomKind):
    """A unit of admission: all pods of one Job, or none."""

    model_config = ConfigDict(
        json_schema_extra=cel(*SHARED_RULES, REF_RULE, REF_GROUP_RULE, REF_KIND_RULE, REF_NAME_RULE)
    )

    plural: ClassVar[str] = "workloads"
    namespaced: ClassVar[bool] = True
    short_names: ClassVar[tuple[str, ...]] = ("kwl", "kueueworkload", "kueueworkloads")
    selectable: ClassVar[tuple[str, ...]] = (".status.admission.clusterQueue",)
    columns: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn("Queue", ".spec.queueName", "string", "Name of the queue this workload was submitted to"),
        PrinterColumn(
            "Reserved in",
            ".status.admission.clusterQueue",
            "string",
            "Name of the ClusterQueue where the workload is reserving quota",
        ),
        PrinterColumn("Admitted", ".status.conditions[?(@.type=='Admitted')].status", "string", "Admission status"),
        PrinterColumn("Finished", ".status.conditions[?(@.type=='Finished')].status", "string", "Workload finished"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date", "Time this workload was created"),
    )

    spec: WorkloadSpec
    """The requests of the workload."""

    status: WorkloadStatus | None = None
    """Assigned quota, conditions and counters."""

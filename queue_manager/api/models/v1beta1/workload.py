"""Workload in v1beta1: the spec names its priority class and what kind of class it is."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from queue_manager.api.models import workload as v1beta2
from queue_manager.api.models.base import DEFAULT_EMPTY, CelRule, Name, cel, list_map
from queue_manager.api.models.topology import TopologyRequestFields
from queue_manager.api.models.v1beta1.workload_status import WorkloadStatus

CLASS_NAME, CLASS_SOURCE = "spec.priorityClassName", "spec.priorityClassSource"
BOTH_NAME = f"has(oldSelf.{CLASS_NAME}) && has(self.{CLASS_NAME})"

PRIORITY_RULE = CelRule(
    "!has(self.priorityClassName) || has(self.priority)",
    "priority should not be nil when priorityClassName is set",
)
SOURCE_RULE = CelRule(
    f"!({v1beta2.WAS_RESERVED}) || (has(oldSelf.{CLASS_SOURCE}) ? oldSelf.{CLASS_SOURCE} : '') =="
    f" (has(self.{CLASS_SOURCE}) ? self.{CLASS_SOURCE} : '')",
    "priorityClassSource is immutable while workload quota reserved",
)
NAMED_RULE = CelRule(
    f"!({v1beta2.WAS_RESERVED}) || has(oldSelf.{CLASS_NAME}) == has(self.{CLASS_NAME})",
    "priorityClassName is immutable while workload quota reserved",
)
NAME_RULE = CelRule(
    f"!({v1beta2.WAS_RESERVED} && {BOTH_NAME} && has(self.{CLASS_SOURCE})"
    f" && self.{CLASS_SOURCE} == 'scheduling.k8s.io/priorityclass') || oldSelf.{CLASS_NAME} == self.{CLASS_NAME}",
    "priorityClassName is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
)


class PodSetTopologyRequest(TopologyRequestFields):
    """Where the pods of a set should be, relative to each other."""


class PodSet(v1beta2.PodSetFields):
    """Pods of one template."""

    topology_request: PodSetTopologyRequest | None = None
    """Where the pods should be, relative to each other."""


class WorkloadSpec(v1beta2.WorkloadFields):
    """The requests of the workload."""

    model_config = ConfigDict(json_schema_extra=cel(PRIORITY_RULE))

    pod_sets: Annotated[list[PodSet], Field(min_length=1, max_length=18), list_map("name")] | None = None
    """The pods, one set per template. Immutable while quota is reserved, except that a count may be lowered."""

    priority_class_name: Name | None = None
    """The class from which the priority was taken."""

    priority_class_source: Literal["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""] = ""
    """Whether priorityClassName is a WorkloadPriorityClass or a PriorityClass of pods."""


class Workload(v1beta2.Workload):
    """A unit of admission: all pods of one Job, or none."""

    model_config = ConfigDict(json_schema_extra=cel(*v1beta2.SHARED_RULES, SOURCE_RULE, NAMED_RULE, NAME_RULE))

    selectable: ClassVar[tuple[str, ...]] = ()

    spec: Annotated[WorkloadSpec, DEFAULT_EMPTY] = Field(default_factory=WorkloadSpec)  # type: ignore[assignment]
    """The requests of the workload."""

    status: WorkloadStatus | None = None  # type: ignore[assignment]
    """Assigned quota, conditions and counters."""

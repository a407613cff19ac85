"""The status of a Workload in v1beta1: topology domains are not compressed, a field name is misspelled."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from queue_manager.api.models import workload_status as v1beta2
from queue_manager.api.models.base import ATOMIC, ApiModel, Int32, Name, Positive, list_map
from queue_manager.api.models.topology import IndexLabel, Level


class TopologyDomain(ApiModel):
    """A domain, and the number of pods in it."""

    values: Annotated[list[Level], Field(min_length=1, max_length=16), ATOMIC]
    """Node label values, one per level."""

    count: Positive
    """How many pods are in the domain."""


class TopologyAssignment(ApiModel):
    """The domains that the pods of a set were assigned to."""

    levels: Annotated[list[IndexLabel], Field(min_length=1, max_length=16), ATOMIC]
    """Node label keys, the highest level first."""

    domains: Annotated[list[TopologyDomain], Field(max_length=100000), ATOMIC] | None = None
    """The domains. Absent if there are more than 100000."""


class PodSetAssignment(v1beta2.PodSetAssignmentFields):
    """The quota assigned to one pod set."""

    topology_assignment: TopologyAssignment | None = None
    """The domains that the pods were assigned to."""


class Admission(ApiModel):
    """The quota assigned to the workload. Can be removed, but not changed."""

    cluster_queue: Name | None = None
    """The ClusterQueue that assigned it."""

    pod_set_assignments: Annotated[list[PodSetAssignment], Field(max_length=18), list_map("name")] | None = None
    """The quota of each pod set."""


class WorkloadStatus(v1beta2.WorkloadStatusFields):
    """Assigned quota, conditions and counters."""

    admission: Admission | None = None
    """The quota that the workload holds. Can be removed, but not changed."""

    accumulated_past_exexcution_time_seconds: Int32 | None = None
    """Seconds in admitted state in all past attempts. This spelling is the name of the field."""

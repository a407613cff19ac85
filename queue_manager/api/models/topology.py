"""Topology in Workloads: what a pod set requests, and what it was assigned.

Sluice does not place pods by topology. The fields exist so that Workloads of other writers keep them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from queue_manager.api.models.base import ATOMIC, ApiModel, CelRule, Int32, Positive, cel

Level = Annotated[str, Field(max_length=63)]
IndexLabel = Annotated[str, Field(max_length=317)]


class SliceTopologyConstraint(ApiModel):
    """One layer of a topology constraint on slices of a pod set."""

    topology: Annotated[str, Field(min_length=1, max_length=63)]
    """The topology level of this layer."""

    size: Positive
    """How many pods make a group on this layer."""


class TopologyRequestFields(ApiModel):
    """What a topology request has in both versions."""

    required: Level | None = None
    """The level within which all pods must be."""

    preferred: Level | None = None
    """The level within which all pods should be."""

    unconstrained: bool | None = None
    """Any node with capacity is allowed."""

    pod_index_label: IndexLabel | None = None
    """The label that numbers the pods, e.g. batch.kubernetes.io/job-completion-index."""

    sub_group_index_label: IndexLabel | None = None
    """The label that numbers the groups within the set."""

    sub_group_count: Int32 | None = None
    """How many groups the set has."""

    pod_set_group_name: Annotated[str, Field(max_length=256)] | None = None
    """Pod sets of one group get the same flavor."""

    pod_set_slice_required_topology: Level | None = None
    """The level within which each slice must be."""

    pod_set_slice_size: Int32 | None = None
    """How many pods make a slice."""


class PodSetTopologyRequest(TopologyRequestFields):
    """Where the pods of a set should be, relative to each other."""

    podset_slice_required_topology_constraints: (
        Annotated[list[SliceTopologyConstraint], Field(max_length=3), ATOMIC] | None
    ) = None
    """Constraints on several layers, the coarsest first."""


class LevelValues(ApiModel):
    """The node label values of one level, compressed."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "has(self.roots) != has(self.universalValue)",
                "Exactly one of roots, universalValue must be set",
            ),
            CelRule(
                "!(has(self.universalValue) && (has(self.prefix) || has(self.suffix)))",
                "universalValue cannot be set together with prefix or suffix",
            ),
        )
    )

    prefix: Level | None = None
    """Common prefix of all values."""

    suffix: Level | None = None
    """Common suffix of all values."""

    roots: Annotated[list[Level], Field(min_length=1, max_length=100000), ATOMIC] | None = None
    """The values without prefix and suffix, one per domain."""

    universal_value: Level | None = None
    """The value of all domains, when it is the same."""


class TopologyAssignmentSlice(ApiModel):
    """Some domains, and the number of pods in each."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "!has(self.podCounts) || size(self.podCounts) == self.domainCount",
                "podCounts must have length equal to domainCount",
            ),
            CelRule(
                "has(self.podCounts) != has(self.universalPodCount)",
                "Exactly one of podCounts, universalPodCount must be set",
            ),
            CelRule(
                "self.valuesPerLevel.all(x, !has(x.roots) || size(x.roots) == self.domainCount)",
                "roots, if set, must have length equal to domainCount of this TopologyAssignmentSlice",
            ),
        )
    )

    domain_count: Positive
    """How many domains this slice has."""

    values_per_level: Annotated[list[LevelValues], Field(min_length=1, max_length=16), ATOMIC]
    """The node label values of the domains, level by level."""

    pod_counts: Annotated[list[Int32], Field(min_length=1, max_length=100000), ATOMIC] | None = None
    """Pods per domain."""

    universal_pod_count: Int32 | None = None
    """Pods in every domain, when it is the same number."""


class TopologyAssignment(ApiModel):
    """The domains that the pods of a set were assigned to."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "self.slices.all(x, size(x.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            )
        )
    )

    levels: Annotated[list[IndexLabel], Field(min_length=1, max_length=16), ATOMIC]
    """Node label keys, the highest level first."""

    slices: Annotated[list[TopologyAssignmentSlice], Field(max_length=1000), ATOMIC]
    """The assignment is the union of all slices."""

"""ResourceFlavor: a kind of machine, for which quota is counted separately."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from queue_manager.api.models.base import ApiModel, CelRule, CustomKind, Name, Quantity, cel
from queue_manager.api.models.common import Labels, Taints, Tolerations


class ResourceFlavorSpec(ApiModel):
    """What distinguishes the nodes of this flavor."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "!has(self.topologyName) || has(self.nodeLabels) && size(self.nodeLabels) >= 1",
                "at least one nodeLabel is required when topology is set",
            ),
            CelRule(
                "!has(oldSelf.topologyName) || has(self.topologyName) && self.topologyName == oldSelf.topologyName",
                "topologyName is immutable when topologyName is set",
            ),
        )
    )

    node_labels: Labels | None = None
    """
    Labels of the nodes of this flavor, at most 8. A workload whose node selector or required node affinity
    contradicts them is not assigned this flavor; they are added to the node selector of pods that are.
    """

    node_taints: Taints | None = None
    """
    Taints of the nodes of this flavor, at most 8. A workload that does not tolerate them is not assigned
    this flavor, unless the flavor's own tolerations do. PreferNoSchedule is ignored.
    """

    tolerations: Tolerations | None = None
    """Tolerations added to the pods that are assigned this flavor, at most 8."""

    topology_name: Name | None = None
    """The Topology of the nodes of this flavor. Needs at least one node label; immutable once set."""

    resource_weights: Annotated[dict[str, Quantity], Field(max_length=16)] | None = None
    """Factors, above 0, by which borrowing in this flavor counts in fair sharing. Absent means 1."""


class ResourceFlavor(CustomKind):
    """A kind of machine or a way to pay for it, described by labels and taints of its nodes."""

    plural: ClassVar[str] = "resourceflavors"
    short_names: ClassVar[tuple[str, ...]] = ("flavor", "flavors", "rf")

    spec: ResourceFlavorSpec | None = None
    """What distinguishes the nodes of this flavor."""

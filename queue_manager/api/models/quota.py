"""Quota as ClusterQueues and Cohorts state it: resource groups, flavors, limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from queue_manager.api.models.base import ATOMIC, ApiModel, CelRule, Name, Quantity, cel, list_map


class ResourceQuota(ApiModel):
    """How much of one resource there is in one flavor."""

    name: str
    """The resource: cpu, memory, vendor.com/gpu."""

    nominal_quota: Quantity
    """What may be used of the resource at any time, 0 or more. An absent value is taken as 0, with a warning."""

    borrowing_limit: Quantity | None = None
    """
    How much more than the nominal quota may be borrowed from the cohort, 0 or more. Unset means no limit.
    Only allowed within a cohort.
    """

    lending_limit: Quantity | None = None
    """
    How much of the unused nominal quota the rest of the cohort may borrow, 0 or more. Unset means all of it.
    Only allowed within a cohort.
    """


class FlavorQuotas(ApiModel):
    """The quotas of one flavor."""

    name: Name
    """The ResourceFlavor. While it does not exist, the ClusterQueue is not active."""

    resources: Annotated[list[ResourceQuota], Field(min_length=1, max_length=64), list_map("name")]
    """One quota per covered resource, in the order of coveredResources."""


class ResourceGroup(ApiModel):
    """Resources that always come from the same flavor, and the flavors that provide them in order of preference."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
                "flavors must have the same number of resources as the coveredResources",
            )
        )
    )

    covered_resources: Annotated[list[str], Field(min_length=1, max_length=64), ATOMIC]
    """The resources of this group. A resource belongs to one group only; at most 256 in all groups together."""

    flavors: Annotated[list[FlavorQuotas], Field(min_length=1, max_length=64), list_map("name")]
    """The flavors of this group, tried in this order. A flavor belongs to one group only; at most 256 in all."""


ResourceGroups = Annotated[list[ResourceGroup], Field(max_length=16), ATOMIC]

"""Cohort: a node of the tree in which queues share unused quota."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from queue_manager.api.models.base import ApiModel, CelRule, CustomKind, Name, cel
from queue_manager.api.models.common import FairSharing, FairSharingStatus
from queue_manager.api.models.quota import ResourceGroups

OWN_PARENT = "must not be the Cohort itself"


class CohortSpec(ApiModel):
    """The place of the Cohort in the tree and what it adds to the quota there."""

    parent_name: Name | None = None
    """
    The Cohort above this one; unset makes it a root. It need not exist as an object. Members of a cycle admit
    nothing until the cycle is broken.
    """

    resource_groups: ResourceGroups | None = None
    """
    Quota of the Cohort itself, shared by all below it. Borrowing and lending limits bound what the whole
    subtree borrows from and lends to its parent; they need a parent.
    """

    fair_sharing: FairSharing | None = None
    """Weight of the Cohort among its siblings."""


class CohortStatus(ApiModel):
    """The observed state of a Cohort."""

    fair_sharing: FairSharingStatus | None = None
    """The state of fair sharing, when it is configured."""


class Cohort(CustomKind):
    """A group of ClusterQueues and Cohorts that lend each other unused quota."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "!has(self.spec) || !has(self.spec.parentName) || self.spec.parentName != self.metadata.name",
                OWN_PARENT,
                ".spec.parentName",
            )
        )
    )

    plural: ClassVar[str] = "cohorts"
    short_names: ClassVar[tuple[str, ...]] = ("co",)

    spec: CohortSpec | None = None
    """The place of the Cohort in the tree and its own quota."""

    status: CohortStatus | None = None
    """The observed state of the Cohort."""

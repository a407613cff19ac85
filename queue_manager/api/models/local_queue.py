"""LocalQueue: a queue of one namespace, whose workloads are admitted by a ClusterQueue."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from queue_manager.api.models.base import (
    IMMUTABLE,
    ApiModel,
    CustomKind,
    Int32,
    Name,
    PrinterColumn,
    Quantity,
    checked,
    list_map,
)
from queue_manager.api.models.common import Conditions, FairSharing, LocalQueueFairSharingStatus, StopPolicy


class LocalQueueSpec(ApiModel):
    """The ClusterQueue of this queue, and its policies."""

    cluster_queue: Annotated[Name, checked(IMMUTABLE)]
    """The ClusterQueue that admits the workloads of this queue. Required and immutable."""

    stop_policy: StopPolicy | None = "None"
    """
    None: workloads are admitted. Hold: no new admissions; running workloads continue. HoldAndDrain: running
    workloads are evicted as well.
    """

    fair_sharing: FairSharing | None = None
    """Weight among the LocalQueues of the ClusterQueue, under admission fair sharing."""


class LocalQueueResourceUsage(ApiModel):
    """Usage of one resource."""

    name: str
    """The resource."""

    total: Quantity | None = None
    """The quota in use."""


class LocalQueueFlavorUsage(ApiModel):
    """Usage in one flavor."""

    name: Name
    """The flavor."""

    resources: Annotated[list[LocalQueueResourceUsage], Field(max_length=64), list_map("name")]
    """Usage per resource."""


FlavorUsages = Annotated[list[LocalQueueFlavorUsage], Field(max_length=64), list_map("name")]


class LocalQueueStatusFields(ApiModel):
    """What the status of a LocalQueue has in both versions."""

    conditions: Conditions | None = None
    """Active: whether workloads of this queue can be admitted, and why not."""

    pending_workloads: Int32 | None = None
    """Workloads of this queue that are pending for quota."""

    reserving_workloads: Int32 | None = None
    """Workloads of this queue that hold quota and are not finished."""

    admitted_workloads: Int32 | None = None
    """Workloads of this queue that are admitted and not finished."""

    flavors_reservation: FlavorUsages | None = None
    """Quota reserved by the workloads of this queue, per flavor."""

    fair_sharing: LocalQueueFairSharingStatus | None = None
    """The state of fair sharing, when it is configured."""


class LocalQueueStatus(LocalQueueStatusFields):
    """The observed state of a LocalQueue."""

    flavors_usage: FlavorUsages | None = None
    """Quota used by the admitted workloads of this queue, per flavor."""


class LocalQueue(CustomKind):
    """A queue of one namespace. Jobs choose it with the label kueue.x-k8s.io/queue-name."""

    plural: ClassVar[str] = "localqueues"
    namespaced: ClassVar[bool] = True
    short_names: ClassVar[tuple[str, ...]] = ("queue", "queues", "lq")
    columns: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn("ClusterQueue", ".spec.clusterQueue", "string", "Backing ClusterQueue"),
        PrinterColumn("Pending Workloads", ".status.pendingWorkloads", "integer", "Number of pending workloads"),
        PrinterColumn(
            "Admitted Workloads",
            ".status.admittedWorkloads",
            "integer",
            "Number of admitted workloads that haven't finished yet.",
        ),
    )

    spec: LocalQueueSpec
    """The ClusterQueue of this queue, and its policies."""

    status: LocalQueueStatus | None = None
    """The observed state of the queue."""

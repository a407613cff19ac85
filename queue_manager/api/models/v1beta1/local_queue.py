"""LocalQueue in v1beta1: usage has another name, and the flavors are listed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from queue_manager.api.models import local_queue as v1beta2
from queue_manager.api.models.base import ATOMIC, SET, ApiModel, Name, list_map
from queue_manager.api.models.common import Labels, Taint


class TopologyInfo(ApiModel):
    """The topology of a flavor."""

    name: Name
    """The Topology."""

    levels: Annotated[list[str], Field(min_length=1, max_length=16), ATOMIC]
    """Node label keys, the highest level first."""


class LocalQueueFlavor(ApiModel):
    """A flavor that the queue can use. Nothing writes it."""

    name: Name
    """The flavor."""

    resources: Annotated[list[str], Field(max_length=64), SET] | None = None
    """The resources of the flavor."""

    node_labels: Labels | None = None
    """Labels of its nodes."""

    node_taints: Annotated[list[Taint], Field(max_length=8), ATOMIC] | None = None
    """Taints of its nodes."""

    topology: TopologyInfo | None = None
    """The topology of its nodes."""


class LocalQueueStatus(v1beta2.LocalQueueStatusFields):
    """The observed state of a LocalQueue."""

    flavor_usage: v1beta2.FlavorUsages | None = None
    """Quota used by the admitted workloads of this queue, per flavor."""

    flavors: Annotated[list[LocalQueueFlavor], Field(max_length=64), list_map("name")] | None = None
    """The flavors of the ClusterQueue. Nothing writes it."""


class LocalQueue(v1beta2.LocalQueue):
    """A queue of one namespace. Jobs choose it with the label kueue.x-k8s.io/queue-name."""

    status: LocalQueueStatus | None = None  # type: ignore[assignment]
    """The observed state of the queue."""

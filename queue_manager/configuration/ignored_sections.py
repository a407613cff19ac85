"""Models of the sections of features that Sluice does not have. They are checked and have no effect.

`yaml_tree` finds which fields of a file are without effect, by the mark `NoEffect`; `loading` logs them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from queue_manager.configuration.config_field_types import (
    MINUTE,
    V1BETA2,
    ConfigModel,
    Duration,
    List,
    Only,
    Opaque,
    Positive,
)
from queue_manager.configuration.selector_fields import LabelSelector


class PodOptions(ConfigModel):
    """Which single pods to manage."""

    namespace_selector: LabelSelector | None = None
    """Their namespaces."""

    pod_selector: LabelSelector | None = None
    """Their labels."""


class DeviceClassMapping(ConfigModel):
    """Device classes that count as one resource."""

    name: str = ""
    """The resource."""

    device_class_names: List[str] = ()
    """The device classes."""

    sources: Annotated[Opaque, Only(V1BETA2)] = None
    """Where the devices are counted."""


class CustomLabel(ConfigModel):
    """A label or annotation of objects that becomes a label of metrics."""

    name: str = ""
    """The label of the metrics is custom_<name>."""

    source_label_key: str = ""
    """The label that the value is read from."""

    source_annotation_key: str = ""
    """The annotation that the value is read from."""

    source_kind: Annotated[Literal["ClusterQueue", "LocalQueue", "Cohort", "Workload"], Only(V1BETA2)] = "ClusterQueue"
    """The kind of the objects."""

    tracked_values: Annotated[List[str], Only(V1BETA2)] = ()
    """Values that the metrics distinguish."""


class ExternalFramework(ConfigModel):
    """A kind that MultiKueue dispatches."""

    name: str = ""
    """As Kind.version.group."""


class IncrementalDispatcher(ConfigModel):
    """Nominates clusters step by step."""

    step_size: Positive = 3
    """Clusters per step."""


class MultiKueue(ConfigModel):
    """Dispatch to other clusters."""

    gc_interval: Duration = MINUTE
    """How often orphaned objects are collected."""

    origin: str = "multikueue"
    """Label value of the objects that were dispatched from here."""

    worker_lost_timeout: Duration = 15 * MINUTE
    """How long a lost cluster keeps its Workloads."""

    dispatcher_name: str = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
    """The controller that chooses the cluster."""

    external_frameworks: List[ExternalFramework] = ()
    """Further kinds."""

    cluster_profile: Annotated[Opaque, Only(V1BETA2)] = None
    """Credentials of clusters."""

    incremental_dispatcher_config: Annotated[IncrementalDispatcher | None, Only(V1BETA2)] = None
    """For the incremental dispatcher."""

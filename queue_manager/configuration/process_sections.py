"""Sections about the process: metrics, probes, client, leader election, Job controller, visibility server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from queue_manager.api.component_names import LEASE
from queue_manager.configuration.config_field_types import (
    MINUTE,
    SECOND,
    AtStart,
    ConfigModel,
    Duration,
    GoDuration,
    Int32,
    List,
    NoEffect,
    Number,
    Positive,
    PositiveDuration,
)
from queue_manager.configuration.ignored_sections import CustomLabel
from queue_manager.configuration.selector_fields import LabelSelector

if TYPE_CHECKING:
    from job_controller.options import JobControllerOptions

LISTENING = AtStart("the address is served already")


class LocalQueueMetrics(ConfigModel):
    """Metrics per LocalQueue."""

    enable: bool = False
    """Whether there are any; true when the section is omitted."""

    local_queue_selector: LabelSelector | None = None
    """Only of LocalQueues with these labels. Omitted: all."""


class Metrics(ConfigModel):
    """Prometheus metrics."""

    bind_address: Annotated[str, LISTENING] = ":8443"
    """Where they are served, as host:port; "0" serves none. sluice manager serves them over TLS to users who may get
    /metrics, and over plain HTTP on a loopback address."""

    enable_cluster_queue_resources: bool = False
    """Quota and usage of ClusterQueues and LocalQueues as well."""

    local_queue_metrics: LocalQueueMetrics = Field(default_factory=lambda: LocalQueueMetrics(enable=True))
    """Metrics per LocalQueue."""

    custom_labels: Annotated[List[CustomLabel], NoEffect("Sluice adds no labels of your own to metrics yet")] = ()
    """Labels of your own."""


class Health(ConfigModel):
    """Probes of the process."""

    health_probe_bind_address: Annotated[str, LISTENING] = ":8081"
    """Where they are served, as host:port; "0" serves none."""

    readiness_endpoint_name: Annotated[str, LISTENING] = "readyz"
    """Path of the readiness probe."""

    liveness_endpoint_name: Annotated[str, LISTENING] = "healthz"
    """Path of the liveness probe."""


class Controller(ConfigModel):
    """How the controllers work."""

    group_kind_concurrency: Annotated[
        Mapping[str, Positive],
        NoEffect("Sluice has no such limit yet, except jobController.concurrentSyncs"),
    ] = Field(default_factory=dict)
    """How many objects of a kind are reconciled at once, by Kind.group, e.g. Job.batch."""

    cache_sync_timeout: Annotated[GoDuration, AtStart("it applies only while the process starts")] = 2 * MINUTE
    """How long to wait for the first listing at start."""


class ClientConnection(ConfigModel):
    """Requests to the API server."""

    qps: Number = 300.0
    """Requests per second; negative means no limit, 0 is 5 as in client-go."""

    burst: Int32 = 500
    """Requests that may be sent at once; 0 is 10."""

    @property
    def limit(self) -> tuple[float, int] | None:
        """Requests per second, and the burst; None means no limit."""
        return None if self.qps < 0 else (self.qps or 5.0, max(self.burst, 0) or 10)


class LeaderElection(ConfigModel):
    """Leader election: one of several replicas runs the controllers, the others wait."""

    leader_elect: bool = True
    """Whether to elect a leader. On one machine (sluice up) there is nothing to elect."""

    resource_name: str = LEASE
    """Name of the Lease."""

    resource_namespace: str = ""
    """Namespace of the Lease. Empty: that of the pod; outside of a pod there is no election then."""

    resource_lock: str = "leases"
    """Kind of the lock."""

    lease_duration: PositiveDuration = 15 * SECOND
    """After this time without renewal another replica may lead."""

    renew_deadline: PositiveDuration = 10 * SECOND
    """The leader gives up when it could not renew the Lease for this time."""

    retry_period: PositiveDuration = 2 * SECOND
    """Time between two attempts."""


class JobController(ConfigModel):
    """The embedded Job controller (Sluice's own section)."""

    manage: Literal["All", "ManagedBy"] | None = None
    """All: in place of the built-in controller. ManagedBy: only Jobs with spec.managedBy sluice/job-controller, beside
    the built-in controller. Omitted: ManagedBy on a cluster (sluice manager), All on one machine (sluice up), which has
    no built-in controller."""

    pod_failure_backoff_base: Duration = 10 * SECOND
    """Wait before the pod after the first failed one; doubled with every further failure."""

    pod_failure_backoff_max: Duration = 10 * MINUTE
    """The longest such wait."""

    sync_batch_period: Duration = timedelta(milliseconds=100)
    """Changes of pods are collected for this time before their Job is synced again; of a Job with more than 200 running
    pods for longer in proportion, up to ten times as long."""

    max_uncounted_pods: Positive = 500
    """How many finished pods one status update accounts for."""

    concurrent_syncs: Annotated[int, Field(ge=1, le=10_000)] = 20
    """How many Jobs are synced at once."""

    backoff_limit_per_index: bool = True
    """Whether spec.backoffLimitPerIndex, spec.maxFailedIndexes and the action FailIndex of Jobs have an effect. Off:
    Jobs run as if they did not have these fields, and the embedded cluster drops them from new Jobs."""

    pod_failure_policy: bool = True
    """Whether spec.podFailurePolicy of Jobs has an effect. Off: every failed pod counts against backoffLimit, and the
    embedded cluster drops the field from new Jobs."""

    def options(self, *, manage: Literal["All", "ManagedBy"] = "All") -> JobControllerOptions:
        """The options of `job_controller`, times in seconds. `manage` is the value of an omitted field."""
        # Imported here: the wire types of the Job controller are slow to import, and few callers need them.
        from job_controller.options import JobControllerOptions
        from job_controller.switched_off_features import Switches

        return JobControllerOptions(
            manage=self.manage or manage,
            backoff_base=self.pod_failure_backoff_base.total_seconds(),
            backoff_max=self.pod_failure_backoff_max.total_seconds(),
            sync_batch_period=self.sync_batch_period.total_seconds(),
            max_uncounted=self.max_uncounted_pods,
            concurrent_syncs=self.concurrent_syncs,
            switches=Switches(
                backoff_limit_per_index=self.backoff_limit_per_index, pod_failure_policy=self.pod_failure_policy
            ),
        )


class VisibilityServer(ConfigModel):
    """The visibility API of `sluice manager`, over TLS."""

    bind_address: str = ""
    """The address that the server binds to. Empty: all."""

    bind_port: Annotated[int, Field(ge=1, le=65535)] = 8082
    """The port of the server."""

"""How the process works: what it serves, how it talks to the API server, how it runs Jobs."""

# ruff: noqa: RUF009 - `setting` only wraps an immutable default

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from queue_manager.configuration.selector import LabelSelector
from queue_manager.configuration.setting import (
    LISTED,
    LISTENING,
    MINUTE,
    NO_CONCURRENCY,
    NO_CUSTOM_LABELS,
    SECOND,
    setting,
)
from queue_manager.configuration.unsupported import CustomLabel

if TYPE_CHECKING:
    from job_controller.options import JobControllerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueMetrics:
    """Metrics per LocalQueue."""

    enable: bool = setting("Whether there are any; true when the section is omitted.", False)
    local_queue_selector: LabelSelector | None = setting("Only of LocalQueues with these labels. Omitted: all.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Prometheus metrics."""

    bind_address: str = setting('Where they are served, as host:port; "0" serves none.', ":8443", at_start=LISTENING)
    enable_cluster_queue_resources: bool = setting("Quota and usage of ClusterQueues and LocalQueues as well.", False)
    local_queue_metrics: LocalQueueMetrics = setting("Metrics per LocalQueue.", LocalQueueMetrics(enable=True))
    custom_labels: tuple[CustomLabel, ...] = setting("Labels of your own.", (), ignored=NO_CUSTOM_LABELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Probes of the process."""

    health_probe_bind_address: str = setting(
        'Where they are served, as host:port; "0" serves none.', ":8081", at_start=LISTENING
    )
    readiness_endpoint_name: str = setting("Path of the readiness probe.", "readyz", at_start=LISTENING)
    liveness_endpoint_name: str = setting("Path of the liveness probe.", "healthz", at_start=LISTENING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """How the controllers work."""

    group_kind_concurrency: Mapping[str, int] = field(
        default_factory=dict,
        metadata={
            "ignored": NO_CONCURRENCY,
            "doc": "How many objects of a kind are worked on at once, by Kind.group, e.g. Job.batch.",
            "minimum": 1,
        },
    )
    cache_sync_timeout: timedelta = setting(
        "How long to wait for the first listing at start.",
        2 * MINUTE,
        minimum=timedelta(0),
        nanoseconds=True,
        at_start=LISTED,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection:
    """Requests to the API server."""

    qps: float = setting("Requests per second; negative means no limit, 0 is 5 as in client-go.", 300.0)
    burst: int = setting("Requests that may come at once; 0 is 10.", 500)

    @property
    def limit(self) -> tuple[float, int] | None:
        """Requests per second and at once; None: no limit."""
        return None if self.qps < 0 else (self.qps or 5.0, max(self.burst, 0) or 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """One of several replicas works, the others wait."""

    leader_elect: bool = setting(
        "Whether to elect a leader. On one machine (sluice up) there is nothing to elect.",
        True,
    )
    resource_name: str = setting("Name of the Lease.", "c1f6bfd2.kueue.x-k8s.io")
    resource_namespace: str = setting(
        "Namespace of the Lease. Empty: that of the pod; a manager that runs outside of a pod elects nobody then.", ""
    )
    resource_lock: str = setting("Kind of the lock.", "leases")
    lease_duration: timedelta = setting(
        "After this time without renewal another may lead.", 15 * SECOND, above=timedelta(0)
    )
    renew_deadline: timedelta = setting(
        "The leader gives up when it could not renew for this time.", 10 * SECOND, above=timedelta(0)
    )
    retry_period: timedelta = setting("Time between two tries.", 2 * SECOND, above=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobController:
    """The embedded Job controller (Sluice's own section)."""

    manage: Literal["All", "ManagedBy"] | None = setting(
        "All: in place of the built-in controller. ManagedBy: only Jobs with spec.managedBy sluice/job-controller, "
        "beside the built-in controller. Omitted: ManagedBy on a cluster (sluice manager), All on one machine "
        "(sluice up), where there is no other.",
    )
    pod_failure_backoff_base: timedelta = setting(
        "Wait before the pod after the first failed one; doubled with every further failure.",
        10 * SECOND,
        minimum=timedelta(0),
    )
    pod_failure_backoff_max: timedelta = setting("The longest such wait.", 10 * MINUTE, minimum=timedelta(0))
    sync_batch_period: timedelta = setting(
        "Changes of pods are collected for this time before a Job is looked at again; of a Job with more than 200 "
        "running pods for longer in proportion, up to ten times as long.",
        timedelta(milliseconds=100),
        minimum=timedelta(0),
    )
    max_uncounted_pods: int = setting("How many finished pods one status update accounts for.", 500, minimum=1)
    concurrent_syncs: int = setting("How many Jobs are worked on at once.", 20, minimum=1, maximum=10_000)
    backoff_limit_per_index: bool = setting(
        "Whether spec.backoffLimitPerIndex, spec.maxFailedIndexes and the action FailIndex of Jobs have an effect. "
        "Off: Jobs run as if they were not there, and the embedded cluster drops them from new Jobs.",
        True,
    )
    pod_failure_policy: bool = setting(
        "Whether spec.podFailurePolicy of Jobs has an effect. Off: every failed pod counts against backoffLimit, and "
        "the embedded cluster drops the field from new Jobs.",
        True,
    )

    def options(self, *, manage: Literal["All", "ManagedBy"] = "All") -> JobControllerOptions:
        """The options of `job_controller`, times in seconds. `manage` is what an omitted field means here."""
        # Only who runs the controller needs its wire types, which take a third of the time to import all of this.
        from job_controller.options import JobControllerOptions
        from job_controller.switches import Switches

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

"""The effective configuration: every field with its type, bounds, default and description.

`KueueConfig()` is the meaning of an empty file. Durations are `timedelta`s. In the file names are camel case
(config.kueue.x-k8s.io, Kueue's apis/config/v1beta2); sections that are Sluice's own say so, the others are Kueue's.

Fields marked `NoEffect` belong to features that Sluice does not have. They are read and checked like the others, so
that a configuration written for Kueue loads unchanged, and listed in `KueueConfig.ignored`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, WithJsonSchema

from queue_manager.configuration.config_field_types import (
    DEFAULT_NAMESPACE,
    MINUTE,
    SECOND,
    V1BETA1,
    V1BETA2,
    AtStart,
    ConfigModel,
    Count,
    Duration,
    List,
    NoEffect,
    Number,
    Only,
    Opaque,
    PositiveDuration,
    Quantity,
)
from queue_manager.configuration.history_section import History
from queue_manager.configuration.ignored_sections import DeviceClassMapping, MultiKueue, PodOptions
from queue_manager.configuration.notifications_section import Notifications
from queue_manager.configuration.process_sections import (
    ClientConnection,
    Controller,
    Health,
    JobController,
    LeaderElection,
    Metrics,
    VisibilityServer,
)
from queue_manager.configuration.selector_fields import LabelSelector, outside
from queue_manager.configuration.webhook_and_tls_sections import SERVING, InternalCertManagement, Tls, Webhook
from queue_manager.configuration.yaml_places import nearest

OTHER_KINDS = NoEffect("Sluice manages batch/job only")
WAITS_BY_DEFAULT = "waiting is on unless featureGates has DisableWaitForPodsReady: true"
SHARES_IF_PRESENT = "fair sharing is on if the section fairSharing is present"
STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")

# --- waiting for pods ----------------------------------------------------------------------------------------


class RequeuingStrategy(ConfigModel):
    """How an evicted Workload is requeued."""

    timestamp: Literal["Creation", "Eviction"] = "Eviction"
    """The time by which the Workload is ordered among equal priorities: that of its eviction (behind those that waited
    meanwhile) or of its creation (before them)."""

    backoff_limit_count: Count | None = None
    """After so many requeues the Workload is deactivated; 0: at the first timeout. Omitted: never."""

    backoff_base_seconds: Count = 60
    """Seconds before the first retry; doubled with every further one."""

    backoff_max_seconds: Count = 3600
    """The most seconds between two attempts."""

    backoff_formula: Literal["Kueue", "KEP1282"] = "Kueue"
    """How the waits between attempts grow. Kueue: backoffBaseSeconds, doubled up to backoffMaxSeconds. KEP1282:
    1.41284738^(n-1) seconds before the n-th retry, and those two have no effect. Sluice's own field."""

    give_up_after: PositiveDuration | None = None
    """A Workload whose pods were not ready for this time, over all its attempts since the first, is deactivated.
    Omitted: only backoffLimitCount counts. Sluice's own field."""


class Overrides(ConfigModel):
    """What annotations of a Job may set for that Job alone. Sluice's own section."""

    min_timeout: Duration = 0 * MINUTE
    """The least that the annotation sluice/pods-ready-timeout may say."""

    max_timeout: PositiveDuration | None = None
    """The most that it may say. Omitted: no bound."""

    max_backoff_limit_count: Count | None = None
    """The most that the annotation sluice/requeuing-limit may say. Omitted: no bound."""


class WaitForPodsReady(ConfigModel):
    """Evicts admitted Workloads whose pods do not become ready, or do not stay ready."""

    enable: Annotated[bool, Only(V1BETA1, WAITS_BY_DEFAULT)] = Field(default=False, exclude=True)
    """Whether it is on."""

    timeout: Duration = 30 * MINUTE
    """From admission until all pods are ready; 0s means 30m."""

    block_admission: bool = False
    """Admit nothing else while a Workload that holds quota waits for its pods, or for its admission checks before."""

    recovery_timeout: Duration = 30 * MINUTE
    """From the loss of a ready pod until all are ready again; 0s never evicts. Omitted: as timeout."""

    unschedulable_timeout: PositiveDuration | None = None
    """The timeout while there are pods that fit no node. Omitted: as timeout. Sluice's own field."""

    requeuing_strategy: RequeuingStrategy = Field(default_factory=RequeuingStrategy)
    """When and where an evicted Workload is queued again."""

    overrides: Overrides | None = None
    """Lets annotations of Jobs set their own timeout and limit, within bounds. Omitted: they may not. Sluice's own
    section."""


# --- Jobs ----------------------------------------------------------------------------------------------------


class Integrations(ConfigModel):
    """What kinds of jobs are managed."""

    frameworks: List[str] = ("batch/job",)
    """Kinds of jobs. Sluice manages batch/job."""

    external_frameworks: Annotated[List[str], OTHER_KINDS] = ()
    """Kinds managed by other controllers, as Kind.version.group."""

    label_keys_to_copy: List[str] = ()
    """Labels copied from a Job to its Workload when that is created; those that the Job lacks are skipped."""

    pod_options: Annotated[
        PodOptions | None, Only(V1BETA1), NoEffect("Sluice manages batch/v1 Jobs, not single pods")
    ] = Field(default=None, exclude=True)
    """Which single pods to manage."""


# --- quota ---------------------------------------------------------------------------------------------------


class Transformation(ConfigModel):
    """How much of other resources a requested resource counts as."""

    input: str = ""
    """The requested resource."""

    strategy: Literal["Retain", "Replace"] = "Retain"
    """Whether the input still counts beside the outputs."""

    multiply_by: str = ""
    """A resource whose requested amount multiplies the outputs."""

    outputs: Mapping[str, Quantity] = Field(default_factory=dict)
    """Resources and their amounts per unit of the input."""


class Resources(ConfigModel):
    """Which requests count against quota, and as what."""

    quota_check_strategy: Annotated[Literal["IgnoreUndeclared", "BlockUndeclared"], Only(V1BETA2)] = "BlockUndeclared"
    """How a Workload is treated that requests a resource its ClusterQueue has no quota for: BlockUndeclared keeps it
    pending, IgnoreUndeclared does not count the resource."""

    exclude_resource_prefixes: List[str] = ()
    """Resources whose names begin like this are not counted."""

    transformations: List[Transformation] = ()
    """Resources that count as others; one entry per input."""

    device_class_mappings: Annotated[
        List[DeviceClassMapping], NoEffect("Sluice does not count devices of dynamic resource allocation")
    ] = ()
    """Devices that count as resources."""


class FairSharing(ConfigModel):
    """Shares unused quota of a cohort by weight. Present means on."""

    enable: Annotated[bool, Only(V1BETA1, SHARES_IF_PRESENT)] = Field(default=False, exclude=True)
    """Whether it is on."""

    preemption_strategies: Annotated[
        List[str], WithJsonSchema({"type": "array", "items": {"type": "string", "enum": list(STRATEGIES)}})
    ] = STRATEGIES
    """Conditions under which a Workload may preempt for its share; the next is tried when one does not suffice."""


class AdmissionFairSharing(ConfigModel):
    """Orders the LocalQueues of a ClusterQueue by past usage. Present means on."""

    usage_half_life_time: Duration = 0 * MINUTE
    """After this time past usage counts half; 0s forgets it immediately."""

    usage_sampling_interval: Duration = 5 * MINUTE
    """How often usage is recorded; 0s means 5m."""

    resource_weights: Mapping[str, Annotated[Number, Field(ge=0)]] = Field(default_factory=dict)
    """How much a resource counts, 0 or more, per core of cpu, byte of memory, or piece. Omitted: 1."""


class Preemption(ConfigModel):
    """Bounds of what Jobs may set about their preemption. Sluice's own section."""

    max_min_runtime: PositiveDuration | None = None
    """The most that the annotation sluice/min-runtime may say, on a Job or on its WorkloadPriorityClass: for this time
    after each admission the Workload is not preempted. Omitted: the annotation is not allowed."""


class Backfill(ConfigModel):
    """Guarantees a start to the first Workload of a ClusterQueue. Present means on. Sluice's own section."""

    head_age: Duration = 60 * MINUTE
    """From this age on no Workload is admitted that delays it. The age counts from the time by which the queue orders
    it: its creation, also if it ran and was preempted since, or its eviction because pods were not ready. 0s: from the
    start."""

    order: Literal["Queue", "ShortestFirst"] = "Queue"
    """Which of those that may pass it is tried first, among those of one priority: the next in the queue, or the one
    with the shortest declared maximum execution time. With withinClusterQueue LowerOrNewerEqualPriority it is always
    the next in the queue, as that one would preempt a shorter one."""


# --- retention -----------------------------------------------------------------------------------------------


class WorkloadRetention(ConfigModel):
    """When Workloads and their Jobs are deleted."""

    after_finished: Duration | None = None
    """A finished Workload is deleted after this time. Omitted: never."""

    after_deactivated_by_kueue: Duration | None = None
    """The Job of a Workload that Sluice deactivated is deleted after this time. Omitted: never."""


class ObjectRetentionPolicies(ConfigModel):
    """How long Workloads are kept that have finished or were deactivated."""

    workloads: WorkloadRetention = Field(default_factory=WorkloadRetention)
    """Workloads and their Jobs."""


# --- the whole -----------------------------------------------------------------------------------------------


class KueueConfig(ConfigModel):  # noqa: PLW1641 - its mappings have no hash either
    """The configuration of Sluice."""

    namespace: Annotated[str, AtStart("the namespace of the process is fixed")] = DEFAULT_NAMESPACE
    """The namespace of the process. Omitted: that of its service account, else kueue-system."""

    manage_jobs_without_queue_name: bool = False
    """Hold Jobs without a queue label as well."""

    managed_jobs_namespace_selector: LabelSelector = Field(default_factory=lambda: outside(DEFAULT_NAMESPACE))
    """Only Jobs in these namespaces are managed. Omitted: all but kube-system and our own, which may never match."""

    wait_for_pods_ready: WaitForPodsReady | None = Field(default_factory=WaitForPodsReady)
    """Evict admitted Workloads whose pods do not become ready. Off only with featureGates.DisableWaitForPodsReady."""

    integrations: Integrations = Field(default_factory=Integrations)
    """What kinds of jobs are managed."""

    resources: Resources = Field(default_factory=Resources)
    """Which requests count against quota, and as what."""

    fair_sharing: FairSharing | None = None
    """Share unused quota of a cohort by weight. On if the section is present, off if it is omitted."""

    admission_fair_sharing: AdmissionFairSharing | None = None
    """Order LocalQueues by past usage. On if the section is present, off if it is omitted."""

    preemption: Preemption = Field(default_factory=Preemption)
    """How long Jobs may forbid their preemption. Sluice's own section."""

    backfill: Backfill | None = None
    """Keep freed quota for the first Workload of a BestEffortFIFO ClusterQueue once it has waited long, and let only
    those pass that do not delay it. Omitted: off. Sluice's own section."""

    pending_reason_period: Duration = 30 * SECOND
    """How long the numbers in the reason of a pending Workload may be out of date; 0s writes each change immediately.
    Sluice's own field."""

    object_retention_policies: ObjectRetentionPolicies = Field(default_factory=ObjectRetentionPolicies)
    """When objects are deleted."""

    metrics: Metrics = Field(default_factory=Metrics)
    """Prometheus metrics."""

    health: Health = Field(default_factory=Health)
    """Probes of the process."""

    controller: Controller = Field(default_factory=Controller)
    """How the controllers work."""

    client_connection: Annotated[ClientConnection, AtStart("the limit is in use already")] = Field(
        default_factory=ClientConnection
    )
    """Requests to the API server. On one machine (sluice up) there is no limit unless these are other numbers."""

    leader_election: Annotated[LeaderElection, AtStart("leader election has already started")] = Field(
        default_factory=LeaderElection
    )
    """One of several managers works (sluice manager)."""

    job_controller: Annotated[JobController, AtStart("the Job controller has already started")] = Field(
        default_factory=JobController
    )
    """The embedded Job controller (Sluice's own section)."""

    history: History = Field(default_factory=History)
    """What happened to each Job, kept beyond its deletion. Sluice's own section."""
    notifications: Annotated[Notifications | None, AtStart("notifications are delivered already")] = None
    """Report ends, deactivations and preemptions of Jobs to a command and a webhook. Omitted: off. Sluice's own
    section."""

    feature_gates: Mapping[str, bool] = Field(default_factory=dict)
    """Features of Kueue by name. Only DisableWaitForPodsReady has an effect; features that Sluice has are on."""

    webhook: Annotated[Webhook, SERVING] = Field(default_factory=Webhook)
    """The webhook server of `sluice manager`. `sluice up` applies the same rules in its API server."""

    internal_cert_management: Annotated[InternalCertManagement, SERVING] = Field(default_factory=InternalCertManagement)
    """Certificates of the webhook server."""

    tls: Annotated[Tls | None, SERVING] = None
    """TLS of the webhook server and of the visibility API (sluice manager)."""

    pprof_bind_address: Annotated[str, NoEffect("there is no Go profile to serve")] = ""
    """Where profiles are served."""

    multi_kueue: Annotated[MultiKueue, NoEffect("Sluice does not dispatch to other clusters")] = Field(
        default_factory=MultiKueue
    )
    """Dispatch to other clusters."""

    visibility_server: Annotated[VisibilityServer | None, Only(V1BETA2), AtStart("the address is served already")] = (
        Field(default_factory=VisibilityServer)
    )
    """The visibility API of `sluice manager`. `sluice up` serves it on its API server."""

    queue_visibility: Annotated[Opaque, Only(V1BETA1), NoEffect("it has no effect in Kueue either")] = Field(
        default=None, exclude=True
    )
    """Kueue's former visibility API."""

    _ignored: tuple[str, ...] = PrivateAttr(())
    _lines: dict[str, int] = PrivateAttr(default_factory=dict)  # of the file, by path

    @property
    def ignored(self) -> tuple[str, ...]:
        """The settings of the file that have no effect, each with the reason."""
        return self._ignored

    def line(self, path: str) -> int:
        """The line of a field in the file, or of the nearest section around it; 0 if the file has none of them."""
        return self._lines.get(nearest(path, self._lines), 0)

    def __eq__(self, other: object) -> bool:
        """Configurations are equal that have the same effect, whatever else their files have."""
        return isinstance(other, KueueConfig) and self.__dict__ == other.__dict__

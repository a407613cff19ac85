"""The effective configuration: every field with its type, default and meaning (spec: kueue.md section 2).

`KueueConfig()` is what an empty file means. Durations are `timedelta`s. On the wire names are camel case
(config.kueue.x-k8s.io); `jobController` is Sluice's own section, everything else is Kueue's.

Fields marked `ignored` belong to things that Sluice does not do. They are read and checked like the others, so
that a configuration written for Kueue loads unchanged, and named in `KueueConfig.ignored`.
"""

# ruff: noqa: RUF009 - `setting` only wraps an immutable default

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from queue_manager.configuration.process import (
    ClientConnection,
    Controller,
    Health,
    JobController,
    LeaderElection,
    Metrics,
)
from queue_manager.configuration.selector import LabelSelector, outside
from queue_manager.configuration.setting import (
    COUNTING,
    DEFAULT_NAMESPACE,
    ELECTED,
    MINUTE,
    NO_DRA,
    NO_FAIR_SHARING,
    NO_MULTIKUEUE,
    NO_PARALLEL_KINDS,
    NO_PODS,
    NO_PPROF,
    NO_TLS,
    NO_USAGE_ORDER,
    NO_VISIBILITY,
    NO_WEBHOOK_SERVER,
    PLACED,
    RUNNING,
    Quantity,
    setting,
)
from queue_manager.configuration.unsupported import (
    DeviceClassMapping,
    InternalCertManagement,
    MultiKueue,
    PodOptions,
    Tls,
    VisibilityServer,
    Webhook,
)

# --- waiting for pods ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeuingStrategy:
    """What happens to a Workload whose pods did not get ready in time."""

    timestamp: Literal["Creation", "Eviction"] = setting(
        "Where it queues again among equal priorities: by its eviction (behind those that waited meanwhile) or by "
        "its creation (before them).",
        "Eviction",
    )
    backoff_limit_count: int | None = setting(
        "After so many requeues it is deactivated. Omitted: never, it is tried for ever.", minimum=0
    )
    backoff_base_seconds: int = setting(
        "Seconds before the first retry; doubled with every further one.", 60, minimum=0
    )
    backoff_max_seconds: int = setting("The most seconds between two tries.", 3600, minimum=0)
    backoff_formula: Literal["Kueue", "KEP1282"] = setting(
        "How the waits between tries grow. Kueue: backoffBaseSeconds, doubled up to backoffMaxSeconds. KEP1282: "
        "1.41284738^(n-1) seconds before the n-th retry, and those two have no effect. Sluice's own field.",
        "Kueue",
    )
    give_up_after: timedelta | None = setting(
        "A Workload whose pods were not ready for this time, over all its tries since the first, is deactivated. "
        "Omitted: only backoffLimitCount counts. Sluice's own field.",
        above=timedelta(0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What annotations of a Job may set for that Job alone. Sluice's own section."""

    min_timeout: timedelta = setting(
        "The least that the annotation sluice/pods-ready-timeout may say.", timedelta(0), minimum=timedelta(0)
    )
    max_timeout: timedelta | None = setting("The most that it may say. Omitted: no bound.", above=timedelta(0))
    max_backoff_limit_count: int | None = setting(
        "The most that the annotation sluice/requeuing-limit may say. Omitted: no bound.", minimum=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForPodsReady:
    """Evicts admitted Workloads whose pods do not get, or stay, ready."""

    timeout: timedelta = setting("From admission until all pods are ready.", 30 * MINUTE, minimum=timedelta(0))
    block_admission: bool = setting("Admit nothing else while an admitted Workload waits for its pods.", False)
    recovery_timeout: timedelta = setting(
        "From the loss of a ready pod until all are ready again; 0s never evicts. Omitted: as timeout.",
        30 * MINUTE,
        minimum=timedelta(0),
    )
    unschedulable_timeout: timedelta | None = setting(
        "The timeout while there are pods that no node can take. Omitted: as timeout. Sluice's own field.",
        above=timedelta(0),
    )
    requeuing_strategy: RequeuingStrategy = setting(
        "When and where an evicted Workload queues again.", RequeuingStrategy()
    )
    overrides: Overrides | None = setting(
        "Lets annotations of Jobs set their own timeout and limit, within bounds. Omitted: they may not. Sluice's own "
        "section."
    )


# --- which Jobs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrations:
    """What kinds of jobs are managed."""

    frameworks: tuple[str, ...] = setting("Kinds of jobs. Sluice manages batch/job.", ("batch/job",))
    external_frameworks: tuple[str, ...] = setting(
        "Kinds managed by other controllers, as Kind.version.group.", (), ignored=NO_PARALLEL_KINDS
    )
    label_keys_to_copy: tuple[str, ...] = setting(
        "Labels copied from a Job to its Workload when that is created; those that the Job lacks are skipped.", ()
    )
    pod_options: PodOptions | None = setting("Which single pods to manage.", ignored=NO_PODS, until="v1beta1")


# --- quota ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """How much of other resources a requested resource counts as."""

    input: str = setting("The requested resource.", "")
    strategy: Literal["Retain", "Replace"] = setting("Whether the input still counts beside the outputs.", "Retain")
    multiply_by: str = setting("A resource whose requested amount multiplies the outputs.", "")
    outputs: Mapping[str, Quantity] = field(
        default_factory=dict, metadata={"doc": "Resources and their amounts per unit of the input."}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Which requests count against quota, and as what."""

    quota_check_strategy: Literal["IgnoreUndeclared", "BlockUndeclared"] = setting(
        "What becomes of a Workload that requests a resource its ClusterQueue has no quota for: BlockUndeclared "
        "keeps it waiting, IgnoreUndeclared does not count the resource.",
        "BlockUndeclared",
        since="v1beta2",
    )
    exclude_resource_prefixes: tuple[str, ...] = setting("Resources whose names begin like this are not counted.", ())
    transformations: tuple[Transformation, ...] = setting("Resources that count as others; one entry per input.", ())
    device_class_mappings: tuple[DeviceClassMapping, ...] = setting(
        "Devices that count as resources.", (), ignored=NO_DRA
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    """Shares unused quota of a cohort by weight. Present means on."""

    preemption_strategies: tuple[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...] = setting(
        "Conditions under which a Workload may preempt for its share; the next is tried when one does not suffice.",
        ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """Orders the LocalQueues of a ClusterQueue by past usage. Present means on."""

    usage_half_life_time: timedelta = setting(
        "After this time past usage counts half; 0s forgets it at once.", timedelta(0), minimum=timedelta(0)
    )
    usage_sampling_interval: timedelta = setting(
        "How often usage is recorded; 0s means 5m.", 5 * MINUTE, minimum=timedelta(0)
    )
    resource_weights: Mapping[str, float] = field(
        default_factory=dict,
        metadata={"doc": "How much a resource counts, 0 or more. Omitted: 1.", "minimum": 0.0},
    )


# --- retention -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRetention:
    """When objects are deleted."""

    after_finished: timedelta | None = setting(
        "A finished Workload is deleted after this time. Omitted: never.", minimum=timedelta(0)
    )
    after_deactivated_by_kueue: timedelta | None = setting(
        "The Job of a Workload that Sluice deactivated is deleted after this time. Omitted: never.",
        minimum=timedelta(0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRetentionPolicies:
    """When objects are deleted."""

    workloads: WorkloadRetention = setting("Workloads and their Jobs.", WorkloadRetention())


# --- all of it ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueConfig:
    """The configuration of Sluice."""

    namespace: str = setting(
        "The namespace of the process. Omitted: that of its service account, else kueue-system.",
        DEFAULT_NAMESPACE,
        at_start=PLACED,
    )
    manage_jobs_without_queue_name: bool = setting("Hold Jobs without a queue label as well.", False)
    managed_jobs_namespace_selector: LabelSelector = setting(
        "Only Jobs in these namespaces are managed. Omitted: all but kube-system and our own, which may never match.",
        outside(DEFAULT_NAMESPACE),
    )
    wait_for_pods_ready: WaitForPodsReady | None = setting(
        "Evict admitted Workloads whose pods do not get ready. Off only with featureGates.DisableWaitForPodsReady.",
        WaitForPodsReady(),
    )
    integrations: Integrations = setting("What kinds of jobs are managed.", Integrations())
    resources: Resources = setting("Which requests count against quota, and as what.", Resources())
    fair_sharing: FairSharing | None = setting(
        "Share unused quota of a cohort by weight. Omitted: off.", ignored=NO_FAIR_SHARING
    )
    admission_fair_sharing: AdmissionFairSharing | None = setting(
        "Order LocalQueues by past usage. Omitted: off.", ignored=NO_USAGE_ORDER
    )
    object_retention_policies: ObjectRetentionPolicies = setting("When objects are deleted.", ObjectRetentionPolicies())
    metrics: Metrics = setting("Prometheus metrics.", Metrics())
    health: Health = setting("Probes of the process.", Health())
    controller: Controller = setting("How the controllers work.", Controller())
    client_connection: ClientConnection = setting(
        "Requests to the API server. On one machine (sluice up) there is no limit unless these are other numbers.",
        ClientConnection(),
        at_start=COUNTING,
    )
    leader_election: LeaderElection = setting(
        "One of several managers works (sluice manager).", LeaderElection(), at_start=ELECTED
    )
    job_controller: JobController = setting(
        "The embedded Job controller (Sluice's own section).", JobController(), at_start=RUNNING
    )
    feature_gates: Mapping[str, bool] = field(
        default_factory=dict,
        metadata={
            "doc": "Features of Kueue by name. Only DisableWaitForPodsReady has an effect; what Sluice does is on."
        },
    )
    webhook: Webhook = setting("The webhook server.", Webhook(), ignored=NO_WEBHOOK_SERVER)
    internal_cert_management: InternalCertManagement = setting(
        "Certificates of the webhook server.", InternalCertManagement(), ignored=NO_WEBHOOK_SERVER
    )
    tls: Tls | None = setting("TLS of the servers.", ignored=NO_TLS)
    pprof_bind_address: str = setting("Where profiles are served.", "", ignored=NO_PPROF)
    multi_kueue: MultiKueue = setting("Dispatch to other clusters.", MultiKueue(), ignored=NO_MULTIKUEUE)
    visibility_server: VisibilityServer | None = setting(
        "The visibility API.", VisibilityServer(), ignored=NO_VISIBILITY, since="v1beta2"
    )
    ignored: tuple[str, ...] = field(default=(), compare=False)

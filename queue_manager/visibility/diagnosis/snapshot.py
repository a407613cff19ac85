"""What `sluice doctor` has read of a cluster. None stands for a kind that the user may not list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from job_controller.model import Job, Key, Pod
from queue_manager.api.component_names import NAMESPACE
from queue_manager.api.events import Event
from queue_manager.api.types import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from queue_manager.configuration import KueueConfig
from queue_manager.scheduling.resource_rules import COUNT_ALL, ResourceRules
from queue_manager.visibility.diagnosis.image_pulls import ImagePull
from queue_manager.visibility.manager_presence import DeploymentFacts, LeaseFacts
from queue_manager.visibility.node_fit import NodeFacts


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """A certificate: where it is used, when it ends, and the command that renews it."""

    place: str
    not_after: datetime
    command: str


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """How far a clock is ahead of the API server's; `uncertainty`: of the measurement."""

    owner: str
    ahead: timedelta
    uncertainty: timedelta


@dataclass(frozen=True, slots=True)
class WebhookServiceFacts:
    """A Service that webhooks with failurePolicy Fail call, and the names of their webhook configurations."""

    key: Key
    configurations: tuple[str, ...]
    is_ready: bool  # has a ready endpoint


@dataclass(frozen=True, slots=True)
class ConversionFacts:
    """A CRD whose objects need no conversion by Sluice, the Service of its conversion webhook, and what is wrong."""

    crd: str
    service: Key
    failure: str


@dataclass(frozen=True, slots=True)
class LeftConfiguration:
    """Where a manager has published its configuration. `lease`: which it does not hold any more; "": it had none."""

    namespace: str
    lease: str


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """For how long no record of the history has been written, 0 if that is in order, and how many records wait."""

    stalled_seconds: float
    waiting_records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """A cluster at one time. Referring objects were listed before those they refer to."""

    now: datetime  # of the API server, as far as known
    config: KueueConfig | None = None  # None: not published, or not readable
    home: str = NAMESPACE  # the namespace of the managers
    is_embedded: bool = False  # the cluster of `sluice up`
    workloads: Sequence[Workload] | None = None
    pods: Sequence[Pod] | None = None
    jobs: Sequence[Job] | None = None
    local_queues: Sequence[LocalQueue] | None = None
    cluster_queues: Sequence[ClusterQueue] | None = None
    cohorts: Sequence[Cohort] | None = None
    flavors: Sequence[ResourceFlavor] | None = None
    priority_classes: frozenset[str] | None = None  # the names of the WorkloadPriorityClasses
    pod_classes: frozenset[str] | None = None  # the names of the PriorityClasses; None also if no Job names one
    checks: Sequence[AdmissionCheck] | None = None
    nodes: Sequence[NodeFacts] | None = None
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # labels of those that the user may list
    image_pulls: Sequence[ImagePull] = ()  # of the last hour
    refusals: Sequence[Event] = ()  # of managers, of the last hour: writes that the API server has refused
    rules: ResourceRules = COUNT_ALL  # how requests count, by `config`
    certificates: Sequence[CertificateFacts] = ()
    clocks: Sequence[ClockFacts] = ()
    leases: Sequence[LeaseFacts] = ()
    deployment: DeploymentFacts | None = None  # of the managers
    is_absent: bool = False  # neither Deployment nor configuration of the managers exists
    webhook_services: Sequence[WebhookServiceFacts] = ()
    deleted_namespaces: Sequence[str] = ()  # that still exist
    unavailable_apis: Sequence[str] = ()  # APIServices of the visibility API to which the API server has no connection
    missing_secret: Key | None = None  # of the certificate of the webhooks, which the managers renew
    dead_conversions: Sequence[ConversionFacts] = ()  # by webhooks that another software has left
    left_configurations: Sequence[LeftConfiguration] = ()  # while a manager of all namespaces runs
    history: HistoryFacts | None = None  # None: unknown, as of a manager on another API server

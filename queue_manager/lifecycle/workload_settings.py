"""The part of the configuration that decides about Workloads, in plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction

from job_controller.times import effective_start
from queue_manager.api.types import Namespace
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.kueue_config import AdmissionFairSharing, Backfill, Overrides, Resources
from queue_manager.configuration.selector_fields import LabelSelector
from queue_manager.queueing.requeue_backoff import Formula
from queue_manager.scheduling.backfill import BackfillRules
from queue_manager.scheduling.queue_order import Timestamp
from queue_manager.scheduling.resource_rules import COUNT_ALL, ResourceRules, ResourceTransformation
from queue_manager.scheduling.usage_decay import UsageDecay


@dataclass(frozen=True, slots=True)
class PodsReadyBounds:
    """What Jobs may set of waitForPodsReady. Times in seconds; None: no bound."""

    min_timeout: float = 0
    max_timeout: float | None = None
    max_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of what annotations of a Job may set. None: the annotations are not allowed."""

    pods_ready: PodsReadyBounds | None = None
    max_min_runtime: float | None = None  # seconds


@dataclass(frozen=True, slots=True)
class PodsReadySettings:
    """waitForPodsReady (KEP-349, KEP-1282); times in seconds."""

    timeout: float = 1800
    recovery_timeout: float | None = 1800  # None or <= 0: a Workload that was ready is never evicted
    block_admission: bool = False
    timestamp: Timestamp = "Eviction"
    limit: int | None = None  # retries; None: no limit
    base: int = 60  # seconds of the first backoff
    maximum: int = 3600  # seconds, of later backoffs
    formula: Formula = "Kueue"
    give_up_after: float | None = None  # without ready pods, over all attempts
    unschedulable_timeout: float | None = None  # None: the same as timeout
    bounds: PodsReadyBounds | None = None  # of overrides by Jobs; None: not allowed
    since: datetime | None = None  # when a reload switched it on: no deadline counts from before


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """Settings of the life cycle. `pods_ready` None: waitForPodsReady is off. A retention of None: forever."""

    pods_ready: PodsReadySettings | None = field(default_factory=PodsReadySettings)
    manage_all: bool = False  # also Jobs without the queue-name label
    namespaces: LabelSelector = field(default_factory=LabelSelector)
    label_keys_to_copy: tuple[str, ...] = ()
    resources: ResourceRules = COUNT_ALL
    max_min_runtime: float | None = None  # seconds for which Jobs may forbid their preemption; None: not at all
    backfill: BackfillRules | None = None  # None: off
    fair_sharing: tuple[str, ...] = ()  # preemption strategies (KEP-1714); (): off
    usage_decay: UsageDecay | None = None  # admission fair sharing (KEP-4136); None: off
    retain_finished: float | None = None  # seconds
    retain_deactivated: float | None = None  # seconds
    pending_reason_period: float = 30.0  # seconds; the longest that numbers in a pending reason stay out of date

    @property
    def timestamp(self) -> Timestamp:
        """Which timestamp orders requeued Workloads."""
        return self.pods_ready.timestamp if self.pods_ready else "Eviction"

    @property
    def block_admission(self) -> bool:
        """Whether nothing is admitted while a Workload that holds quota is not PodsReady."""
        return self.pods_ready is not None and self.pods_ready.block_admission

    @property
    def tries_all(self) -> bool:
        """Whether a change lets all refused Workloads be tried, not only those that it may help.

        That is so with backfilling, which promises quota to the first one that is refused, and if no number in a
        pending reason may be out of date.
        """
        return self.backfill is not None or self.pending_reason_period <= 0

    @property
    def bounds(self) -> Bounds:
        """Bounds of what annotations of Jobs may set."""
        return Bounds(self.pods_ready.bounds if self.pods_ready else None, self.max_min_runtime)

    def manages(self, name: str, namespace: Namespace | None) -> bool:
        """Whether Jobs in the namespace of this name are managed. None: the namespace is not known."""
        labels = namespace.metadata.labels if namespace is not None else {}
        return self.namespaces.matches({"kubernetes.io/metadata.name": name, **labels})


def reconfigured(old: WorkloadSettings, new: WorkloadSettings, now: datetime) -> WorkloadSettings:
    """New settings for a running queue. If waitForPodsReady is switched on, no deadline counts from before `now`."""
    if new.pods_ready is None:
        return new
    since = now.replace(microsecond=0) if old.pods_ready is None else old.pods_ready.since
    return replace(new, pods_ready=replace(new.pods_ready, since=since))


def without_future_times(settings: WorkloadSettings, now: datetime) -> WorkloadSettings:
    """The settings; if the clock was set back, so that their reload lies in the future, `since` is set to `now`."""
    waiting = settings.pods_ready
    if waiting is None or waiting.since is None:
        return settings
    since = effective_start(waiting.since, None, now)
    return settings if since == waiting.since else replace(settings, pods_ready=replace(waiting, since=since))


def settings_of(config: KueueConfig) -> WorkloadSettings:
    """The settings in a configuration."""
    waiting, kept = config.wait_for_pods_ready, config.object_retention_policies.workloads
    pods_ready = None
    if waiting is not None:
        again = waiting.requeuing_strategy
        pods_ready = PodsReadySettings(
            timeout=waiting.timeout.total_seconds(),
            recovery_timeout=waiting.recovery_timeout.total_seconds(),
            block_admission=waiting.block_admission,
            timestamp=again.timestamp,
            limit=again.backoff_limit_count,
            base=again.backoff_base_seconds,
            maximum=again.backoff_max_seconds,
            formula=again.backoff_formula,
            give_up_after=_seconds(again.give_up_after),
            unschedulable_timeout=_seconds(waiting.unschedulable_timeout),
            bounds=_bounds(waiting.overrides),
        )
    return WorkloadSettings(
        pods_ready=pods_ready,
        manage_all=config.manage_jobs_without_queue_name,
        namespaces=config.managed_jobs_namespace_selector,
        label_keys_to_copy=config.integrations.label_keys_to_copy,
        resources=_resource_rules(config.resources),
        max_min_runtime=_seconds(config.preemption.max_min_runtime),
        backfill=_backfill_rules(config.backfill),
        fair_sharing=config.fair_sharing.preemption_strategies if config.fair_sharing is not None else (),
        usage_decay=_usage_decay(config.admission_fair_sharing),
        retain_finished=_seconds(kept.after_finished),
        retain_deactivated=_seconds(kept.after_deactivated_by_kueue),
        pending_reason_period=config.pending_reason_period.total_seconds(),
    )


def _resource_rules(resources: Resources) -> ResourceRules:
    return ResourceRules(
        excluded_prefixes=resources.exclude_resource_prefixes,
        transformations={
            t.input: ResourceTransformation(t.strategy == "Replace", dict(t.outputs), t.multiply_by)
            for t in resources.transformations
        },
        ignore_undeclared=resources.quota_check_strategy == "IgnoreUndeclared",
    )


def _backfill_rules(backfill: Backfill | None) -> BackfillRules | None:
    if backfill is None:
        return None
    return BackfillRules(backfill.head_age, shortest_first=backfill.order == "ShortestFirst")


def _usage_decay(sharing: AdmissionFairSharing | None) -> UsageDecay | None:
    if sharing is None:
        return None
    return UsageDecay(
        half_life=sharing.usage_half_life_time.total_seconds(),
        interval=sharing.usage_sampling_interval.total_seconds(),
        weights={resource: Fraction(str(weight)) for resource, weight in sharing.resource_weights.items()},
    )


def _bounds(overrides: Overrides | None) -> PodsReadyBounds | None:
    if overrides is None:
        return None
    return PodsReadyBounds(
        overrides.min_timeout.total_seconds(), _seconds(overrides.max_timeout), overrides.max_backoff_limit_count
    )


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()

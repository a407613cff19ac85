"""ClusterQueue in v1beta1: the cohort has another name, admission checks may be a flat list."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from queue_manager.api.models import cluster_queue as v1beta2
from queue_manager.api.models.base import (
    ATOMIC,
    DEFAULT_EMPTY,
    ApiModel,
    CelRule,
    CheckName,
    Name,
    PrinterColumn,
    Time,
    cel,
)

ONE_LIST_OF_CHECKS = CelRule(
    "!has(self.admissionChecks) || size(self.admissionChecks) == 0 || !has(self.admissionChecksStrategy)",
    "admissionChecks and admissionChecksStrategy cannot be used together",
)


class FlavorFungibility(v1beta2.FungibilityPreference):
    """When to try the next flavor before borrowing or preempting in this one."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor", "Borrow"] = "MayStopSearch"
    """
    MayStopSearch takes a flavor in which the workload fits by borrowing; TryNextFlavor tries the next. Borrow is
    the old name of MayStopSearch.
    """

    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor", "Preempt"] = "TryNextFlavor"
    """
    MayStopSearch takes a flavor in which the workload fits after preemption; TryNextFlavor tries the next. Preempt
    is the old name of MayStopSearch.
    """


class AdmissionCheckStrategyRule(ApiModel):
    """One check and the flavors it is for."""

    name: CheckName
    """The AdmissionCheck."""

    on_flavors: Annotated[list[Name], Field(max_length=64), ATOMIC] | None = None
    """Flavors of this ClusterQueue for which the check is needed. Empty: for every workload."""


class AdmissionChecksStrategy(ApiModel):
    """The checks of a ClusterQueue."""

    admission_checks: Annotated[list[AdmissionCheckStrategyRule], Field(max_length=64), ATOMIC] | None = None
    """All that must be Ready before a workload with quota is admitted."""


class ClusterQueueSpec(v1beta2.ClusterQueueFields):
    """Quota and policies."""

    model_config = ConfigDict(json_schema_extra=cel(v1beta2.borrowing_needs("cohort"), ONE_LIST_OF_CHECKS))

    cohort: Name | None = None
    """
    The cohort in which this queue lends and borrows unused quota. The Cohort object is optional. Unset: neither
    lends nor borrows.
    """

    flavor_fungibility: Annotated[FlavorFungibility | None, DEFAULT_EMPTY] = Field(default_factory=FlavorFungibility)
    """When to try the next flavor before borrowing or preempting in this one."""

    admission_checks: Annotated[list[CheckName], Field(max_length=64), ATOMIC] | None = None
    """Checks that every workload needs between quota reservation and admission. Not with admissionChecksStrategy."""

    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """Checks between quota reservation and admission. Not with admissionChecks."""


class PendingWorkload(ApiModel):
    """A pending workload."""

    name: str
    """Its name."""

    namespace: str
    """Its namespace."""


class PendingWorkloadsStatus(ApiModel):
    """The first pending workloads. Nothing writes it; the visibility API has the whole queue."""

    cluster_queue_pending_workload: Annotated[list[PendingWorkload], ATOMIC] | None = None
    """The first pending workloads."""

    last_change_time: Time
    """When the list last changed."""


class ClusterQueueStatus(v1beta2.ClusterQueueStatus):
    """The observed state of a ClusterQueue."""

    pending_workloads_status: PendingWorkloadsStatus | None = None
    """Nothing writes it; the visibility API has the whole queue."""


class ClusterQueue(v1beta2.ClusterQueue):
    """A pool of quota for the workloads of the namespaces it selects."""

    columns: ClassVar[tuple[PrinterColumn, ...]] = v1beta2.cluster_queue_columns("cohort")

    spec: ClusterQueueSpec | None = None  # type: ignore[assignment]
    """Quota and policies."""

    status: ClusterQueueStatus | None = None
    """The observed state of the queue."""

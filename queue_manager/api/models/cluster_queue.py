"""ClusterQueue: quota, and the rules by which it is assigned to workloads."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from queue_manager.api.models.base import (
    DEFAULT_EMPTY,
    SET,
    ApiModel,
    CelRule,
    CheckName,
    CustomKind,
    Int32,
    Name,
    PrinterColumn,
    Quantity,
    cel,
    list_map,
)
from queue_manager.api.models.common import (
    AdmissionScope,
    Conditions,
    FairSharing,
    FairSharingStatus,
    LabelSelector,
    StopPolicy,
)
from queue_manager.api.models.quota import ResourceGroups

BORROWING_WITHOUT_COHORT = "borrowingLimit must be nil when cohort is empty"
RECLAIM_NEVER = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
PREFERENCE_NEEDS_BOTH = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"


class FungibilityPreference(ApiModel):
    """What flavor fungibility has in both versions."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "!has(self.preference) || self.whenCanBorrow == 'TryNextFlavor'"
                " && self.whenCanPreempt == 'TryNextFlavor'",
                PREFERENCE_NEEDS_BOTH,
            )
        )
    )

    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None
    """
    Which to prefer when every flavor needs borrowing, preemption or both. Unset is BorrowingOverPreemption.
    Only with TryNextFlavor for both other policies.
    """


class FlavorFungibility(FungibilityPreference):
    """When to try the next flavor before borrowing or preempting in this one."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    """MayStopSearch takes a flavor in which the workload fits by borrowing; TryNextFlavor tries the next."""

    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    """MayStopSearch takes a flavor in which the workload fits after preemption; TryNextFlavor tries the next."""


class BorrowWithinCohort(ApiModel):
    """Preemption in other ClusterQueues for a workload that borrows. Not with fair sharing."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    """LowerPriority allows it against workloads of lower priority."""

    max_priority_threshold: Int32 | None = None
    """Only workloads with at most this priority may be preempted. Unset: all that the policy allows."""


class ClusterQueuePreemption(ApiModel):
    """Which workloads a pending workload may evict when it does not fit."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            CelRule(
                "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort)"
                " && self.borrowWithinCohort.policy != 'Never')",
                RECLAIM_NEVER,
            )
        )
    )

    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Workloads of other ClusterQueues of the cohort that borrow, when this one stays within its nominal quota."""

    borrow_within_cohort: Annotated[BorrowWithinCohort | None, DEFAULT_EMPTY] = Field(
        default_factory=BorrowWithinCohort
    )
    """Workloads of other ClusterQueues of the cohort, even though this one borrows."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Workloads of this ClusterQueue of lower priority, or also newer ones of equal priority."""


class AdmissionCheckStrategyRule(ApiModel):
    """One check and the flavors it is for."""

    name: CheckName
    """The AdmissionCheck."""

    on_flavors: Annotated[list[Name], Field(max_length=64), SET] | None = None
    """Flavors of this ClusterQueue for which the check is needed. Empty: for every workload."""


class AdmissionChecksStrategy(ApiModel):
    """The checks of a ClusterQueue."""

    admission_checks: Annotated[list[AdmissionCheckStrategyRule], Field(min_length=1, max_length=64), list_map("name")]
    """All that must be Ready before a workload with quota is admitted."""


class ConcurrentAdmissionConstraints(ApiModel):
    """Which flavors a workload may migrate to."""

    last_acceptable_flavor_name: Name | None = None
    """The last flavor, in the order of the ClusterQueue, that a workload may migrate to."""


class ConcurrentAdmissionMigration(ApiModel):
    """Migration to a preferred flavor."""

    mode: Literal["TryPreferredFlavors", "RetainFirstAdmission"]
    """TryPreferredFlavors keeps trying better flavors after admission; RetainFirstAdmission does not."""

    constraints: ConcurrentAdmissionConstraints | None = None
    """Which flavors a workload may migrate to."""


class ConcurrentAdmissionPolicy(ApiModel):
    """Trying several flavors at the same time."""

    migration: ConcurrentAdmissionMigration
    """What happens once a better flavor becomes free."""


def borrowing_needs(cohort: str) -> CelRule:
    """The rule that borrowing limits need a cohort, with the name that the cohort's field has in a version."""
    return CelRule(
        f"has(self.{cohort}) || !has(self.resourceGroups) || self.resourceGroups.all(rg,"
        " rg.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
        BORROWING_WITHOUT_COHORT,
    )


class ClusterQueueFields(ApiModel):
    """What the spec of a ClusterQueue has in both versions."""

    resource_groups: ResourceGroups | None = None
    """The quota of this queue, at most 16 groups of resources."""

    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """
    Workloads are ordered by priority, then by time. StrictFIFO: one that does not fit blocks all later ones.
    BestEffortFIFO: later ones that fit are admitted first.
    """

    namespace_selector: LabelSelector | None = None
    """Namespaces whose workloads may use this queue. Unset: none. {}: all."""

    preemption: Annotated[ClusterQueuePreemption | None, DEFAULT_EMPTY] = Field(default_factory=ClusterQueuePreemption)
    """Which workloads a pending workload may evict when it does not fit."""

    stop_policy: StopPolicy | None = "None"
    """
    None: workloads are admitted. Hold: no new admissions and reservations are cancelled; running workloads
    continue. HoldAndDrain: running workloads are evicted as well.
    """

    fair_sharing: FairSharing | None = None
    """Weight in the cohort, when fair sharing is configured."""

    admission_scope: AdmissionScope | None = None
    """Whether the LocalQueues of this queue are ordered by their past usage."""


class ClusterQueueSpec(ClusterQueueFields):
    """Quota and policies."""

    model_config = ConfigDict(json_schema_extra=cel(borrowing_needs("cohortName")))

    cohort_name: Name | None = None
    """
    The cohort in which this queue lends and borrows unused quota. The Cohort object is optional. Unset: neither
    lends nor borrows.
    """

    flavor_fungibility: Annotated[FlavorFungibility | None, DEFAULT_EMPTY] = Field(default_factory=FlavorFungibility)
    """When to try the next flavor before borrowing or preempting in this one."""

    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """Checks between quota reservation and admission."""

    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None
    """Trying several flavors at the same time. Immutable."""


class ResourceUsage(ApiModel):
    """Usage of one resource."""

    name: str
    """The resource."""

    total: Quantity | None = None
    """The quota in use, borrowed quota included."""

    borrowed: Quantity | None = None
    """The quota in use above the nominal quota."""


class FlavorUsage(ApiModel):
    """Usage in one flavor."""

    name: Name
    """The flavor."""

    resources: Annotated[list[ResourceUsage], Field(max_length=64), list_map("name")]
    """Usage per resource."""


FlavorUsages = Annotated[list[FlavorUsage], Field(max_length=64), list_map("name")]


class ClusterQueueStatus(ApiModel):
    """The observed state of a ClusterQueue."""

    conditions: Conditions | None = None
    """Active: whether the queue can admit workloads, and why not."""

    flavors_reservation: FlavorUsages | None = None
    """Quota reserved by workloads, per flavor."""

    flavors_usage: FlavorUsages | None = None
    """Quota used by admitted workloads, per flavor."""

    pending_workloads: Int32 | None = None
    """Workloads that are pending for quota."""

    reserving_workloads: Int32 | None = None
    """Workloads that hold quota and are not finished."""

    admitted_workloads: Int32 | None = None
    """Workloads that are admitted and not finished."""

    fair_sharing: FairSharingStatus | None = None
    """The state of fair sharing, when it is configured."""


def cluster_queue_columns(cohort: str) -> tuple[PrinterColumn, ...]:
    """Return the printer columns of a version, in which the field of the cohort is called `cohort`."""
    return (
        PrinterColumn("Cohort", f".spec.{cohort}", "string", "Cohort that this ClusterQueue belongs to"),
        PrinterColumn(
            "Strategy",
            ".spec.queueingStrategy",
            "string",
            "The queueing strategy used to prioritize workloads",
            priority=1,
        ),
        PrinterColumn("Pending Workloads", ".status.pendingWorkloads", "integer", "Number of pending workloads"),
        PrinterColumn(
            "Admitted Workloads",
            ".status.admittedWorkloads",
            "integer",
            "Number of admitted workloads that haven't finished yet",
            priority=1,
        ),
    )


class ClusterQueue(CustomKind):
    """A pool of quota for the workloads of the namespaces it selects."""

    plural: ClassVar[str] = "clusterqueues"
    short_names: ClassVar[tuple[str, ...]] = ("cq",)
    columns: ClassVar[tuple[PrinterColumn, ...]] = cluster_queue_columns("cohortName")

    spec: ClusterQueueSpec | None = None
    """Quota and policies."""

    status: ClusterQueueStatus | None = None
    """The observed state of the queue."""

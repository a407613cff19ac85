"""Kueue's feature gates (pkg/features): their names, which of them are locked, and which depend on others.

One gate has an effect in Sluice, DisableWaitForPodsReady. The others are accepted and listed as ignored: features that
are on by default in Kueue and that Sluice has are always on.
"""

from __future__ import annotations

from collections.abc import Mapping

DISABLE_WAIT_FOR_PODS_READY = "DisableWaitForPodsReady"
TOPOLOGY = "TopologyAwareScheduling"
MULTIKUEUE = "MultiKueue"

LOCKED = {
    "ManagedJobsNamespaceSelectorAlwaysRespected": True,
    "TLSOptions": True,
}

TOPOLOGY_GATES = frozenset(
    {
        "ElasticJobsViaWorkloadSlicesWithTAS",
        "TASBalancedPlacement",
        "TASCacheTopologyTree",
        "TASExactTopologyDistribution",
        "TASFailedNodeReplacement",
        "TASFailedNodeReplacementFailFast",
        "TASHandleOverlappingFlavors",
        "TASMultiLayerTopology",
        "TASPartialSlices",
        "TASProfileLeastFreeCapacity",
        "TASProfileMixed",
        "TASRecomputeAssignmentWithinSchedulingCycle",
        "TASReplaceNodeOnNodeTaints",
        "TASReplaceNodeOnPodTermination",
        "TASValidateWorkloadSliceSize",
    }
)
MULTIKUEUE_GATES = frozenset(
    {
        "MultiKueueAdaptersForCustomJobs",
        "MultiKueueAllowInsecureKubeconfigs",
        "MultiKueueBatchJobWithManagedBy",
        "MultiKueueClusterProfile",
        "MultiKueueIncrementalDispatcherConfig",
        "MultiKueueManagerQuotaAutomation",
        "MultiKueueOrchestratedPreemption",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueWaitForWorkloadAdmitted",
    }
)
OTHER_GATES = frozenset(
    {
        "AdmissionFairSharing",
        "AdmissionGatedBy",
        "AssignQueueLabelsForPods",
        "CleanupProvisioningRequestsOnEviction",
        "ConcurrentAdmission",
        "ConfigurableResourceTransformations",
        "CustomMetricLabels",
        "DynamicResourceAllocation",
        "ElasticJobsViaWorkloadSlices",
        "FailureRecoveryPolicy",
        "FairSharingPreemptWithinNominal",
        "FairSharingPrioritizeNonBorrowing",
        "FinishOrphanedWorkloads",
        "FlavorFungibility",
        "FlavorFungibilityImplicitPreferenceDefault",
        "FlavorFungibilityPreserveScanProgress",
        "HierarchicalCohorts",
        "KueueDRAConsumableCapacity",
        "KueueDRAIntegration",
        "KueueDRAIntegrationConsumableCapacity",
        "KueueDRAIntegrationExtendedResource",
        "KueueDRAIntegrationPartitionableDevices",
        "LWSImmutableGroupSize",
        "LendingLimit",
        "LocalQueueDefaulting",
        "LocalQueueMetrics",
        "MetricForWorkloadCreationLatency",
        "MetricsForCohorts",
        "ObjectRetentionPolicies",
        "PartialAdmission",
        "PriorityBoost",
        "PrioritizePreemptorWorkloads",
        "PrioritySortingWithinCohort",
        "PropagateBatchJobLabelsToWorkload",
        "QuotaCheckStrategy",
        "ReclaimablePods",
        "RecomputeAssignmentUponPreemptionTargetsOverlap",
        "RejectUpdatesToCQWithInvalidOnFlavors",
        "RemoveFinalizersWithStrictPatch",
        "SanitizePodSets",
        "SchedulerLibraryIntegration",
        "SchedulingEquivalenceHashing",
        "ShortWorkloadNames",
        "SparkApplicationIntegration",
        "UnadmittedWorkloadsExplicitStatus",
        "UnadmittedWorkloadsObservability",
        "ValidateRayAndSparkJobUpdates",
        "VisibilityOnDemand",
        "WorkloadIdentifierAnnotations",
        "WorkloadPriorityClassDefaulting",
        "WorkloadRequestUseMergePatch",
        "WorkloadValidateResourcesAreNonNegative",
        "WorkloadValidationForPodSetMetadata",
    }
)
KNOWN = TOPOLOGY_GATES | MULTIKUEUE_GATES | OTHER_GATES | set(LOCKED)
KNOWN |= {TOPOLOGY, MULTIKUEUE, DISABLE_WAIT_FOR_PODS_READY}

PARENTS = dict.fromkeys(TOPOLOGY_GATES, TOPOLOGY) | dict.fromkeys(MULTIKUEUE_GATES, MULTIKUEUE)


def refusal(gate: str, value: bool, gates: Mapping[str, bool]) -> str:
    """Why a gate cannot have this value; empty if it can."""
    if gate not in KNOWN:
        return "unrecognized feature gate"
    if LOCKED.get(gate, value) != value:
        return f"cannot be set to {str(value).lower()}; it is locked to {str(LOCKED[gate]).lower()}"
    parent = PARENTS.get(gate)
    if value and parent and not gates.get(parent, True):
        return f"is enabled, but depends on {parent}, which is disabled"
    return ""


def waits_for_pods_ready(gates: Mapping[str, bool]) -> bool:
    """Whether the gates allow waitForPodsReady to be on."""
    return not gates.get(DISABLE_WAIT_FOR_PODS_READY, False)

"""Reasons of conditions of Workloads and queues, as Kueue names them; Sluice's own are marked."""

from __future__ import annotations

# --- QuotaReserved=False: why a Workload is pending ---------------------------------------------------------
NO_MATCHING_FLAVOR = "NoMatchingFlavor"
WAITING_FOR_QUOTA = "WaitingForQuota"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
WAITING_FOR_PODS_READY = "WaitingForPodsReady"
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
PENDING_EVALUATION = "PendingEvaluation"
ADMISSION_GATED = "AdmissionGated"
DEACTIVATED = "Deactivated"

# --- the other conditions of a Workload --------------------------------------------------------------------
NO_RESERVATION = "NoReservation"
UNSATISFIED_CHECKS = "UnsatisfiedAdmissionChecks"
WAIT_FOR_START = "WaitForStart"
WAIT_FOR_RECOVERY = "WaitForRecovery"
STARTED = "Started"
RECOVERED = "Recovered"
PODS_READY_TIMEOUT = "PodsReadyTimeout"
ADMISSION_CHECK = "AdmissionCheck"
NODE_FAILURES = "NodeFailures"
CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
EVICTED_DUE_TO = "EvictedDueTo"  # prefix of the Event's reason
DEACTIVATED_DUE_TO = "DeactivatedDueTo"  # prefix, followed by the cause if it was not a user
REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
UNSCHEDULABLE = "Unschedulable"  # Sluice's own: cause of a PodsReadyTimeout if no node could take a pod
MAX_EXEC_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
BACKOFF_FINISHED = "BackoffFinished"
REACTIVATED = "Reactivated"
CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
FAILED_TO_START = "FailedToStart"
OUT_OF_SYNC = "OutOfSync"
OWNER_NOT_FOUND = "OwnerNotFound"

# --- Preempted: which rule chose the victim ----------------------------------------------------------------
IN_CLUSTER_QUEUE = "InClusterQueue"
IN_COHORT_RECLAMATION = "InCohortReclamation"
IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
IN_COHORT_FAIR_SHARING = "InCohortFairSharing"

# --- Active condition of queues ----------------------------------------------------------------------------
READY = "Ready"
TERMINATING = "Terminating"
STOPPED = "Stopped"
FLAVOR_NOT_FOUND = "FlavorNotFound"
ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
COHORT_CYCLE_DETECTED = "CohortCycleDetected"
CLUSTER_QUEUE_MISSING = "ClusterQueueDoesNotExist"
CLUSTER_QUEUE_INACTIVE = "ClusterQueueIsInactive"
HEAD_NEVER_FITS = "HeadNeverFits"
FIELDS_WITHOUT_EFFECT = "FieldsWithoutEffect"  # Sluice's own: reason of the condition Unsupported, and of Events

# --- events ------------------------------------------------------------------------------------------------


def deactivated_due_to(cause: str) -> str:
    """The reason of an eviction by deactivation; `cause` "": a user deactivated the Workload."""
    return f"{DEACTIVATED_DUE_TO}{cause}" if cause else DEACTIVATED


ADMITTED = "Admitted"
PREEMPTED = "Preempted"
QUOTA_RESERVED = "QuotaReserved"

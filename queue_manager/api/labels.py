"""Names that other programs match on: labels, annotations, finalizers, conditions, reasons, messages.

All of it is API (spec: kueue.md sections 3, 4 and 7): dashboards, alerts and kubectl plugins compare these
strings. Messages with holes are functions or format strings beside their reason.
"""

from __future__ import annotations

GROUP = "kueue.x-k8s.io"
API_VERSION = "kueue.x-k8s.io/v1beta2"

# --- on Jobs -----------------------------------------------------------------------------------------------
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
TRUE_TEXTS = ("1", "t", "T", "TRUE", "true", "True")  # what strconv.ParseBool takes for true
COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
STOPPING = "kueue.x-k8s.io/stopping"
DEFAULT_NAME = "default"  # the LocalQueue and the WorkloadPriorityClass given to Jobs that name none

PODS_READY_TIMEOUT_OVERRIDE = "sluice/pods-ready-timeout"  # on Workloads as well, as the next
REQUEUING_LIMIT_OVERRIDE = "sluice/requeuing-limit"

# --- on Workloads ------------------------------------------------------------------------------------------
JOB_UID = "kueue.x-k8s.io/job-uid"
PROVREQ_PREFIX = "provreq.kueue.x-k8s.io/"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
PASS_BY = "sluice/pass-by-never-fitting-head"  # on a StrictFIFO ClusterQueue: "true"
PARALLELISM = "sluice/parallelism"  # on a Job that runs with fewer pods: what its user had set
DEACTIVATED_FOR = "sluice/deactivated-for"  # on a Workload that we deactivated: the time of its DeactivationTarget
SEQUENCE = "sluice/sequence"  # order of arrival among Workloads created in the same second

# --- on pod templates of running Jobs ----------------------------------------------------------------------
PODSET = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_NAME = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_NAME = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD = "kueue.x-k8s.io/workload"
POD_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
CONTROLLER_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
JOB_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")

# --- condition types ---------------------------------------------------------------------------------------
QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
FINISHED = "Finished"
PODS_READY = "PodsReady"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
REQUEUED = "Requeued"
DEACTIVATION_TARGET = "DeactivationTarget"
BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
ACTIVE = "Active"  # of queues

# --- QuotaReserved=False: why a Workload waits -------------------------------------------------------------
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

PENDING_EVALUATION_MESSAGE = "Workload is pending evaluation in the scheduling queue"
EQUIVALENT_MESSAGE = "Bypassed scheduling evaluation because an equivalent workload recently failed"
NO_LONGER_FITS_MESSAGE = "Workload no longer fits after processing another workload"
WAITING_FOR_PODS_READY_MESSAGE = "waiting for all admitted workloads to be in PodsReady condition"
NAMESPACE_MISMATCH_MESSAGE = "workload namespace doesn't match ClusterQueue selector"
GATE_CLEARED_MESSAGE = "AdmissionGatedBy cleared, waiting for quota reservation"

# --- the other conditions of a Workload --------------------------------------------------------------------
NO_RESERVATION = "NoReservation"
NO_RESERVATION_MESSAGE = "The workload has no reservation"
ADMITTED_MESSAGE = "The workload is admitted"
UNSATISFIED_CHECKS = "UnsatisfiedAdmissionChecks"
UNSATISFIED_CHECKS_MESSAGE = "The workload has not all checks ready"

WAIT_FOR_START = "WaitForStart"
WAIT_FOR_START_MESSAGE = "Not all pods are ready or succeeded"
WAIT_FOR_RECOVERY = "WaitForRecovery"
WAIT_FOR_RECOVERY_MESSAGE = "At least one pod has failed, waiting for recovery"
STARTED = "Started"
RECOVERED = "Recovered"
PODS_READY_MESSAGE = "All pods reached readiness and the workload is running"

PODS_READY_TIMEOUT = "PodsReadyTimeout"
ADMISSION_CHECK = "AdmissionCheck"
NODE_FAILURES = "NodeFailures"
CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
CLUSTER_QUEUE_STOPPED_MESSAGE = "The ClusterQueue is stopped"
LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
LOCAL_QUEUE_STOPPED_MESSAGE = "The LocalQueue is stopped"
EVICTED_DUE_TO = "EvictedDueTo"  # and the reason: that of the Event
DEACTIVATED_DUE_TO = "DeactivatedDueTo"  # and the cause, where it was not a user
DEACTIVATED_MESSAGE = "The workload is deactivated"
REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
REQUEUING_LIMIT_MESSAGE = "exceeding the maximum number of re-queuing retries"
REQUEUING_TIME_MESSAGE = "exceeding the maximum time of re-queuing retries"
UNSCHEDULABLE = "Unschedulable"  # ours: the cause of a PodsReadyTimeout where no node could take a pod
MAX_EXEC_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
MAX_EXEC_TIME_MESSAGE = "exceeding the maximum execution time"

BACKOFF_FINISHED = "BackoffFinished"
BACKOFF_FINISHED_MESSAGE = "The workload backoff was finished"
REACTIVATED = "Reactivated"
REACTIVATED_MESSAGE = "The workload was reactivated"
CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
CLUSTER_QUEUE_RESTARTED_MESSAGE = "The ClusterQueue was restarted after being stopped"
LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"
LOCAL_QUEUE_RESTARTED_MESSAGE = "The LocalQueue was restarted after being stopped"

SUCCEEDED = "Succeeded"
FAILED = "Failed"
FAILED_TO_START = "FailedToStart"
OUT_OF_SYNC = "OutOfSync"
OUT_OF_SYNC_MESSAGE = "The prebuilt workload is out of sync with its user job"
OWNER_NOT_FOUND = "OwnerNotFound"
OWNER_NOT_FOUND_MESSAGE = "The workload's owner no longer exists"

# --- Active condition of queues ----------------------------------------------------------------------------
READY = "Ready"
CLUSTER_QUEUE_READY_MESSAGE = "Can admit new workloads"
TERMINATING = "Terminating"
TERMINATING_MESSAGE = "Can't admit new workloads; clusterQueue is terminating"
STOPPED = "Stopped"
FLAVOR_NOT_FOUND = "FlavorNotFound"
ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
LOCAL_QUEUE_READY_MESSAGE = "Can submit new workloads to localQueue"
LOCAL_QUEUE_IS_STOPPED_MESSAGE = "LocalQueue is stopped"
CLUSTER_QUEUE_MISSING = "ClusterQueueDoesNotExist"
CLUSTER_QUEUE_INACTIVE = "ClusterQueueIsInactive"
CLUSTER_QUEUE_UNUSABLE_MESSAGE = "Can't submit new workloads to clusterQueue"

BLOCKED = "Blocked"  # ours: condition of a ClusterQueue
HEAD_NEVER_FITS = "HeadNeverFits"
UNSUPPORTED = "Unsupported"  # ours: condition of a ClusterQueue
FIELDS_WITHOUT_EFFECT = "FieldsWithoutEffect"  # ours: reason of that condition, and of Events
STOP_NONE = "None"
HOLD = "Hold"
HOLD_AND_DRAIN = "HoldAndDrain"
STRICT_FIFO = "StrictFIFO"

# --- events ------------------------------------------------------------------------------------------------
JOB_COMPONENT = "batch/job-kueue-controller"
SCHEDULER_COMPONENT = "kueue-admission"
WORKLOAD_COMPONENT = "kueue-workload-controller"

CREATED_WORKLOAD = "CreatedWorkload"
UPDATED_WORKLOAD = "UpdatedWorkload"
DELETED_WORKLOAD = "DeletedWorkload"
FINISHED_WORKLOAD = "FinishedWorkload"
JOB_STARTED = "Started"
JOB_STOPPED = "Stopped"
INVALID_OVERRIDE = "InvalidOverride"  # ours
QUEUEING_REFUSED = "QueueingRefused"  # ours: what the queue has to write for a Job is not accepted
PRIORITY_CLASS_NOT_FOUND = "WorkloadPriorityClassNotFound"
ADMISSION_CHECK_REJECTED = "AdmissionCheckRejected"
UPDATED_ADMISSION_CHECK = "UpdatedAdmissionCheck"
CHILD_SUSPENDED = "Suspended"
CHILD_SUSPENDED_MESSAGE = "Kueue managed child job suspended"
JOB_NESTING_TOO_DEEP = "JobNestingTooDeep"
NEVER_FITS = "NeverFits"  # ours: the head of a StrictFIFO ClusterQueue blocks it for ever
ADMISSION_GATE_CLEARED = "AdmissionGateCleared"
ADMISSION_GATE_CLEARED_MESSAGE = "Admission gate cleared, workload is now admissible"

STOP_NOT_ADMITTED = "Not admitted by cluster queue"
STOP_WORKLOAD_DELETED = "Workload is deleted"
STOP_NO_MATCH = "No matching Workload; restoring pod templates according to existent Workload"
STOP_MISSING_PREBUILT = "missing workload"
STOP_MISSING = "Missing Workload; unable to restore pod templates"


def quota_reserved(cluster_queue: str) -> str:
    return f"Quota reserved in ClusterQueue {cluster_queue}"


def previously(message: str) -> str:
    return f"Previously: {message}"


def insufficient_unused(resource: str, flavor: str, missing: str) -> str:
    return f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"


def insufficient_capacity(resource: str, flavor: str, previous: str, current: str, maximum: str) -> str:
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
        f"({previous}) + current podset request ({current}) > maximum capacity ({maximum})"
    )


def pods_ready_timeout(workload: str) -> str:
    return f"Exceeded the PodsReady timeout {workload}"


NO_NODE = "no node could take"


def pods_unschedulable(pods: int, message: str) -> str:
    """What is added to the message of a timeout."""
    text = f"{NO_NODE} {pods} of its pods" if pods > 1 else f"{NO_NODE} one of its pods"
    return f"{text}: {message}" if message else text


def deactivated_due_to(cause: str) -> str:
    """The reason of an eviction by deactivation: bare Deactivated where a user did it, who names no cause."""
    return f"{DEACTIVATED_DUE_TO}{cause}" if cause else DEACTIVATED


def deactivated_message(cause: str) -> str:
    return f"{DEACTIVATED_MESSAGE} due to {cause}" if cause else DEACTIVATED_MESSAGE


def max_exec_time_exceeded(seconds: int) -> str:
    return f"The maximum execution time ({seconds}s) exceeded"

"""Messages of conditions and Events, with Kueue's texts. Texts with parameters are functions."""

from __future__ import annotations

import re

from queue_manager.api import reasons

# --- QuotaReserved=False: why a Workload is pending ---------------------------------------------------------
PENDING_EVALUATION_MESSAGE = "Workload is pending evaluation in the scheduling queue"
EQUIVALENT_MESSAGE = "Bypassed scheduling evaluation because an equivalent workload recently failed"
NO_LONGER_FITS_MESSAGE = "Workload no longer fits after processing another workload"
OVERLAPPING_TARGETS_MESSAGE = "Workload has overlapping preemption targets with another workload"
WILL_FIT_MESSAGE = f"{OVERLAPPING_TARGETS_MESSAGE}, but will fit after these preemptions complete"
KEPT_FOR_HEAD_MESSAGE = (  # Sluice's own
    "Quota is kept for a workload that is ordered before it. One that declares a short execution time may pass it"
)
KEPT_FOR_FIRST_MESSAGE = (  # Sluice's own
    "Quota is kept for the first workload of another ClusterQueue, which is StrictFIFO"
)
KEPT_MESSAGES = (KEPT_FOR_HEAD_MESSAGE, KEPT_FOR_FIRST_MESSAGE)
WAITING_FOR_PODS_READY_MESSAGE = "waiting for all admitted workloads to be in PodsReady condition"
NAMESPACE_MISMATCH_MESSAGE = "workload namespace doesn't match ClusterQueue selector"
COULD_NOT_ASSIGN = "couldn't assign flavors to pod set"  # its name and the reasons follow
GATE_CLEARED_MESSAGE = "AdmissionGatedBy cleared, waiting for quota reservation"

# --- the other conditions of a Workload --------------------------------------------------------------------
NO_RESERVATION_MESSAGE = "The workload has no reservation"
ADMITTED_MESSAGE = "The workload is admitted"
UNSATISFIED_CHECKS_MESSAGE = "The workload has not all checks ready"
WAIT_FOR_START_MESSAGE = "Not all pods are ready or succeeded"
WAIT_FOR_RECOVERY_MESSAGE = "At least one pod has failed, waiting for recovery"
PODS_READY_MESSAGE = "All pods reached readiness and the workload is running"
CLUSTER_QUEUE_STOPPED_MESSAGE = "The ClusterQueue is stopped"
LOCAL_QUEUE_STOPPED_MESSAGE = "The LocalQueue is stopped"
DEACTIVATED_MESSAGE = "The workload is deactivated"
REQUEUING_LIMIT_MESSAGE = "exceeding the maximum number of re-queuing retries"
REQUEUING_TIME_MESSAGE = "exceeding the maximum time of re-queuing retries"
MAX_EXEC_TIME_MESSAGE = "exceeding the maximum execution time"
BACKOFF_FINISHED_MESSAGE = "The workload backoff was finished"
REACTIVATED_MESSAGE = "The workload was reactivated"
CLUSTER_QUEUE_RESTARTED_MESSAGE = "The ClusterQueue was restarted after being stopped"
LOCAL_QUEUE_RESTARTED_MESSAGE = "The LocalQueue was restarted after being stopped"
OUT_OF_SYNC_MESSAGE = "The prebuilt workload is out of sync with its user job"
OWNER_NOT_FOUND_MESSAGE = "The workload's owner no longer exists"

# --- Active condition of queues ----------------------------------------------------------------------------
CLUSTER_QUEUE_READY_MESSAGE = "Can admit new workloads"
TERMINATING_MESSAGE = "Can't admit new workloads; clusterQueue is terminating"
LOCAL_QUEUE_READY_MESSAGE = "Can submit new workloads to localQueue"
LOCAL_QUEUE_IS_STOPPED_MESSAGE = "LocalQueue is stopped"
CLUSTER_QUEUE_UNUSABLE_MESSAGE = "Can't submit new workloads to clusterQueue"

# --- events ------------------------------------------------------------------------------------------------
CHILD_SUSPENDED_MESSAGE = "Kueue managed child job suspended"
ADMISSION_GATE_CLEARED_MESSAGE = "Admission gate cleared, workload is now admissible"
STOP_NOT_ADMITTED = "Not admitted by cluster queue"
STOP_WORKLOAD_DELETED = "Workload is deleted"
STOP_NO_MATCH = "No matching Workload; restoring pod templates according to existent Workload"
STOP_MISSING_PREBUILT = "missing workload"
STOP_MISSING = "Missing Workload; unable to restore pod templates"
NOT_SUSPENDED_WITHOUT_ADMISSION = (  # Sluice's own
    "The Job was unsuspended while its Workload was not admitted, and is suspended again; the queue starts it"
)

# --- refusals of Jobs ----------------------------------------------------------------------------------------
CLASS_ADDED_TO_RUNNING = "WorkloadPriorityClass cannot be added to a non-suspended workload"
CLASS_REMOVED = "WorkloadPriorityClass cannot be removed from a workload"


def class_not_found(name: str) -> str:
    """The message of the Event about a Job whose priority class does not exist."""
    return f'WorkloadPriorityClass "{name}" not found'


def missing_class(message: str) -> str:
    """The name that the message of `class_not_found` contains; "" if it is another message."""
    name = message.removeprefix('WorkloadPriorityClass "').removesuffix('" not found')
    return name if message == class_not_found(name) else ""


UNKNOWN = "UNKNOWN"  # an id that is not known


def does_not_exist(kind: str, name: str) -> str:
    """The message about a missing queue; `kind` is LocalQueue or ClusterQueue."""
    return f"{kind} {name} doesn't exist"


def is_inactive(kind: str, name: str) -> str:
    """The message about a queue that is stopped or cannot admit; `kind` is LocalQueue or ClusterQueue."""
    return f"{kind} {name} is inactive"


def quota_reserved(cluster_queue: str) -> str:
    """The message of QuotaReserved=True, with which its Event begins."""
    return f"Quota reserved in ClusterQueue {cluster_queue}"


def previously(message: str) -> str:
    """The message of Evicted and Preempted once quota is reserved again."""
    return f"Previously: {message}"


def kept_in_flavor(flavor: str) -> str:
    """The free quota of this flavor is kept for a head by backfilling. Sluice's own."""
    return f"free quota in flavor {flavor} is kept for a workload that is ordered before it"


def insufficient_unused(resource: str, flavor: str, missing: str) -> str:
    """The message of the reason WaitingForQuota. `missing` is a quantity."""
    return f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"


def insufficient_capacity(resource: str, flavor: str, previous: str, current: str, maximum: str) -> str:
    """The message of the reason ExceedsMaxQuota. `previous`, `current` and `maximum` are quantities."""
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
        f"({previous}) + current podset request ({current}) > maximum capacity ({maximum})"
    )


def pending_preemption(message: str, victims: int) -> str:
    """The message of WaitingForPreemptedWorkloads. `message`: why the Workload does not fit beside its victims."""
    return f"{message}. Pending the preemption of {victims} workload(s)"


def pods_ready_timeout(workload: str) -> str:
    """The message of an eviction by PodsReadyTimeout. `workload` is namespace/name."""
    return f"Exceeded the PodsReady timeout {workload}"


_PREEMPTION_RULES = {
    reasons.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    reasons.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    reasons.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    reasons.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


_PREEMPTOR = re.compile(r"Preempted to accommodate a workload \(UID: ([^,)]+), JobUID: ")


def preempted(uid: str, job_uid: str, reason: str, preemptor_path: str, victim_path: str) -> str:
    """The message of the conditions Evicted and Preempted of a victim. `uid`, `job_uid`: those of the preemptor."""
    return (
        f"Preempted to accommodate a workload (UID: {uid or UNKNOWN}, JobUID: {job_uid or UNKNOWN}) "
        f"due to {_PREEMPTION_RULES.get(reason, UNKNOWN)}; "
        f"preemptor path: {preemptor_path}; preemptee path: {victim_path}"
    )


def is_preemption(message: str) -> bool:
    """Whether the message is one of `preempted`."""
    return _PREEMPTOR.match(message) is not None


def preemptor_uid(message: str) -> str:
    """Return the UID of the preemptor's Workload from a message of `preempted`; "" if it has none."""
    found = _PREEMPTOR.match(message)
    return found[1] if found is not None and found[1] != UNKNOWN else ""


def preemption_priorities(preemptor: int, victim: int) -> str:
    """The end of the Events of a preemption: both priorities. A Workload has no boost, so its base is its priority."""
    return (
        f"preemptor effective priority: {preemptor} (base: {preemptor}, boost: 0); "
        f"preemptee effective priority: {victim} (base: {victim}, boost: 0)"
    )


MAX_CAUSE = 316  # characters of a cause in status.requeueHistory, by the CRD


def needed_by(cluster_queue: str, priority: int, reason: str, victims_queue: str) -> str:
    """Who needed the quota of a victim: the words after "preempted" that the victim's user reads (Sluice's own).

    `reason`: of the condition Preempted. Where the victim's ClusterQueue had borrowed, the text says so, unless the
    names are too long for that.
    """
    who, by_priority = f"ClusterQueue {cluster_queue}", f"for priority {priority} of ClusterQueue {cluster_queue}"
    borrowed = f"quota that {victims_queue} had borrowed"
    texts = {
        reasons.IN_COHORT_RECLAMATION: f"for {who}, to take back {borrowed}",
        reasons.IN_COHORT_FAIR_SHARING: f"for {who}, to give it its fair share of {borrowed}",
        reasons.IN_COHORT_RECLAIM_WHILE_BORROWING: f"{by_priority}, which needed {borrowed}",
    }
    text = texts.get(reason, by_priority)
    return text if len(text) <= MAX_CAUSE else by_priority


def preempted_workload(victim: str, uid: str, cluster_queue: str) -> str:
    """The Event on the preemptor. `victim` is namespace/name, or "" if the reader may not see it."""
    return f"Preempted workload {f'{victim} ' if victim else ''}(UID: {uid or UNKNOWN}) in ClusterQueue {cluster_queue}"


NO_NODE = "no node could take"


def pods_unschedulable(pods: int, message: str) -> str:
    """The part of a timeout's message about `pods` pods that no node could take; Kueue has no such text.

    `message`: what the scheduler says about the first of them.
    """
    text = f"{NO_NODE} {pods} of its pods" if pods > 1 else f"{NO_NODE} one of its pods"
    return f"{text}: {message}" if message else text


def deactivated_message(cause: str) -> str:
    """The message of an eviction by a deactivation; `cause` "": a user deactivated the Workload."""
    return f"{DEACTIVATED_MESSAGE} due to {cause}" if cause else DEACTIVATED_MESSAGE


def max_exec_time_exceeded(seconds: int) -> str:
    """The message of the Event when maximumExecutionTimeSeconds is exceeded."""
    return f"The maximum execution time ({seconds}s) exceeded"


# --- why a Job was deleted, in the history -------------------------------------------------------------------
RETENTION_OVER = "objectRetentionPolicies.workloads.afterDeactivatedByKueue has passed"


def ttl_over(seconds: int) -> str:
    """Why a finished Job was deleted that had a TTL."""
    return f"ttlSecondsAfterFinished ({seconds}s) has passed"

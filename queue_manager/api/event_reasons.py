"""Reasons of Events and the components that record them, as Kueue names them; Sluice's own are marked."""

from __future__ import annotations

JOB_COMPONENT = "batch/job-kueue-controller"
SCHEDULER_COMPONENT = "kueue-admission"
WORKLOAD_COMPONENT = "kueue-workload-controller"
CREATED_WORKLOAD = "CreatedWorkload"
UPDATED_WORKLOAD = "UpdatedWorkload"
DELETED_WORKLOAD = "DeletedWorkload"
FINISHED_WORKLOAD = "FinishedWorkload"
DELETED = "Deleted"  # of a Workload or Job whose retention is over
JOB_STARTED = "Started"
JOB_STOPPED = "Stopped"
INVALID_OVERRIDE = "InvalidOverride"  # Sluice's own
POLICY_VIOLATION = "PolicyViolation"  # Sluice's own: what an admission policy would have refused has been undone
QUEUEING_REFUSED = "QueueingRefused"  # Sluice's own: the API server rejects a write about this object
PRIORITY_CLASS_NOT_FOUND = "WorkloadPriorityClassNotFound"
ADMISSION_CHECK_REJECTED = "AdmissionCheckRejected"
UPDATED_ADMISSION_CHECK = "UpdatedAdmissionCheck"
CHILD_SUSPENDED = "Suspended"
JOB_NESTING_TOO_DEEP = "JobNestingTooDeep"
NEVER_FITS = "NeverFits"  # Sluice's own: a StrictFIFO head that can never fit
ADMISSION_GATE_CLEARED = "AdmissionGateCleared"
PREEMPTED_WORKLOAD = "PreemptedWorkload"
ADMITTED = "Admitted"
QUOTA_RESERVED = "QuotaReserved"

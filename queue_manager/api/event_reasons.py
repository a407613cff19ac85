"""Reasons of Events and the components that record them, as Kueue names them; Sluice's own are marked."""

from __future__ import annotations

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
JOB_NESTING_TOO_DEEP = "JobNestingTooDeep"
NEVER_FITS = "NeverFits"  # ours: the head of a StrictFIFO ClusterQueue blocks it for ever
ADMISSION_GATE_CLEARED = "AdmissionGateCleared"
ADMITTED = "Admitted"
QUOTA_RESERVED = "QuotaReserved"

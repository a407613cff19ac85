"""Condition types, reasons and messages of Jobs, and their Events (batch/v1 types.go, upstream job_controller.go).

Clients match on these texts, so they are part of the API (BEHAVIOUR.md#b32-events).
"""

from __future__ import annotations

from typing import Final

SUSPENDED: Final = "Suspended"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"

POD_FAILURE_POLICY: Final = "PodFailurePolicy"
BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
MAX_FAILED_INDEXES_EXCEEDED: Final = "MaxFailedIndexesExceeded"
FAILED_INDEXES: Final = "FailedIndexes"
SUCCESS_POLICY: Final = "SuccessPolicy"
COMPLETIONS_REACHED: Final = "CompletionsReached"
JOB_SUSPENDED: Final = "JobSuspended"
JOB_RESUMED: Final = "JobResumed"

BACKOFF_LIMIT_MESSAGE: Final = "Job has reached the specified backoff limit"
DEADLINE_MESSAGE: Final = "Job was active longer than specified deadline"
MAX_FAILED_INDEXES_MESSAGE: Final = "Job has exceeded the specified maximal number of failed indexes"
FAILED_INDEXES_MESSAGE: Final = "Job has failed indexes"
COMPLETIONS_MESSAGE: Final = "Reached expected number of succeeded pods"
SUSPENDED_MESSAGE: Final = "Job suspended"
RESUMED_MESSAGE: Final = "Job resumed"

EVENT_CREATED: Final = "SuccessfulCreate"
EVENT_CREATE_FAILED: Final = "FailedCreate"
EVENT_DELETED: Final = "SuccessfulDelete"
EVENT_DELETE_FAILED: Final = "FailedDelete"
EVENT_SUSPENDED: Final = "Suspended"
EVENT_RESUMED: Final = "Resumed"
EVENT_COMPLETED: Final = "Completed"
EVENT_TOO_MANY_SUCCEEDED: Final = "TooManySucceededPods"
EVENT_UNKNOWN_COMPLETION_MODE: Final = "UnknownCompletionMode"
# The reasons below are of Sluice. The Job is invalid, or one of its annotations.
EVENT_INVALID_JOB: Final = "InvalidJob"
EVENT_INVALID_ANNOTATION: Final = "InvalidAnnotation"
# restartPolicy OnFailure prevents backoffLimitPerIndex from being reached.
EVENT_INDEX_NEVER_FAILS: Final = "IndexNeverFails"
# An annotation that says what a pod was created for was changed; the original value counts.
EVENT_POD_ANNOTATION_IGNORED: Final = "PodAnnotationIgnored"
# The API server rejected a status: a bug in this controller, or a newer validation rule.
EVENT_STATUS_REFUSED: Final = "StatusUpdateRefused"

COMPLETED_MESSAGE: Final = "Job completed"
TOO_MANY_SUCCEEDED_MESSAGE: Final = "Too many succeeded pods running after completion count reached"
UNKNOWN_COMPLETION_MODE_MESSAGE: Final = "Skipped Job sync because completion mode is unknown"
NO_LABELS_MESSAGE: Final = "unable to create pods, no labels"

"""Condition types, reasons and messages of Jobs, and their events. All of them are API (spec 1.1, 2.2, 3.1)."""

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
# Ours: the Job makes no sense to this controller, or one of its annotations.
EVENT_INVALID_JOB: Final = "InvalidJob"
EVENT_INVALID_ANNOTATION: Final = "InvalidAnnotation"
# Ours: restartPolicy OnFailure makes backoffLimitPerIndex idle.
EVENT_INDEX_NEVER_FAILS: Final = "IndexNeverFails"
# Ours: somebody has changed an annotation that says what a pod was created for; it counts as it was.
EVENT_POD_ANNOTATION_IGNORED: Final = "PodAnnotationIgnored"
# Ours: the API server refused a status of ours (a bug, or a rule newer than this code). Never silent.
EVENT_STATUS_REFUSED: Final = "StatusUpdateRefused"

COMPLETED_MESSAGE: Final = "Job completed"
TOO_MANY_SUCCEEDED_MESSAGE: Final = "Too many succeeded pods running after completion count reached"
UNKNOWN_COMPLETION_MODE_MESSAGE: Final = "Skipped Job sync because completion mode is unknown"
NO_LABELS_MESSAGE: Final = "unable to create pods, no labels"

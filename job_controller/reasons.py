"""Reasons of conditions of Jobs (batch/v1 types.go, upstream job_controller.go).

Clients match on these texts, so they are part of the API.
"""

from __future__ import annotations

from typing import Final

POD_FAILURE_POLICY: Final = "PodFailurePolicy"
BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
MAX_FAILED_INDEXES_EXCEEDED: Final = "MaxFailedIndexesExceeded"
FAILED_INDEXES: Final = "FailedIndexes"
SUCCESS_POLICY: Final = "SuccessPolicy"
COMPLETIONS_REACHED: Final = "CompletionsReached"
JOB_SUSPENDED: Final = "JobSuspended"
JOB_RESUMED: Final = "JobResumed"

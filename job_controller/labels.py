"""Labels, annotations and finalizers of the Job API (BEHAVIOUR.md#b1-well-known-names)."""

from __future__ import annotations

from typing import Final

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"  # annotation and label
JOB_NAME: Final = "batch.kubernetes.io/job-name"
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
LEGACY_JOB_NAME: Final = "job-name"
LEGACY_CONTROLLER_UID: Final = "controller-uid"
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"

# The finalizer that keeps a finished pod until it is counted. Beside the built-in controller, Sluice uses its own,
# because the built-in controller removes TRACKING_FINALIZER from pods of Jobs that it does not manage (KEP-4368).
TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
OWN_TRACKING_FINALIZER: Final = "sluice/job-tracking"
# A pod with either is counted: it may have been created when JobControllerOptions.manage had another value.
TRACKING_FINALIZERS: Final = frozenset((TRACKING_FINALIZER, OWN_TRACKING_FINALIZER))

# Annotations of a Job: delay after its first failure in seconds; number of failed pods kept after they are counted.
BACKOFF_SECONDS: Final = "sluice/backoff-seconds"
FAILED_PODS_LIMIT: Final = "sluice/failed-pods-limit"
# Annotation of a pod whose finalizer this controller removed in order to delete it. See accounting.py.
DELETING: Final = "sluice/deleting"

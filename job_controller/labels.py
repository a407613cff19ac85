"""Names the Job API is known by: labels, annotations, finalizers, managers (spec 1.1)."""

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

# The finalizer that keeps a finished pod until it is counted. Where the built-in controller works too, ours
# needs a name of its own: the built-in orphan cleaner takes its own off pods of Jobs it does not manage.
TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
OWN_TRACKING_FINALIZER: Final = "sluice/job-tracking"
# Either, on a pod of a Job that we manage: it was made when `manage` was set otherwise, and is counted all the same.
TRACKING_FINALIZERS: Final = frozenset((TRACKING_FINALIZER, OWN_TRACKING_FINALIZER))

BUILT_IN_MANAGER: Final = "kubernetes.io/job-controller"
OWN_MANAGER: Final = "sluice/job-controller"

# On a Job: base of its exponential backoff in seconds; how many failed pods are kept after they are counted.
BACKOFF_SECONDS: Final = "sluice/backoff-seconds"
FAILED_PODS_LIMIT: Final = "sluice/failed-pods-limit"
# On a pod: this controller took the finalizer off in order to delete it. See accounting.py.
DELETING: Final = "sluice/deleting"

"""Reasons of Events about Jobs, as kube-controller-manager names them; Sluice's own are marked.

BEHAVIOUR.md#b32-events.
"""

from __future__ import annotations

from typing import Final

CREATED: Final = "SuccessfulCreate"
CREATE_FAILED: Final = "FailedCreate"
DELETED: Final = "SuccessfulDelete"
DELETE_FAILED: Final = "FailedDelete"
SUSPENDED: Final = "Suspended"
RESUMED: Final = "Resumed"
COMPLETED: Final = "Completed"
TOO_MANY_SUCCEEDED: Final = "TooManySucceededPods"
UNKNOWN_COMPLETION_MODE: Final = "UnknownCompletionMode"
# The reasons below are of Sluice. The Job is invalid, or one of its annotations.
INVALID_JOB: Final = "InvalidJob"
INVALID_ANNOTATION: Final = "InvalidAnnotation"
# restartPolicy OnFailure prevents backoffLimitPerIndex from being reached.
INDEX_NEVER_FAILS: Final = "IndexNeverFails"
# An annotation that says what a pod was created for was changed; the original value counts.
POD_ANNOTATION_IGNORED: Final = "PodAnnotationIgnored"
# The API server rejected a status: a bug in this controller, or a newer validation rule.
STATUS_REFUSED: Final = "StatusUpdateRefused"

"""Messages of conditions of Jobs and of their Events, with the texts of kube-controller-manager.

Clients match on these texts, so they are part of the API (BEHAVIOUR.md#b32-events).
"""

from __future__ import annotations

from typing import Final

BACKOFF_LIMIT_MESSAGE: Final = "Job has reached the specified backoff limit"
DEADLINE_MESSAGE: Final = "Job was active longer than specified deadline"
MAX_FAILED_INDEXES_MESSAGE: Final = "Job has exceeded the specified maximal number of failed indexes"
FAILED_INDEXES_MESSAGE: Final = "Job has failed indexes"
COMPLETIONS_MESSAGE: Final = "Reached expected number of succeeded pods"
SUSPENDED_MESSAGE: Final = "Job suspended"
RESUMED_MESSAGE: Final = "Job resumed"
COMPLETED_MESSAGE: Final = "Job completed"
TOO_MANY_SUCCEEDED_MESSAGE: Final = "Too many succeeded pods running after completion count reached"
UNKNOWN_COMPLETION_MODE_MESSAGE: Final = "Skipped Job sync because completion mode is unknown"
NO_LABELS_MESSAGE: Final = "unable to create pods, no labels"

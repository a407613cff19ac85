"""Values of stopPolicy, queueingStrategy, admissionMode, and the policies of preemption and flavor fungibility."""

from __future__ import annotations

STOP_NONE = "None"
HOLD = "Hold"
HOLD_AND_DRAIN = "HoldAndDrain"
STRICT_FIFO = "StrictFIFO"

# spec.preemption: withinClusterQueue, reclaimWithinCohort, borrowWithinCohort.policy
NEVER = "Never"
LOWER_PRIORITY = "LowerPriority"
LOWER_OR_NEWER_EQUAL = "LowerOrNewerEqualPriority"
ANY = "Any"

# spec.flavorFungibility
TRY_NEXT_FLAVOR = "TryNextFlavor"
PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"

# spec.admissionScope.admissionMode
USAGE_BASED = "UsageBasedAdmissionFairSharing"

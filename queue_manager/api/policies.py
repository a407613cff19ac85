"""Values of stopPolicy and queueingStrategy."""

from __future__ import annotations

STOP_NONE = "None"
HOLD = "Hold"
HOLD_AND_DRAIN = "HoldAndDrain"
STRICT_FIFO = "StrictFIFO"

# spec.admissionScope.admissionMode
USAGE_BASED = "UsageBasedAdmissionFairSharing"

"""Types of conditions of Workloads and queues, as Kueue names them."""

from __future__ import annotations

QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
FINISHED = "Finished"
PODS_READY = "PodsReady"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
REQUEUED = "Requeued"
DEACTIVATION_TARGET = "DeactivationTarget"
BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
ACTIVE = "Active"  # of ClusterQueues, LocalQueues and AdmissionChecks
BLOCKED = "Blocked"  # Sluice's own, of ClusterQueues
UNSUPPORTED = "Unsupported"  # Sluice's own, of ClusterQueues

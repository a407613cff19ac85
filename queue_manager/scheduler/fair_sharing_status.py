"""status.fairSharing of ClusterQueues, Cohorts and LocalQueues, as values and as merge patches."""

from __future__ import annotations

from datetime import UTC

import msgspec

from job_controller.json_tree import Json
from queue_manager.api.types import AdmissionFairSharingStatus, FairSharingStatus
from queue_manager.scheduling.fair_sharing import Shares
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import QuotaNode
from queue_manager.scheduling.usage_decay import Sample, to_quantities


def share_status(state: SchedulerState, node: QuotaNode) -> FairSharingStatus | None:
    """The fair sharing status of a ClusterQueue or Cohort; None if fair sharing is off."""
    return FairSharingStatus(weighted_share=Shares().of(node).rounded) if state.fair_sharing else None


def usage_status(sample: Sample | None) -> FairSharingStatus | None:
    """The fair sharing status of a LocalQueue; None if its past usage is not kept."""
    if sample is None:
        return None
    past = AdmissionFairSharingStatus(consumed_resources=to_quantities(sample.consumed), last_update=sample.at)
    return FairSharingStatus(weighted_share=0, admission_fair_sharing_status=past)


def merge_patch(old: FairSharingStatus | None, new: FairSharingStatus | None) -> Json | None:
    """The JSON merge patch from `old` to `new`, with null for removed resources; None without a new status."""
    if new is None:
        return None
    past, before = new.admission_fair_sharing_status, old.admission_fair_sharing_status if old is not None else None
    if past is None or past.last_update is None:
        return {"weightedShare": new.weighted_share}
    consumed, known = past.consumed_resources or {}, (before.consumed_resources or {}) if before is not None else {}
    return {
        "weightedShare": new.weighted_share,
        "admissionFairSharingStatus": {
            "consumedResources": {**{r: None for r in known if r not in consumed}, **consumed},
            "lastUpdate": msgspec.to_builtins(past.last_update.astimezone(UTC)),
        },
    }

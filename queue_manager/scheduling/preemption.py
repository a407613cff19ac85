"""Which Workloads are preempted so that a pending one fits (KEP-83, KEP-1337)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from queue_manager.scheduling.quota_state import Holding, QueueState
from queue_manager.scheduling.quota_tree import FlavorResource, Usage
from queue_manager.scheduling.workload_info import Info


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pending Workload with the flavors that it would use."""

    info: Info
    queue: QueueState
    usage: Usage  # all that it would use
    needs: frozenset[FlavorResource]  # where quota is short


class Victim(NamedTuple):
    """A Workload to be preempted, and the reason of its Preempted condition."""

    holding: Holding
    reason: str

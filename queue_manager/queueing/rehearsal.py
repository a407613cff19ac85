"""Admission cycles in memory until none achieves anything: what the scheduler will decide, without a write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from queue_manager.api import messages, reasons
from queue_manager.queueing.outcomes import (
    EndedReservations,
    assume,
    await_victims,
    heads,
    is_active,
    is_blocked_by_pods,
    refuse,
    requeue_after_cycle,
    requeue_within_reach,
    withholding_heads,
)
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.backfill import Backfilling
from queue_manager.scheduling.cycle import Admit, Outcome, Preempt, Refuse, Retry, run_cycle
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.workload_info import Info


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Runs admission cycles in memory, at one point in time, and writes nothing.

    `block_admission`, `backfilling`: as configured. `tries_all`: see `WorkloadSettings`.
    """

    state: SchedulerState
    queues: Queues
    now: datetime
    block_admission: bool = False
    backfilling: Backfilling | None = None
    tries_all: bool = False

    def settle(self) -> dict[str, Outcome]:
        """Run cycles until none achieves anything. Returns the last outcome of each Workload that was tried, by uid."""
        outcomes: dict[str, Outcome] = {}
        progress = True
        while progress:
            found = heads(self.state, self.queues, self._is_tried, self.now)
            decided = self.decide(found)
            ended: list[EndedReservations] = []
            applied = [self._apply(each, outcomes, ended) for each in decided]
            takers = [each for each in decided if isinstance(each, Admit | Preempt) and self._is_applied(each)]
            backfills = self.backfilling is not None
            helped = requeue_after_cycle(self.state, self.queues, takers, ended, self._requeue, backfills=backfills)
            progress = any(applied) or helped
        return outcomes

    def _requeue(self, cluster_queues: Sequence[str], *, preemptors: bool) -> None:
        if self.tries_all:
            self.queues.requeue_inadmissible(cluster_queues, self.now, preemptors=preemptors)
        else:
            requeue_within_reach(self.state, self.queues, cluster_queues, self.now, preemptors=preemptors)

    def _is_applied(self, outcome: Admit | Preempt) -> bool:
        """False for an admission that blockAdmission holds back."""
        return isinstance(outcome, Preempt) or outcome.info.uid in self.state.holdings

    def decide(self, heads: list[tuple[str, Info]]) -> list[Outcome]:
        """Run one cycle and return its outcomes without applying them."""
        if not heads:
            return []
        waiting = self.queues.waiting_heads() if self.backfilling is not None else {}
        withholding = withholding_heads(self.state, self.queues, self._is_tried, heads)
        return run_cycle(self.state, heads, self.now, self.backfilling, waiting, withholding)

    def _is_tried(self, cluster_queue: str) -> bool:
        return is_active(self.state, cluster_queue)

    def _apply(self, outcome: Outcome, outcomes: dict[str, Outcome], ended: list[EndedReservations]) -> bool:
        """Apply one outcome and record it. True if the next cycle may find something else to do. `ended` gets what a
        refusal ends.
        """
        if isinstance(outcome, Refuse) and outcome.retry is Retry.NEXT_CYCLE:
            outcomes.setdefault(outcome.info.uid, outcome)  # the next cycle tries it, or its earlier refusal stands
        else:
            outcomes[outcome.info.uid] = outcome
        match outcome:
            case Admit() if self.is_blocked:
                outcomes[outcome.info.uid] = held_back(outcome.info, outcome.cluster_queue)
                return False
            case Admit():
                assume(self.state, self.queues, outcome, self.now)
            case Preempt():
                await_victims(self.state, self.queues, outcome)
            case Refuse():
                ended.append(refuse(self.state, self.queues, outcome, self.now, self.backfilling))
                return outcome.retry is not Retry.NEXT_CYCLE
        return True

    @property
    def is_blocked(self) -> bool:
        """Whether blockAdmission holds back all admissions."""
        return is_blocked_by_pods(self.state, block_admission=self.block_admission)


def held_back(info: Info, cluster_queue: str) -> Refuse:
    """Return the refusal of a Workload that could be admitted, but that blockAdmission holds back."""
    message = messages.WAITING_FOR_PODS_READY_MESSAGE
    return Refuse(info, cluster_queue, reasons.WAITING_FOR_PODS_READY, message, Retry.NEXT_CYCLE)

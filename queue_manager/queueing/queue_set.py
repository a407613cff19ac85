"""All pending Workloads, by LocalQueue and by ClusterQueue.

A Workload belongs to the LocalQueue that it names, whether that exists or not. It is pending in the ClusterQueue of
its LocalQueue as soon as both exist, and on hold while the LocalQueue is stopped. All state is derived: putting all
Workloads and queues again, in any order, gives the same result.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime

from job_controller.model import Key
from queue_manager.api import keys, policy_values
from queue_manager.api.types import ClusterQueue, LocalQueue, stops
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.queueing.parked_shapes import Reach
from queue_manager.queueing.pending import PendingWorkloads
from queue_manager.scheduling.backfill import HeadOrder, WaitingHead
from queue_manager.scheduling.cycle import Preempt, Refuse, WithholdingHead, kept_back_for
from queue_manager.scheduling.flavor_assignment import Demand
from queue_manager.scheduling.quota_state import is_usage_based, weight_of
from queue_manager.scheduling.quota_tree import Usage
from queue_manager.scheduling.usage_decay import (
    Consumption,
    UsageDecay,
    UsageLedger,
    WeightedUsage,
    consumption,
    from_quantities,
)
from queue_manager.scheduling.workload_info import Info

MOST_TRIES = 100  # of one preemptor, between two changes; a few are usual


class Queues:
    """The place of each pending Workload. Changes of queues and Workloads may arrive in any order."""

    def __init__(self) -> None:
        self.cluster_queues: dict[str, PendingWorkloads] = {}
        self.local_queues: dict[Key, LocalQueue] = {}
        self._members: dict[Key, dict[Key, Info]] = {}  # pending Workloads by LocalQueue
        self._queue_of: dict[Key, Key] = {}  # Workload -> LocalQueue
        self.ledger = UsageLedger()
        self._usage_based: set[str] = set()  # ClusterQueues whose LocalQueues are ordered by past usage, if it is kept
        self._eligible: dict[str, None] = {}  # ClusterQueues that may have a head: a cycle reads no others
        self._changed_heads: list[str] = []  # ClusterQueues without a Workload to try whose waiting head has changed
        self._withholding: dict[str, None] = {}  # ClusterQueues whose first may withhold quota: see `withholding_heads`
        self._when_idle: dict[str, bool] = {}  # ClusterQueues to try again; True: only those that were kept back
        self._reclassified: list[Key] = []  # Workloads: see `take_reclassified`
        self._tries: Counter[Key] = Counter()  # of preemptors, since `forget_tries`
        self._backoff_ends: list[tuple[datetime, str]] = []  # heap of (end, ClusterQueue); entries may be dead

    # --- Workloads ---

    def put(self, info: Info, now: datetime) -> None:
        """Add a Workload that is pending for quota, or take its newest state."""
        if self._queue_of.get(info.key, info.queue) != info.queue:
            self.remove(info.key)
        self._queue_of[info.key] = info.queue
        self._members.setdefault(info.queue, {})[info.key] = info
        self._enqueue(info, now)

    def remove(self, key: Key) -> Info | None:
        """Remove a Workload that has quota, has ended, or must not be tried; return it, or None."""
        queue = self._queue_of.pop(key, None)
        if queue is None:
            return None
        members = self._members[queue]
        info = members.pop(key)
        if not members:
            del self._members[queue]
        pending = self._pending(queue)
        if pending is not None:
            pending.remove(key)
            self._eligible[self.local_queues[queue].spec.cluster_queue] = None  # the next one may be tried
        return info

    def get(self, key: Key) -> Info | None:
        """The pending Workload, or None."""
        queue = self._queue_of.get(key)
        return None if queue is None else self._members[queue][key]

    def __contains__(self, key: Key) -> bool:
        return key in self._queue_of

    def _enqueue(self, info: Info, now: datetime) -> None:
        pending = self._pending(info.queue)
        if pending is not None:
            name = self.local_queues[info.queue].spec.cluster_queue
            pending.put(info, now, hold=self.is_stopped(info.queue))
            self._eligible[name] = None
            if info.requeue_at is not None:
                heapq.heappush(self._backoff_ends, (info.requeue_at, name))

    def _pending(self, queue: Key) -> PendingWorkloads | None:
        local = self.local_queues.get(queue)
        return None if local is None else self.cluster_queues.get(local.spec.cluster_queue)

    # --- queues ---

    def is_stopped(self, queue: Key) -> bool:
        """Whether the LocalQueue exists and its stopPolicy is Hold or HoldAndDrain."""
        local = self.local_queues.get(queue)
        return local is not None and stops(local.spec.stop_policy)

    def set_local_queue(self, local: LocalQueue, now: datetime) -> None:
        """Add or update a LocalQueue."""
        key = local.metadata.key
        old = self.local_queues.get(key)
        if old is not None and old.spec.cluster_queue != local.spec.cluster_queue:
            self.drop_local_queue(key)
            old = None
        self.local_queues[key] = local
        if old is None or old.spec != local.spec:
            for info in self._members.get(key, {}).values():
                self._enqueue(info, now)

    def drop_local_queue(self, key: Key) -> None:
        """Remove a deleted LocalQueue: its Workloads are then pending in no ClusterQueue."""
        pending = self._pending(key)
        local = self.local_queues.pop(key, None)
        self.ledger.forget(key)
        if pending is not None and local is not None:
            self._eligible[local.spec.cluster_queue] = None
            for member in self._members.get(key, {}):
                pending.remove(member)

    def set_cluster_queue(self, queue: ClusterQueue, now: datetime) -> None:
        """Add or update a ClusterQueue."""
        name = queue.metadata.name
        self._eligible[name] = None
        known = self.cluster_queues.get(name)
        pass_by = queue.metadata.annotations.get(keys.PASS_BY) == "true"
        preempts_newer = queue.spec.preemption.within_cluster_queue == policy_values.LOWER_OR_NEWER_EQUAL
        (self._usage_based.add if is_usage_based(queue) else self._usage_based.discard)(name)
        if known is not None:
            known.preempts_newer = preempts_newer
            known.set_strategy(queue.spec.queueing_strategy, now, pass_by=pass_by)
            known.set_usage(self._usage_for(name))
            return
        added = self.cluster_queues[name] = PendingWorkloads(queue.spec.queueing_strategy, pass_by=pass_by)
        added.preempts_newer = preempts_newer
        added.set_usage(self._usage_for(name))
        for key in self.local_queues_of(name):
            for info in self._members.get(key, {}).values():
                self._enqueue(info, now)

    def drop_cluster_queue(self, name: str) -> None:
        """Remove a deleted ClusterQueue."""
        self.cluster_queues.pop(name, None)
        self._usage_based.discard(name)

    def local_queues_of(self, cluster_queue: str) -> list[Key]:
        """The LocalQueues that lead to this ClusterQueue."""
        return [key for key, local in self.local_queues.items() if local.spec.cluster_queue == cluster_queue]

    # --- admission fair sharing ---

    def set_usage_decay(self, decay: UsageDecay | None) -> None:
        """Keep past usage by these rules from now on; None: admission fair sharing is off."""
        self.ledger.reconfigure(decay)
        for name, pending in self.cluster_queues.items():
            pending.set_usage(self._usage_for(name))

    def is_ordered_by_usage(self, cluster_queue: str) -> bool:
        """Whether past usage orders the LocalQueues of this ClusterQueue."""
        return self.ledger.decay is not None and cluster_queue in self._usage_based

    def charge(self, queue: Key, cluster_queue: str, usage: Usage, now: datetime, *, undo: bool = False) -> None:
        """Count the entry penalty of an admission, where past usage orders the LocalQueues."""
        if self.is_ordered_by_usage(cluster_queue):
            self.ledger.admit(queue, consumption([usage]), now, undo=undo)
            self._usage_changed(queue)

    def restore_usage(self, local: LocalQueue) -> None:
        """Load the past usage of a LocalQueue from its status, which another process may have written."""
        status = local.status.fair_sharing
        past = status.admission_fair_sharing_status if status is not None else None
        if past is not None and past.last_update is not None:
            self.ledger.restore(local.metadata.key, from_quantities(past.consumed_resources or {}), past.last_update)

    def _usage_for(self, cluster_queue: str) -> Callable[[Key], WeightedUsage] | None:
        return self.weighted_usage if self.is_ordered_by_usage(cluster_queue) else None

    def sample_usage(self, queue: Key, running: Consumption, now: datetime) -> None:
        """Update the past usage of a LocalQueue to `now`, which may change the order of the LocalQueues."""
        self.ledger.sample(queue, running, now)
        self._usage_changed(queue)

    def _usage_changed(self, queue: Key) -> None:
        pending = self._pending(queue)
        if pending is not None:
            pending.usage_changed()
            self._eligible[self.local_queues[queue].spec.cluster_queue] = None

    def weighted_usage(self, queue: Key) -> WeightedUsage:
        """The past usage of a LocalQueue by its weight; the lowest comes first."""
        local = self.local_queues.get(queue)
        return self.ledger.weighted(queue, weight_of(local.spec.fair_sharing if local is not None else None))

    # --- the scheduler's view ---

    def heads(self, is_active: Callable[[str], bool], now: datetime) -> list[tuple[str, Info]]:
        """(ClusterQueue, head) for each active ClusterQueue with a Workload to try. Ends backoffs that are over by
        `now`.

        A preemptor that has been tried MOST_TRIES times, and what is behind it in its ClusterQueue, is not tried before
        something changes (`forget_tries`). So cycles end whatever the policies are: each follows from an admission, a
        new victim or the try of a preemptor.
        """
        self._end_backoffs(now)
        found: list[tuple[str, Info]] = []
        for name in list(self._eligible):
            pending = self.cluster_queues.get(name)
            if pending is not None and not is_active(name):
                continue
            head = pending.head() if pending is not None else None
            if head is not None:
                if self._tries[head.key] < MOST_TRIES:
                    found.append((name, head))
                continue
            del self._eligible[name]
            if pending is not None and pending.head_has_changed:
                pending.head_has_changed = False
                self._changed_heads.append(name)
        return found

    def exhausted(self) -> list[Key]:
        """The preemptors that have been tried MOST_TRIES times without a change."""
        return [key for key, tries in self._tries.items() if tries >= MOST_TRIES]

    def forget_tries(self) -> None:
        """Record a change other than of what is kept for preemptors: each of them may be tried as often again."""
        self._tries.clear()

    def is_refused(self, head: Info, cluster_queue: str) -> bool:
        """Whether this head, or an equal Workload, was refused, and only the quota in use has changed since then."""
        return self.cluster_queues[cluster_queue].standing_refusal(head) is not None

    def park_beyond(self, cluster_queue: str, reach: Reach) -> bool:
        """Let the refusals of heads stand that are beyond reach by now: see PendingWorkloads.park_beyond."""
        return self.cluster_queues[cluster_queue].park_beyond(reach)

    def preempting(self) -> list[tuple[str, Info]]:
        """(ClusterQueue, Workload) for each Workload whose status says that it waits for its victims. O(n)."""
        queues = self.cluster_queues.items()
        return [(name, info) for name, pending in queues for info in pending.preempting()]

    def _end_backoffs(self, now: datetime) -> None:
        while self._backoff_ends and self._backoff_ends[0][0] <= now:
            _, name = heapq.heappop(self._backoff_ends)
            pending = self.cluster_queues.get(name)
            if pending is not None and pending.end_backoffs(now):
                self._eligible[name] = None

    def waiting_head(self, cluster_queue: str) -> Info | None:
        """With backfilling: the first Workload of this ClusterQueue that found no quota and still waits."""
        pending = self.cluster_queues.get(cluster_queue)
        return pending.waiting_head if pending is not None else None

    def waiting_heads(self) -> dict[str, WaitingHead]:
        """With backfilling: by ClusterQueue, the first Workload that found no quota and still waits."""
        found = ((name, pending.first_without_quota()) for name, pending in self.cluster_queues.items())
        return {name: head for name, head in found if head is not None}

    def withholding_heads(self) -> list[WithholdingHead]:
        """The first Workload of each StrictFIFO ClusterQueue that waits, and withholds quota."""
        found: list[WithholdingHead] = []
        for name in list(self._withholding):
            pending = self.cluster_queues.get(name)
            head = pending.withholding_head if pending is not None else None
            if head is None:
                del self._withholding[name]
            else:
                found.append(WithholdingHead(name, *head))
        return found

    def is_behind_head(self, info: Info, cluster_queue: str) -> bool:
        """With backfilling: whether this Workload has passed the head of its ClusterQueue, if it is admitted now."""
        pending = self.cluster_queues.get(cluster_queue)
        by_usage = self.is_ordered_by_usage(cluster_queue)  # which an admission changes
        return pending is not None and not by_usage and pending.is_behind_head(info)

    def take_changed_heads(self) -> list[str]:
        """Return and clear the ClusterQueues whose head, for which others were kept back, has left or changed."""
        left, self._changed_heads = self._changed_heads, []
        return left

    def retry_when_idle(self, names: Iterable[str], *, kept_back_only: bool = False) -> None:
        """Record that refused Workloads of these ClusterQueues are to be tried again when no other head is left: so
        however many are admitted before, each of them is tried once. `kept_back_only`: those that were refused since
        they would delay a head.
        """
        for name in names:
            self._when_idle[name] = kept_back_only and self._when_idle.get(name, True)

    def take_for_idle(self) -> dict[str, bool]:
        """By ClusterQueue, what `retry_when_idle` has recorded since this was asked before: whether only those are
        concerned that were kept back.
        """
        taken, self._when_idle = self._when_idle, {}
        return taken

    def release_kept_back(self, names: Iterable[str]) -> None:
        """Make those eligible again that were refused since quota is kept for a head."""
        for name in names:
            pending = self.cluster_queues.get(name)
            if pending is not None and pending.release_kept_back():
                self._eligible[name] = None

    def refused(
        self,
        refusal: Refuse | Preempt,
        *,
        never: bool = False,
        behind: HeadOrder | None = None,
        demands: tuple[Demand, ...] | None = None,
    ) -> None:
        """Record that a head was refused or has to wait: see PendingWorkloads.refused."""
        if isinstance(refusal, Preempt):
            self._tries[refusal.info.key] += 1
        pending = self.cluster_queues.get(refusal.cluster_queue)
        if pending is not None:
            why = PendingReason(refusal.reason, refusal.message)
            pending.refused(
                refusal.info.key,
                refusal.retry,
                why,
                never=never,
                behind=behind,
                kept_back=kept_back_for(refusal) is not None,
                withheld=refusal.withheld if isinstance(refusal, Refuse) else None,
                demands=demands,
                has_victims=isinstance(refusal, Preempt) and bool(refusal.victims),
            )
            self._reclassified += pending.take_reclassified()
            if pending.withholding_head is not None:
                self._withholding[refusal.cluster_queue] = None

    def is_blocked_by(self, key: Key, cluster_queue: str) -> bool:
        """Whether this head was refused, and those behind it are not tried before something changes (StrictFIFO)."""
        pending = self.cluster_queues.get(cluster_queue)
        return pending is not None and pending.blocked_by == key

    def requeue_inadmissible(
        self, names: Iterable[str], now: datetime, reach: Reach | None = None, *, preemptors: bool = True
    ) -> bool:
        """After a change of quota or rules, make refused Workloads of these queues eligible. True if any became so.

        `reach`: only those that demand no more than this. `preemptors`: those that wait for victims too.
        """
        known = {name: pending for name in names if (pending := self.cluster_queues.get(name)) is not None}
        self._eligible |= dict.fromkeys(known)
        released = [pending.requeue_inadmissible(now, reach, preemptors=preemptors) for pending in known.values()]
        return any(released)

    def has_refused(self, cluster_queue: str) -> bool:
        """Whether a Workload of this ClusterQueue was refused and is not eligible."""
        pending = self.cluster_queues.get(cluster_queue)
        return pending is not None and pending.has_refused

    def refresh(self, cluster_queue: str, turns: Iterable[int]) -> None:
        """Make the refused Workloads of these turns (`refresh_turns.turn_of`) eligible, to bring their messages up to
        date.
        """
        pending = self.cluster_queues.get(cluster_queue)
        if pending is not None:
            self._eligible[cluster_queue] = None
            for turn in turns:
                pending.refresh(turn)

    # --- queries ---

    def bypassed(self, key: Key) -> PendingReason | None:
        """The refusal for which an equivalent Workload was parked, and this one with it; None if it is not parked."""
        pending = self._pending_with(key)
        return pending.bypassed(key) if pending is not None else None

    def is_behind(self, key: Key) -> bool:
        """See `PendingWorkloads.is_behind`."""
        pending = self._pending_with(key)
        return pending is not None and pending.is_behind(key)

    def refusal(self, key: Key) -> PendingReason | None:
        """Why this Workload was refused, if nothing has changed since then: see PendingWorkloads.refusal."""
        pending = self._pending_with(key)
        return pending.refusal(key) if pending is not None else None

    def _pending_with(self, key: Key) -> PendingWorkloads | None:
        """The pending Workloads of the ClusterQueue of this one; None if it is not pending in one that exists."""
        queue = self._queue_of.get(key)
        return self._pending(queue) if queue is not None else None

    def take_reclassified(self) -> list[Key]:
        """See `PendingWorkloads.take_reclassified`."""
        taken, self._reclassified = self._reclassified, []
        return taken

    def pending_count(self, queue: Key) -> int:
        """The number of pending Workloads of a LocalQueue, whether or not it exists."""
        return len(self._members.get(queue, ()))

    def pending_by_status(self, queue: Key) -> tuple[int, int]:
        """Pending Workloads of a LocalQueue: (active, inadmissible)."""
        pending, members = self._pending(queue), self._members.get(queue, {})
        if pending is None:
            return 0, len(members)
        idle = sum(pending.is_inadmissible(key) for key in members)
        return len(members) - idle, idle

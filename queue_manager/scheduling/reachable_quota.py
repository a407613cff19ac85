"""Which refused Workloads released quota could help: a bound that no admission and no preemption exceeds. Pure.

A Workload is refused because of a resource group of which no flavor fits. Each flavor whose quota could hold it is
short of at least one resource. So the Workload stays refused until for one of these flavors this request is within
*reach*: what is free, plus all that a preemption which the policies allow could release.

    withinClusterQueue                     the usage of the candidates' priorities in its own ClusterQueue
    reclaimWithinCohort, not borrowing     its ClusterQueue, or a subtree around it, must hold the request itself: what
                                           the subtree has lent or not used
    reclaimWithinCohort, while borrowing   no bound: borrowWithinCohort or fair sharing allow it

Quota that is kept for a preemptor is beyond the reach of those that never pass it (`planned_usage.passes`): those of a
lower priority, and of an equal one in another ClusterQueue. The reach counts all other quota that is kept, and
candidates that are protected, so it errs only by being too high: a Workload is then tried and refused once more. An
admission does not extend it: it takes as much as it may release. So it is compared when quota is released, and nothing
is done for the Workloads beyond it, however many they are; and before each try that follows, since others may have
taken that quota. BEHAVIOUR.md#q9-requeue-of-inadmissible-workloads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import partial
from math import inf

from queue_manager.api import policy_values
from queue_manager.scheduling.cycle import Refuse
from queue_manager.scheduling.flavor_assignment import Demand
from queue_manager.scheduling.preemption_candidates import may_borrow_and_preempt, priority_bound
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, room

ReachOf = Callable[[QueueState, FlavorResource, int], float]  # the reach of a Workload of this priority
# By root of a quota tree: how much is kept for the preemptors of a priority and ClusterQueue.
Claims = Mapping[tuple[QuotaNode, FlavorResource], Mapping[tuple[int, str], int]]
NO_CLAIMS: Claims = {}


def least_demands(state: SchedulerState, refusal: Refuse) -> tuple[Demand, ...] | None:
    """What must come within reach before the answer can change, by flavor: one of these. None: unknown."""
    queue = state.queues.get(refusal.cluster_queue)
    if refusal.unfit is None or queue is None:
        return None
    priority = refusal.info.priority

    def covered(demand: Demand) -> float:
        return reachable(state, queue, demand.fr, priority) / demand.amount

    short = [attempt.short for attempt in refusal.unfit if attempt.short]
    possible = [some for some in short if all(one.amount <= queue.node.potential(one.fr) for one in some)]
    return tuple(min(some, key=covered) for some in possible)


def reachable(
    state: SchedulerState, queue: QueueState, fr: FlavorResource, priority: int, claims: Claims = NO_CLAIMS
) -> float:
    """The most that a Workload of this ClusterQueue and priority could use, now or after preemptions."""
    policy = queue.queue.spec.preemption
    reclaims = policy.reclaim_within_cohort != policy_values.NEVER
    if reclaims and (state.fair_sharing or may_borrow_and_preempt(queue)):
        return inf
    free, root = queue.node.available(fr), queue.node.root
    kept = claims.get((root, fr), {}).items()
    kept_here = sum(amount for (at, name), amount in kept if at > priority and name == queue.name)
    if kept:
        elsewhere = sum(amount for (at, name), amount in kept if at >= priority and name != queue.name)
        free = min(free, room(queue.node, root, fr) - kept_here - elsewhere)
    if reclaims:
        free = max(free, _own_quota(queue.node, fr) - kept_here)
    if policy.within_cluster_queue == policy_values.NEVER:
        return free
    return free + queue.by_priority.below(priority_bound(policy.within_cluster_queue, priority), fr)


def _own_quota(node: QuotaNode, fr: FlavorResource) -> int:
    """The most that the ClusterQueue or a subtree around it, except the whole tree, can hold without borrowing."""
    kept, most = 0, 0
    while node.parent is not None:
        most = max(most, kept + node.subtree.get(fr, 0) - node.usage.get(fr, 0))
        kept += node.local_available(fr)
        node = node.parent
    return most


def _claims(state: SchedulerState, roots: AbstractSet[QuotaNode]) -> Claims:
    """What is kept in these trees for preemptors. Where a local quota may hold a part of it, it counts as nothing."""
    found: dict[tuple[QuotaNode, FlavorResource], Counter[tuple[int, str]]] = {}
    for reservation in state.reservations.values():
        queue = state.queues.get(reservation.cluster_queue)
        if queue is None or queue.node.root not in roots or reservation.info.uid in state.holdings:
            continue
        whose = reservation.info.priority, queue.name
        for fr, amount in reservation.usage.items():
            if not any(node.local_quota(fr) for node in queue.node.path() if node.parent is not None):
                found.setdefault((queue.node.root, fr), Counter())[whose] += amount
    return found


@contextmanager
def within_reach(state: SchedulerState, roots: AbstractSet[QuotaNode]) -> Iterator[ReachOf]:
    """Context in which these quota trees are without the usage of victims for which a preemptor waits. Gives what is
    `reachable` then, beside what is kept for these preemptors.
    """
    uids = dict.fromkeys(uid for reservation in state.reservations.values() for uid in reservation.victims)
    counted = (holding for uid in uids if (holding := state.counted(uid)) is not None)
    with state.without(each for each in counted if state.queues[each.cluster_queue].node.root in roots):
        yield partial(reachable, state, claims=_claims(state, roots))

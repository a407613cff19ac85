"""One row per ClusterQueue: pending and running Workloads, and usage of each quota. Pure.

All numbers are computed from one list of Workloads, so that they are consistent with each other. The status of a
ClusterQueue has the same numbers, but may be of another time. The usage of a Workload is its assignment for the pods
that hold quota (`holdings.running_pods`): not for those whose quota is released (reclaimablePods).

The API does not record how much a ClusterQueue lends, so it is bounded. Let B be the amount that all members of the
tree of cohorts borrow, U(i) the unused quota that member i may lend, and C the quota of the Cohorts themselves. Member
i lends at least B minus C and the U of all other members, and at most min(B, U(i)). With a single possible lender the
bounds are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from job_controller.model import Condition, Job
from queue_manager.api import condition_types, keys, policy_values, reasons
from queue_manager.api.types import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodSetAssignment,
    Quantity,
    ResourceQuota,
    Workload,
    stops,
)
from queue_manager.scheduling.amounts import amount, text
from queue_manager.scheduling.holdings import running_pods
from queue_manager.scheduling.quota_forest import QuotaForest
from queue_manager.scheduling.quota_state import quotas_of
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode
from queue_manager.scheduling.workload_info import remaining_pods
from queue_manager.visibility.effects_of_changes import stopped_word
from queue_manager.visibility.job_times import job_times, life_of
from queue_manager.visibility.unlisted_queues import is_unlisted

MISSING = "Missing"  # the state of a ClusterQueue that does not exist
UNLISTED = "Unlisted"  # of one that a manager has from a file, or that the user may not read


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The quota of one resource in one flavor. Quantities are written as in the API ("1500m", "2Gi"); no limit is None.

    `used` includes the borrowed amount, and `over_quota`, which no other queue can lend: a quota or the cohort was
    changed while Workloads ran. `lent` is given by two bounds, see the module.
    """

    flavor: str
    resource: str
    used: str
    nominal: str
    borrowed: str = "0"
    over_quota: str = "0"
    borrowing_limit: str | None = None
    lent_at_least: str = "0"
    lent_at_most: str = "0"
    lending_limit: str | None = None


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ClusterQueue as `sluice queues` shows it. `stopped_queues`: its LocalQueues with a stop policy, and of these
    `drained_queues` with HoldAndDrain. `is_remainder`: whether its quota is what the nodes have less the quotas of all
    others, as `sluice up` computes it for its first queue.

    `cohort_path`: the cohorts above it, from the root of the tree to `cohort`. `weighted_share`: that of its status,
    None without fair sharing; `fair_weight`: by which it was divided.
    """

    name: str
    cohort: str
    cohort_path: list[str]
    strategy: str
    state: str
    message: str
    local_queues: list[str]
    stopped_queues: list[str]
    pending: int
    admitted: int
    oldest_waiting_seconds: float | None
    quotas: list[QuotaRow]
    drained_queues: list[str] = []
    is_remainder: bool = False
    weighted_share: int | None = None
    fair_weight: str = "1"


def queue_rows(
    cluster_queues: Iterable[ClusterQueue] | None,
    local_queues: Iterable[LocalQueue],
    workloads: Iterable[Workload],
    now: datetime,
    cohorts: Iterable[Cohort] = (),
) -> list[QueueRow]:
    """Return rows ordered by name, also of ClusterQueues that do not exist and that a LocalQueue names.

    `cluster_queues`: None if the user may not read them.
    """
    by_cluster_queue: dict[str, list[LocalQueue]] = {}
    target: dict[tuple[str, str], str] = {}
    for queue in local_queues:
        by_cluster_queue.setdefault(queue.spec.cluster_queue, []).append(queue)
        target[queue.metadata.key] = queue.spec.cluster_queue
    waiting: dict[str, list[float]] = {}
    admitted: dict[str, int] = {}
    used: dict[str, Usage] = {}
    for workload in workloads:
        name = target.get(workload.local_queue, "")
        if workload.is_true(condition_types.FINISHED):
            continue
        if workload.status.admission is not None:
            name = workload.status.admission.cluster_queue
            admitted[name] = admitted.get(name, 0) + 1
            _add(used.setdefault(name, {}), usage(workload))
        elif workload.spec.active:
            waiting.setdefault(name, []).append(_waited(workload, now))
    named = {queue.metadata.name: queue for queue in cluster_queues or ()}
    unlisted_because = "you may not read ClusterQueues" if cluster_queues is None else ""
    forest = _forest(named.values(), cohorts)
    quotas = _quotas(named.values(), used, forest)
    rows = [
        _row(
            queue,
            [node.name for node in forest.queues[name].path()][:0:-1],
            by_cluster_queue.get(name, []),
            waiting.get(name, []),
            admitted.get(name, 0),
            quotas[name],
        )
        for name, queue in named.items()
    ]
    rows += [
        _row_without_object(name, local, unlisted_because, waiting.get(name, []), admitted.get(name, 0))
        for name, local in by_cluster_queue.items()
        if name not in named
    ]
    return sorted(rows, key=lambda row: row.name)


def _row_without_object(
    name: str,
    local_queues: Sequence[LocalQueue],
    unlisted_because: str,
    waiting: Sequence[float],
    admitted: int,
) -> QueueRow:
    if not unlisted_because and any(is_unlisted(local, ()) for local in local_queues):
        unlisted_because = "a manager has it from a file"
    return QueueRow(
        name=name,
        cohort="",
        cohort_path=[],
        strategy="",
        state=UNLISTED if unlisted_because else MISSING,
        message=unlisted_because or "it does not exist, and these LocalQueues name it",
        local_queues=_names(local_queues),
        stopped_queues=_names(local for local in local_queues if stops(local.spec.stop_policy)),
        drained_queues=_names(
            local for local in local_queues if local.spec.stop_policy == policy_values.HOLD_AND_DRAIN
        ),
        pending=len(waiting),
        admitted=admitted,
        oldest_waiting_seconds=max(waiting, default=None),
        quotas=[],
    )


def _names(local_queues: Iterable[LocalQueue]) -> list[str]:
    return sorted(str(local.metadata.key) for local in local_queues)


def _waited(workload: Workload, now: datetime) -> float:
    """The seconds that a Workload has waited: as in `sluice ps`, but from its own creation and not the Job's."""
    return job_times(life_of(Job(metadata=workload.metadata), workload, now), now).waited


def _row(
    queue: ClusterQueue,
    cohort_path: list[str],
    local_queues: Sequence[LocalQueue],
    waiting: Sequence[float],
    admitted: int,
    quotas: list[QuotaRow],
) -> QueueRow:
    active = next((c for c in queue.status.conditions if c.type == condition_types.ACTIVE), None)
    policy = queue.spec.stop_policy
    is_stopped = stops(policy) and (active is None or active.is_true or active.reason == reasons.STOPPED)
    state = _state(active) if active else _state_without_status(local_queues)
    return QueueRow(
        name=queue.metadata.name,
        cohort=queue.spec.cohort_name,
        cohort_path=cohort_path,
        strategy=queue.spec.queueing_strategy,
        state=stopped_word(policy).capitalize() if is_stopped else state,
        message=active.message if active and not active.is_true else "",
        local_queues=_names(local_queues),
        stopped_queues=_names(local for local in local_queues if stops(local.spec.stop_policy)),
        drained_queues=_names(
            local for local in local_queues if local.spec.stop_policy == policy_values.HOLD_AND_DRAIN
        ),
        pending=len(waiting),
        admitted=admitted,
        oldest_waiting_seconds=max(waiting, default=None),
        quotas=quotas,
        is_remainder=_is_remainder(queue),
        weighted_share=queue.status.fair_sharing.weighted_share if queue.status.fair_sharing is not None else None,
        fair_weight=_fair_weight(queue),
    )


def _fair_weight(queue: ClusterQueue) -> str:
    sharing = queue.spec.fair_sharing
    return str(sharing.weight) if sharing is not None and sharing.weight is not None else "1"


def _is_remainder(queue: ClusterQueue) -> bool:
    """Whether the quota is still the one that `sluice up` has set, which it then keeps up to date."""
    texts = queue.metadata.annotations.get(keys.QUOTA_OF_NODES, "").split()
    set_by_sluice = dict(zip(("cpu", "memory"), texts, strict=False))
    nominal = {fr.resource: _text(quota.nominal_quota) for fr, quota in _specs(queue)}
    return bool(texts) and nominal == set_by_sluice


def _state(active: Condition) -> str:
    return condition_types.ACTIVE if active.is_true else active.reason


def _state_without_status(local_queues: Iterable[LocalQueue]) -> str:
    """Return the state of a ClusterQueue from a file, whose status only its manager has, by that of its LocalQueues."""
    return condition_types.ACTIVE if any(is_unlisted(local, ()) for local in local_queues) else "Unknown"


# --- quota -------------------------------------------------------------------------------------------------


Usage = dict[FlavorResource, int]


class _Member(NamedTuple):
    """A ClusterQueue with its usage, the amount that it borrows, and its unused lendable quota."""

    queue: ClusterQueue
    used: Usage
    borrowed: Usage
    spare: Usage


def usage(workload: Workload) -> Usage:
    """Return the quota that a Workload holds: the share of its pods that run in the amounts of status.admission."""
    admission, found = workload.status.admission, Usage()
    assignments = {each.name: each for each in admission.pod_set_assignments} if admission is not None else {}
    for pod_set in workload.spec.pod_sets:
        assigned = assignments.get(pod_set.name, PodSetAssignment())
        count = assigned.count or 0
        running = running_pods(remaining_pods(pod_set, workload), pod_set.min_count, assigned.count)
        for resource, quantity in assigned.resource_usage.items():
            fr = FlavorResource(assigned.flavors.get(resource, ""), resource)
            all_of_it = amount(resource, quantity)
            _add(found, {fr: all_of_it * running // count if count else all_of_it})
    return found


def _add(total: Usage, more: Usage) -> None:
    for fr, value in more.items():
        total[fr] = total.get(fr, 0) + value


def _forest(queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> QuotaForest:
    """The trees of cohorts, with the quotas of the Cohorts only."""
    forest = QuotaForest()
    for queue in queues:
        forest.set_queue(queue.metadata.name, {}, queue.spec.cohort_name)
    for cohort in cohorts:
        forest.set_cohort(cohort.metadata.name, quotas_of(cohort.spec.resource_groups), cohort.spec.parent_name)
    return forest


def _quotas(
    queues: Iterable[ClusterQueue], used: Mapping[str, Usage], forest: QuotaForest
) -> dict[str, list[QuotaRow]]:
    """Return the quota rows of each ClusterQueue by name. `used`: usage by name."""
    trees: dict[QuotaNode, list[_Member]] = {}
    found = {}
    for queue in queues:
        name = queue.metadata.name
        trees.setdefault(forest.queues[name].root, []).append(_member(queue, used.get(name, {})))
    for root, members in trees.items():
        shared = [node.quotas for node in root.below() if node.is_cohort]
        for member in members:
            rows = [
                _quota(member, fr, quota, members, sum(quotas[fr].nominal for quotas in shared if fr in quotas))
                for fr, quota in _specs(member.queue)
            ]
            found[member.queue.metadata.name] = rows
    return found


def _member(queue: ClusterQueue, used: Usage) -> _Member:
    """Compute a member. `spare` is the unused own quota within the lending limit; empty without a cohort."""
    borrowed, spare = Usage(), Usage()
    for fr, quota in _specs(queue) if queue.spec.cohort_name else ():
        nominal = amount(fr.resource, quota.nominal_quota)
        most = nominal if quota.lending_limit is None else amount(fr.resource, quota.lending_limit)
        borrowed[fr] = max(0, used.get(fr, 0) - nominal)
        spare[fr] = max(0, min(most, nominal - used.get(fr, 0)))
    return _Member(queue, used, borrowed, spare)


def _quota(
    member: _Member, fr: FlavorResource, quota: ResourceQuota, members: Sequence[_Member], of_cohorts: int
) -> QuotaRow:
    """Return the row of one quota. `members`: of the tree, including this one; `of_cohorts`: quota of its Cohorts."""
    borrowed = sum(one.borrowed.get(fr, 0) for one in members)
    own = member.spare.get(fr, 0)
    others = of_cohorts + sum(one.spare.get(fr, 0) for one in members) - own
    excess = max(0, member.used.get(fr, 0) - amount(fr.resource, quota.nominal_quota))
    of_others = min(member.borrowed.get(fr, 0), others)
    return QuotaRow(
        flavor=fr.flavor,
        resource=fr.resource,
        used=text(fr.resource, member.used.get(fr, 0)),
        nominal=_text(quota.nominal_quota),
        borrowed=text(fr.resource, of_others),
        over_quota=text(fr.resource, excess - of_others),
        borrowing_limit=None if quota.borrowing_limit is None else _text(quota.borrowing_limit),
        lent_at_least=text(fr.resource, max(0, min(borrowed - others, own))),
        lent_at_most=text(fr.resource, min(borrowed, own)),
        lending_limit=None if quota.lending_limit is None else _text(quota.lending_limit),
    )


def _specs(queue: ClusterQueue) -> list[tuple[FlavorResource, ResourceQuota]]:
    return [
        (FlavorResource(flavor.name, quota.name), quota)
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    ]


def _text(quantity: Quantity) -> str:
    return str(quantity)

"""The gauges of the queue, computed from the quota cache and the cached Workloads for each exposition.

`queue_metrics` exports them and ends the series of what is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from job_controller.model import Key
from job_controller.quantities import INT64_MAX
from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Workload, stops
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduling.fair_sharing import Share, Shares
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, Usage
from queue_manager.scheduling.usage_decay import PER_UNIT

BLOCKED = "sluice_cluster_queue_blocked_by_never_fitting_head"
HEAD_QUEUED = "sluice_cluster_queue_head_queued_timestamp_seconds"
UNITS = {"cpu": 1000}  # amounts per exported unit: cpu is counted in thousandths


class Gauge(NamedTuple):
    """One series; `name` without the prefix `kueue_`, or with the prefix `sluice_`."""

    name: str
    labels: dict[str, str]
    value: float


def gauges(
    quota_cache: QuotaCache, workloads: Iterable[Workload], is_exported: Callable[[Key], bool], *, resources: bool
) -> Iterator[Gauge]:
    """Yield all series. `is_exported`: whether a LocalQueue has series. `resources`: with quotas and usage."""
    for name in quota_cache.state.queues:
        yield from _of_cluster_queue(quota_cache, name)
        if resources:
            yield from _quotas(quota_cache, name)
    yield from _of_trees(quota_cache.state)
    yield from _counted(quota_cache, list(workloads), is_exported)
    holdings = _by_local_queue(quota_cache)
    for key in quota_cache.queues.local_queues:
        if is_exported(key):
            yield from _of_local_queue(quota_cache, key, holdings.get(key, []), resources=resources)


def _by_local_queue(quota_cache: QuotaCache) -> dict[Key, list[Holding]]:
    found: dict[Key, list[Holding]] = {}
    for queue in quota_cache.state.queues.values():
        for holding in queue.holdings.values():
            found.setdefault(holding.queue, []).append(holding)
    return found


def _of_cluster_queue(quota_cache: QuotaCache, name: str) -> Iterator[Gauge]:
    own = {"cluster_queue": name}
    queue, pending = quota_cache.state.queues[name], quota_cache.queues.cluster_queues.get(name)
    waiting = (pending.active, pending.inadmissible) if pending is not None else (0, 0)
    shapes = pending.shapes() if pending is not None else (0, 0)
    for status, count, kinds in zip(("active", "inadmissible"), waiting, shapes, strict=True):
        yield Gauge("pending_workloads", {**own, "status": status}, count)
        yield Gauge("pending_scheduling_hashes", {**own, "status": status}, kinds)
    asked: Counter[str] = Counter()
    infos = list(pending.in_order()) if pending is not None else []
    if infos:
        yield Gauge(HEAD_QUEUED, own, infos[0].queued_at.timestamp())
    for info in infos:
        for pod_set in info.pod_sets:
            asked.update(pod_set.total)
    for resource, amount in asked.items():
        yield Gauge("cluster_queue_resource_pending", {**own, "resource": resource}, _units(resource, amount))
    yield Gauge("reserving_active_workloads", own, len(queue.holdings))
    yield Gauge("admitted_active_workloads", own, sum(h.admitted for h in queue.holdings.values()))
    state = quota_cache.state
    if state.fair_sharing:
        share = Shares().of(queue.node)
        yield Gauge("cluster_queue_weighted_share", {**own, "cohort": queue.queue.spec.cohort_name}, _exported(share))
    yield Gauge(BLOCKED, own, float(pending is not None and pending.never is not None))
    if queue.queue.metadata.deletion_timestamp is not None:
        current = "terminating"
    else:
        current = "active" if quota_cache.is_active(name) else "pending"  # pending: exists and admits nothing
    for status in ("pending", "active", "terminating"):
        yield Gauge("cluster_queue_status", {**own, "status": status}, float(status == current))


def _quotas(quota_cache: QuotaCache, name: str) -> Iterator[Gauge]:
    queue = quota_cache.state.queues[name]
    used = _used(h for h in queue.holdings.values() if h.admitted)
    for fr, quota in queue.node.quotas.items():
        own = {"cohort": queue.queue.spec.cohort_name, "cluster_queue": name}
        own |= {"flavor": fr.flavor, "resource": fr.resource}
        reserved = queue.node.usage.get(fr, 0)
        yield Gauge("cluster_queue_resource_reservation", own, _units(fr.resource, reserved))
        yield Gauge("cluster_queue_resource_usage", own, _units(fr.resource, used[fr]))
        yield Gauge("cluster_queue_nominal_quota", own, _units(fr.resource, quota.nominal))
        for limit, value in (("borrowing", quota.borrowing_limit), ("lending", quota.lending_limit)):
            amount = float("inf") if value is None else _units(fr.resource, value)
            yield Gauge(f"cluster_queue_{limit}_limit", own, amount)


def _of_trees(state: SchedulerState) -> Iterator[Gauge]:
    """Yield the series of cohorts, and the cohort and root of each ClusterQueue; none if cohorts form a cycle."""
    reserved: dict[str, Counter[FlavorResource]] = {}
    admitted: Counter[str] = Counter()
    for queue in state.queues.values():
        if state.cycle_above(queue.name):
            continue
        yield Gauge("cluster_queue_info", {"cluster_queue": queue.name, **_place(queue.node)}, 1)
        for cohort in ancestors(queue.node):
            reserved.setdefault(cohort.name, Counter()).update(queue.node.usage)
            admitted[cohort.name] += sum(h.admitted for h in queue.holdings.values())
    for node in state.forest.cohorts.values():
        if not state.forest.cycle_above(node):
            own = {"cohort": node.name}
            yield Gauge("cohort_info", {**own, **_place(node)}, 1)
            yield Gauge("cohort_subtree_admitted_active_workloads", own, admitted[node.name])
            if state.fair_sharing:
                yield Gauge("cohort_weighted_share", own, _exported(Shares().of(node)))
            yield from _amounts("cohort_subtree_quota", own, node.subtree)
            yield from _amounts("cohort_subtree_resource_reservations", own, reserved.get(node.name, {}))


def ancestors(node: QuotaNode) -> Iterator[QuotaNode]:
    """The cohorts above a node, up to the root."""
    return islice(node.path(), 1, None)


def _exported(share: Share) -> float:
    """NaN for an infinite share, as Kueue."""
    return float("nan") if share.infinite else float(share.per_mille)


def _place(node: QuotaNode) -> dict[str, str]:
    above = [cohort.name for cohort in ancestors(node)]
    root = above[-1] if above else node.name if node.is_cohort else ""
    return {"parent_cohort": above[0] if above else "", "root_cohort": root}


def _amounts(name: str, own: dict[str, str], amounts: Usage) -> Iterator[Gauge]:
    """A series for each amount above zero, as Kueue has them."""
    for fr, amount in amounts.items():
        if amount > 0:
            units = _units(fr.resource, min(INT64_MAX, amount))
            yield Gauge(name, {**own, "flavor": fr.flavor, "resource": fr.resource}, units)


def _of_local_queue(quota_cache: QuotaCache, key: Key, mine: list[Holding], *, resources: bool) -> Iterator[Gauge]:
    local = quota_cache.queues.local_queues[key]
    own = {"name": key.name, "namespace": key.namespace}
    active, parked = quota_cache.queues.pending_by_status(key)
    yield Gauge("local_queue_pending_workloads", {**own, "status": "active"}, active)
    yield Gauge("local_queue_pending_workloads", {**own, "status": "inadmissible"}, parked)
    yield Gauge("local_queue_reserving_active_workloads", own, len(mine))
    yield Gauge("local_queue_admitted_active_workloads", own, sum(h.admitted for h in mine))
    now = str(not stops(local.spec.stop_policy) and quota_cache.is_active(local.spec.cluster_queue))
    for value in ("True", "False", "Unknown"):
        yield Gauge("local_queue_status", {**own, "active": value}, float(value == now))
    past = quota_cache.queues.ledger.get(key)
    if past is not None:
        usage = quota_cache.queues.weighted_usage(key)
        where = {**own, "cluster_queue": local.spec.cluster_queue}
        amount = float("inf") if usage.last else float(usage.amount / PER_UNIT)
        yield Gauge("local_queue_admission_fair_sharing_usage", where, amount)
    state = quota_cache.state.queues.get(local.spec.cluster_queue)
    if not resources or state is None:
        return
    reserved, used = _used(mine), _used(h for h in mine if h.admitted)
    for fr in state.node.quotas:
        where = {**own, "flavor": fr.flavor, "resource": fr.resource}
        yield Gauge("local_queue_resource_reservation", where, _units(fr.resource, reserved[fr]))
        yield Gauge("local_queue_resource_usage", where, _units(fr.resource, used[fr]))


def _counted(quota_cache: QuotaCache, workloads: list[Workload], is_exported: Callable[[Key], bool]) -> Iterator[Gauge]:
    """Finished and unadmitted Workloads, by their own conditions."""
    ended: Counter[tuple[str, Key]] = Counter()
    waiting: Counter[tuple[str, Key, str, str]] = Counter()
    for w in workloads:
        where = _cluster_queue(quota_cache, w), w.local_queue
        if w.is_true(condition_types.FINISHED):
            ended[where] += 1
        elif not w.is_true(condition_types.ADMITTED):
            waiting[(*where, *unadmitted_reason(w))] += 1
    finished: Counter[str] = Counter()
    for (cluster_queue, key), count in ended.items():
        finished[cluster_queue] += count
        if is_exported(key):
            own = {"name": key.name, "namespace": key.namespace}
            yield Gauge("local_queue_finished_workloads", own, count)
    for cluster_queue, count in finished.items():
        yield Gauge("finished_workloads", {"cluster_queue": cluster_queue}, count)
    unadmitted: Counter[tuple[str, str, str]] = Counter()
    for (cluster_queue, key, reason, cause), count in waiting.items():
        unadmitted[cluster_queue, reason, cause] += count
        if is_exported(key):
            own = {"name": key.name, "namespace": key.namespace, "cluster_queue": cluster_queue}
            yield Gauge("local_queue_unadmitted_workloads", {**own, "reason": reason, "underlying_cause": cause}, count)
    for (cluster_queue, reason, cause), count in unadmitted.items():
        own = {"cluster_queue": cluster_queue, "reason": reason, "underlying_cause": cause}
        yield Gauge("unadmitted_workloads", own, count)


def unadmitted_reason(w: Workload) -> tuple[str, str]:
    """(reason, underlying cause) of an unadmitted Workload, from its conditions Admitted and QuotaReserved."""
    if w.is_true(condition_types.QUOTA_RESERVED):
        admitted = w.condition(condition_types.ADMITTED)
        return (admitted.reason if admitted is not None else reasons.UNSATISFIED_CHECKS), ""
    reserved = w.condition(condition_types.QUOTA_RESERVED)
    return reasons.NO_RESERVATION, reserved.reason if reserved is not None else reasons.PENDING_EVALUATION


def _cluster_queue(quota_cache: QuotaCache, w: Workload) -> str:
    if w.status.admission is not None:
        return w.status.admission.cluster_queue
    local = quota_cache.queues.local_queues.get(w.local_queue)
    return local.spec.cluster_queue if local is not None else ""


def _used(holdings: Iterable[Holding]) -> Counter[FlavorResource]:
    total: Counter[FlavorResource] = Counter()
    for holding in holdings:
        for fr, amount in holding.usage.items():  # Counter.update takes five times as long
            total[fr] += amount
    return total


def _units(resource: str, amount: int) -> float:
    return amount / UNITS.get(resource, 1)

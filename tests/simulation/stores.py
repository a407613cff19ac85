"""Random stores of the queue's objects at one moment, and the decisions of the real scheduler on them.

A store may be anything that the API admits: running Workloads may hold more than the quota, queues may be missing,
stopped or below a cycle of Cohorts, Workloads in backoff, gated, inactive or evicted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from queue_manager.api import reasons
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from queue_manager.api.types import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LimitRange,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    RuntimeClass,
    Workload,
)
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.scheduler.admission_loop import Scheduler
from queue_manager.scheduler.pending_reasons import PendingReasons
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.workload_writer import WorkloadWriter
from queue_manager.scheduling.backfill import BackfillRules
from queue_manager.scheduling.fair_preemption import FINAL_SHARE, INITIAL_SHARE
from queue_manager.scheduling.usage_decay import UsageDecay
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.unit.queueing.builders import (
    T0,
    cluster_queue,
    cohort,
    condition,
    flavor,
    local_queue,
    wire,
    workload,
)

FLAVORS = ("spot", "plain")
NAMES = ("a", "b", "c")
WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
RECLAIM = ("Never", "LowerPriority", "Any")
Seen = TypeVar("Seen")
MOST_CYCLES = 2_000  # for all states at rest of a store; some 100 are needed
USAGE_BASED = {"admissionMode": "UsageBasedAdmissionFairSharing"}


# --- generated stores --------------------------------------------------------------------------------------


def crowded_store(rng: Random) -> ClusterObjects:
    """A random store in which most Workloads wait for quota that others hold; `now` is T0."""
    queues = [_crowded_queue(rng, name) for name in NAMES]
    locals_ = [local_queue(f"{name}{i}", name, namespace=f"ns{i}") for name in NAMES for i in (1, 2)]
    return ClusterObjects(
        workloads=[_crowding(rng, i) for i in range(rng.randint(6, 14))],
        local_queues=[_with_past_usage(rng, each) for each in locals_],
        cluster_queues=queues,
        cohorts=list(_cohorts(rng)),
        flavors=[flavor(name, nodeLabels={"kind": name}) for name in FLAVORS],
        namespaces=[_namespace("ns1", {"team": "x"}), _namespace("ns2", {})],
    )


def _crowded_queue(rng: Random, name: str) -> ClusterQueue:
    """With a quota of at least 1 cpu, in a cohort, and perhaps in the order of past usage."""
    found = _cluster_queue(rng, name)
    quotas = {flavor: {"cpu": _limited(rng)} for flavor in FLAVORS[: rng.randint(1, 2)]}
    more = {"admissionScope": USAGE_BASED} if rng.random() < 0.4 else {}
    cohort_name = rng.choice(("left", "left", "top"))
    base = cluster_queue(name, quotas=quotas, cohortName=cohort_name, **more)
    kept = {
        "preemption": found.spec.preemption,
        "flavor_fungibility": found.spec.flavor_fungibility,
        "queueing_strategy": found.spec.queueing_strategy,
    }
    return msgspec.structs.replace(base, spec=msgspec.structs.replace(base.spec, **kept))


def _limited(rng: Random) -> dict[str, str]:
    found = {"nominalQuota": str(rng.randint(1, 4))}
    found |= {"borrowingLimit": str(rng.randint(0, 3))} if rng.random() < 0.5 else {}
    return found | ({"lendingLimit": str(rng.randint(0, 3))} if rng.random() < 0.3 else {})


def _crowding(rng: Random, number: int) -> Workload:
    """Runs, or is pending with a request that some queue could hold."""
    namespace = rng.choice(("ns1", "ns2"))
    queue, cpu, priority = (
        f"{rng.choice(NAMES)}{namespace[-1]}",
        rng.choice((1, 1, 2, 2, 3, 4)),
        rng.choice((0, 0, 1, 2)),
    )
    more: dict[str, Any] = {"spec": {"maximumExecutionTimeSeconds": rng.randint(1, 100)} if rng.random() < 0.5 else {}}
    state = rng.random()
    if state < 0.5:
        more |= _holds(rng, queue[0], cpu, 1)
    elif state < 0.55:
        more |= _evicted(rng)
    elif state < 0.65:
        more["conditions"] = [condition("QuotaReserved", "False", reasons.WAITING_FOR_PREEMPTED)]
    basics = {"namespace": namespace, "queue": queue, "requests": {"cpu": str(cpu)}, "priority": priority}
    return workload(f"w{number}", **basics, created=-rng.randint(1, 50), **more)


def _with_past_usage(rng: Random, local: LocalQueue) -> LocalQueue:
    past = {"consumedResources": {"cpu": str(rng.randint(0, 9))}, "lastUpdate": wire(-rng.randint(0, 60))}
    status = {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": past}}
    return msgspec.structs.replace(local, status=msgspec.convert(status, type(local.status)))


def store(rng: Random) -> ClusterObjects:
    """A random store; `now` is T0."""
    queues = [name for name in NAMES if rng.random() < 0.9]
    return ClusterObjects(
        workloads=[_workload(rng, i) for i in range(rng.randint(1, 12))],
        local_queues=[
            local_queue(f"{name}{i}", name, namespace=f"ns{i}", stopPolicy="Hold" if rng.random() < 0.05 else "None")
            for name in NAMES
            for i in (1, 2)
            if rng.random() < 0.95
        ],
        cluster_queues=[_cluster_queue(rng, name) for name in queues],
        cohorts=list(_cohorts(rng)),
        flavors=[flavor(name, nodeLabels={"kind": name}) for name in FLAVORS if rng.random() < 0.97],
        namespaces=[_namespace("ns1", {"team": "x"}), _namespace("ns2", {})],
        limit_ranges=[_limit_range()] if rng.random() < 0.1 else [],
    )


def _namespace(name: str, labels: dict[str, str]) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": labels, "uid": f"uid-{name}"}}, Namespace)


def _limit_range() -> LimitRange:
    limits = [{"type": "Container", "max": {"cpu": "3"}}]
    tree = {"metadata": {"name": "limits", "namespace": "ns1", "uid": "uid-limits"}, "spec": {"limits": limits}}
    return msgspec.convert(tree, LimitRange)


def _cohorts(rng: Random) -> Iterator[Cohort]:
    for name, parents in (("left", ("", "top")), ("top", ("", "", "", "left"))):
        if rng.random() < 0.6:
            quotas = {"spot": {"cpu": str(rng.randint(0, 3))}} if rng.random() < 0.4 else None
            yield cohort(name, rng.choice(parents), quotas)


def _cluster_queue(rng: Random, name: str) -> ClusterQueue:
    def quota() -> dict[str, str]:
        found = {"nominalQuota": str(rng.randint(0, 5))}
        found |= {"borrowingLimit": str(rng.randint(0, 3))} if rng.random() < 0.3 else {}
        return found | ({"lendingLimit": str(rng.randint(0, 3))} if rng.random() < 0.3 else {})

    most = {"maxPriorityThreshold": rng.randint(0, 1)} if rng.random() < 0.5 else {}
    borrowing = {"borrowWithinCohort": {"policy": "LowerPriority", **most}} if rng.random() < 0.3 else {}
    spec: dict[str, Any] = {
        "preemption": {
            "withinClusterQueue": rng.choice(WITHIN),
            "reclaimWithinCohort": rng.choice(RECLAIM),
            **borrowing,
        },
        "flavorFungibility": {
            "whenCanBorrow": rng.choice(("MayStopSearch", "TryNextFlavor")),
            "whenCanPreempt": rng.choice(("MayStopSearch", "TryNextFlavor")),
        },
        "stopPolicy": "Hold" if rng.random() < 0.05 else "None",
    }
    spec |= {"cohortName": rng.choice(("left", "top"))} if rng.random() < 0.8 else {}
    spec |= {"namespaceSelector": {"matchLabels": {"team": "x"}}} if rng.random() < 0.15 else {}
    quotas = {each: {"cpu": quota()} for each in FLAVORS[: rng.randint(1, 2)]}
    strategy = rng.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"))
    return cluster_queue(name, quotas=quotas, strategy=strategy, **spec)


def _workload(rng: Random, number: int) -> Workload:
    namespace = rng.choice(("ns1", "ns2"))
    queue = f"{rng.choice((*NAMES, NAMES[0]))}{namespace[-1]}"
    cpu = rng.choice((1, 1, 2, 3, 6, 30))
    requests = {"cpu": str(cpu), **({"memory": "1Gi"} if rng.random() < 0.05 else {})}
    pod = {"nodeSelector": {"kind": rng.choice((*FLAVORS, "none"))}} if rng.random() < 0.15 else {}
    more: dict[str, Any] = {"namespace": namespace, "queue": queue, "requests": requests, "pod": pod}
    more |= {"priority": rng.choice((0, 0, 1, 2)), "created": -rng.randint(1, 50), "count": rng.choice((1, 1, 2))}
    more["spec"] = {"maximumExecutionTimeSeconds": rng.randint(1, 100)} if rng.random() < 0.5 else {}
    state = rng.random()
    if state < 0.4:
        more |= _holds(rng, queue[0], cpu * more["count"], more["count"])
    elif state < 0.5:
        more |= _evicted(rng)
    elif state < 0.54:
        more["spec"]["active"] = False
    elif state < 0.58:
        more["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "x/y"}
    elif rng.random() < 0.1:
        more["conditions"] = [condition("QuotaReserved", "False", reasons.WAITING_FOR_PREEMPTED)]
    return workload(f"w{number}", **more)


def _holds(rng: Random, queue: str, cpu: int, count: int) -> dict[str, Any]:
    assigned = {"name": "main", "flavors": {"cpu": rng.choice(FLAVORS)}, "resourceUsage": {"cpu": str(cpu)}}
    since = -rng.randint(1, 40)
    conditions = [condition(each, "True", each, seconds=since) for each in ("QuotaReserved", "Admitted")]
    conditions += [condition("PodsReady", "True", seconds=since)] if rng.random() < 0.8 else []
    conditions += [condition("Evicted", "True", "Preempted", seconds=since)] if rng.random() < 0.2 else []
    admission = {"clusterQueue": queue, "podSetAssignments": [{**assigned, "count": count}]}
    notes = {"sluice/min-runtime": f"{rng.randint(1, 60)}s"} if rng.random() < 0.25 else {}
    return {"conditions": conditions, "status": {"admission": admission}, "annotations": notes}


def _evicted(rng: Random) -> dict[str, Any]:
    conditions = [
        condition("QuotaReserved", "False", reasons.PENDING_EVALUATION),
        condition("Evicted", "True", reasons.PODS_READY_TIMEOUT),
        condition("Requeued", "False", rng.choice((reasons.PODS_READY_TIMEOUT, reasons.DEACTIVATED))),
    ]
    ahead = {"requeueState": {"count": 1, "requeueAt": wire(60)}} if rng.random() < 0.6 else {}
    return {"conditions": conditions, "status": ahead}


# --- the real scheduler ------------------------------------------------------------------------------------


class Decision(NamedTuple):
    """What the scheduler has decided about a Workload; `reason` "" and not admitted: nothing yet."""

    admitted: bool = False
    preempts: int = 0  # victims
    reason: str = ""


@dataclass
class Decided:
    """The scheduler at rest: its decisions by uid, and its own numbers."""

    decisions: dict[str, Decision]
    quota_cache: QuotaCache


class NoServer:
    """No request is sent: the scheduler's writes do not start within a test."""

    async def request(self, request: Request) -> Response:
        raise AssertionError(request.path)

    async def close(self) -> None:
        pass


def random_settings(rng: Random) -> WorkloadSettings:
    """Classical or fair preemption, with or without backfilling, minimum runtimes and blockAdmission."""
    backfill = _backfill_rules(rng)
    return WorkloadSettings(
        PodsReadySettings(block_admission=rng.random() < 0.1),
        fair_sharing=(FINAL_SHARE, INITIAL_SHARE) if rng.random() < 0.25 else (),
        backfill=backfill if rng.random() < 0.25 else None,
        max_min_runtime=rng.choice((None, 30.0)),
    )


def crowded_settings(rng: Random) -> WorkloadSettings:
    """Like `random_settings`, often with admission fair sharing."""
    decay = UsageDecay(rng.choice((0.0, 60.0)), 10.0, {"cpu": Fraction(1)}) if rng.random() < 0.5 else None
    return replace(random_settings(rng), usage_decay=decay)


def backfilling_settings(rng: Random) -> WorkloadSettings:
    """Like `crowded_settings`, always with backfilling."""
    found = crowded_settings(rng)
    return replace(found, backfill=found.backfill or _backfill_rules(rng))


def _backfill_rules(rng: Random) -> BackfillRules:
    return BackfillRules(timedelta(seconds=rng.randint(0, 40)), shortest_first=rng.random() < 0.5)


def decide(objects: ClusterObjects, settings: WorkloadSettings, now: datetime = T0) -> Decided:
    """The first decisions of a scheduler that starts on this store at `now`, until nothing more can be decided."""
    return run_virtual(_decide(objects, settings), start=now)


async def _decide(objects: ClusterObjects, settings: WorkloadSettings) -> Decided:
    _, quota_cache, scheduler = _start(objects, settings)
    reported = _reports(scheduler)
    settle(scheduler)
    decisions = {w.metadata.uid: _decision(w, quota_cache, reported) for w in objects.workloads}
    _cancel_tasks()
    return Decided(decisions, quota_cache)


def settle(scheduler: Scheduler) -> None:
    """Run cycles until nothing more can be decided. Raises AssertionError if they do not end."""
    while scheduler.cycle():
        assert scheduler.cycles < MOST_CYCLES, "cycles do not end"


class Rest(NamedTuple):
    """What is kept for or held by whom, by uid, when no cycle has anything to do; `stopping`: some hold on, evicted."""

    held: dict[str, bool]  # True: is being stopped
    reserved: dict[str, dict[str, str]]

    @property
    def stopping(self) -> bool:
        """Whether victims of a preemption still hold their quota."""
        return any(self.held.values())


def rests(objects: ClusterObjects, settings: WorkloadSettings, rng: Random) -> list[tuple[Rest, Rest]]:
    """States at rest of a scheduler, and what they are after every Workload was tried again."""

    def try_again(scheduler: Scheduler, quota_cache: QuotaCache) -> tuple[Rest, Rest]:
        before = _rest(quota_cache)
        quota_cache.requeue_inadmissible(list(quota_cache.queues.cluster_queues))
        settle(scheduler)
        return before, _rest(quota_cache)

    return look_at_rest(objects, settings, rng, try_again)


def look_at_rest(
    objects: ClusterObjects, settings: WorkloadSettings, rng: Random, look: Callable[[Scheduler, QuotaCache], Seen]
) -> list[Seen]:
    """What `look` sees each time when no cycle has anything to do. Between them a Workload goes: a victim, else one
    that runs, or that waits.
    """
    return run_virtual(_look_at_rest(objects, settings, rng, look))


async def _look_at_rest(
    objects: ClusterObjects, settings: WorkloadSettings, rng: Random, look: Callable[[Scheduler, QuotaCache], Seen]
) -> list[Seen]:
    runtime, quota_cache, scheduler = _start(objects, settings)
    holdings, left, found = quota_cache.state.holdings, list(objects.workloads), []
    while True:
        settle(scheduler)
        found.append(look(scheduler, quota_cache))
        going = [uid for uid, holding in holdings.items() if holding.evicted] or list(holdings)
        if not going:
            break
        if not any(holdings[uid].evicted for uid in going) and rng.random() < 0.3:
            going = [w.metadata.uid for w in left]
        gone = rng.choice(sorted(going))
        left = [w for w in left if w.metadata.uid != gone]
        runtime.cache(WORKLOADS, Workload).reset(left, len(found) + 1)
    _cancel_tasks()
    return found


def _rest(quota_cache: QuotaCache) -> Rest:
    state = quota_cache.state
    held = {uid: holding.evicted for uid, holding in state.holdings.items()}
    return Rest(held, {uid: dict(each.victims) for uid, each in state.reservations.items()})


def _start(objects: ClusterObjects, settings: WorkloadSettings) -> tuple[Runtime, QuotaCache, Scheduler]:
    runtime = Runtime(NoServer(), virtual_clock(), Random(0))
    writer = WorkloadWriter(runtime, settings, runtime.cache(WORKLOADS, Workload))
    quota_cache = QuotaCache(runtime, settings)
    scheduler = Scheduler(runtime, settings, quota_cache, writer)
    for resource, kind, some in (
        (NAMESPACES, Namespace, objects.namespaces),
        (RESOURCE_FLAVORS, ResourceFlavor, objects.flavors),
        (ADMISSION_CHECKS, AdmissionCheck, objects.checks),
        (LIMIT_RANGES, LimitRange, objects.limit_ranges),
        (RUNTIME_CLASSES, RuntimeClass, objects.runtime_classes),
        (COHORTS, Cohort, objects.cohorts),
        (CLUSTER_QUEUES, ClusterQueue, objects.cluster_queues),
        (LOCAL_QUEUES, LocalQueue, objects.local_queues),
        (WORKLOADS, Workload, objects.workloads),
    ):
        runtime.cache(resource, kind).reset(list(some), 1)
    quota_cache.restore_reservations()  # as `Scheduler.run` does
    return runtime, quota_cache, scheduler


def _cancel_tasks() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def _reports(scheduler: Scheduler) -> dict[str, str]:
    """By uid, the reason that the scheduler would write last."""
    found: dict[str, str] = {}
    pending: PendingReasons = scheduler._reasons
    report, preempt = pending.report, scheduler._preemptions.preempt

    def record(info, why, *more, **named):  # type: ignore[no-untyped-def]
        found[info.uid] = why.reason
        report(info, why, *more, **named)

    def record_preemption(decision):  # type: ignore[no-untyped-def]
        found[decision.info.uid] = decision.reason
        preempt(decision)

    pending.report = record  # type: ignore[method-assign]
    scheduler._preemptions.preempt = record_preemption  # type: ignore[method-assign]
    return found


def _decision(w: Workload, quota_cache: QuotaCache, reported: dict[str, str]) -> Decision:
    uid, key = w.metadata.uid, w.metadata.key
    if uid in quota_cache.state.holdings:
        return Decision(admitted=True)
    reservation = quota_cache.state.reservations.get(uid)
    if reservation is not None and uid in reported:  # else it fits, and blockAdmission holds it back
        return Decision(preempts=len(reservation.victims), reason=reasons.WAITING_FOR_PREEMPTED)
    bypassed = quota_cache.queues.bypassed(key)
    return Decision(reason=reported.get(uid) or (bypassed.reason if bypassed is not None else ""))

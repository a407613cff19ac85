"""What `sluice explain` says is what the scheduler decides, in any state of the store, and its numbers are right.

The decisions are those of the real quota cache and admission loop on the same store. The numbers are computed again
from the specs, by the equations of the quota tree. `EXPLAINED_STORES` sets how many stores of each kind are generated:
any store, and crowded ones, in which most Workloads wait for quota. Others are those of lives (`cohort_lives`).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

import pytest
from msgspec import structs

from job_controller.model import ObjectMeta
from queue_manager.api import reasons
from queue_manager.api.types import ClusterQueue, Cohort, Preemption, ResourceGroup, Workload, stops
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.queueing.outcomes import is_active
from queue_manager.scheduling.amounts import amount
from queue_manager.scheduling.backfill import NEVER
from queue_manager.scheduling.holdings import reserves_quota
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.visibility import reason_codes
from queue_manager.visibility.effects_of_changes import released
from queue_manager.visibility.explain_record import AheadRow, Explanation, Position, explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.scheduler_judgement import NEVER_REASONS, ClusterObjects
from tests.simulation.cohort_lives import life
from tests.simulation.cohort_play import play
from tests.simulation.cohort_samples import State
from tests.simulation.recount import Recount, free, total
from tests.simulation.stores import (
    FLAVORS,
    Decided,
    crowded_settings,
    crowded_store,
    decide,
    random_settings,
    store,
)
from tests.unit.queueing.builders import T0, cohort

STORES = int(os.environ.get("EXPLAINED_STORES", "1000"))
BATCH = 100
BATCHES = 2  # of each kind in `make test`
LIVES = int(os.environ.get("EXPLAINED_LIVES", "4"))


def batches(stores: int, often: int = BATCHES) -> list[object]:
    """The first store of each batch; `make test` tries `often` of them, and `make test-long` the others."""
    return [
        pytest.param(first, marks=pytest.mark.exhaustive if first >= often * BATCH else ())
        for first in range(0, stores, BATCH)
    ]


def explained(w: Workload, objects: ClusterObjects, settings: WorkloadSettings, now: datetime = T0) -> Explanation:
    local = next((q for q in objects.local_queues if q.metadata.key == w.local_queue), None)
    name = local.spec.cluster_queue if local is not None else ""
    above = next((q for q in objects.cluster_queues if q.metadata.name == name), None)
    return explain(None, w, Surroundings(objects, settings, local, above), now)


Q = TypeVar("Q", ClusterQueue, Cohort)
STOPPED = {"HOLD/Suspended"}
NEVER_CODES = {f"NEVER/{reason}" for reason in NEVER_REASONS}


def expected_now(w: Workload, state: State, decided: Decided) -> set[str]:
    """The codes that agree with the scheduler, and for a stopped queue with its decision after the release."""
    codes = expected(w, decided, state.now)
    if codes != STOPPED:
        return codes
    opened = with_released_queues(w, state.objects)
    beyond = expected(w, decide(opened, state.settings, state.now), state.now)
    return beyond if beyond <= NEVER_CODES else STOPPED | (beyond & NEVER_CODES)


def with_released_queues(w: Workload, objects: ClusterObjects) -> ClusterObjects:
    name = next(q.spec.cluster_queue for q in objects.local_queues if q.metadata.key == w.local_queue)
    return replace(
        objects,
        local_queues=[released(q) if q.metadata.key == w.local_queue else q for q in objects.local_queues],
        cluster_queues=[released(q) if q.metadata.name == name else q for q in objects.cluster_queues],
    )


def expected(w: Workload, decided: Decided, now: datetime) -> set[str]:
    """The codes that agree with the scheduler."""
    decision, cache = decided.decisions[w.metadata.uid], decided.quota_cache
    local = cache.queues.local_queues.get(w.local_queue)
    state = cache.state
    if local is None or local.spec.cluster_queue not in state.queues:
        return {"NEVER/Misconfigured"}
    if cache.queues.is_stopped(w.local_queue) or stops(state.queues[local.spec.cluster_queue].queue.spec.stop_policy):
        return STOPPED
    if not is_active(state, local.spec.cluster_queue):  # nobody holds it: a flavor is missing, or Cohorts form a cycle
        return {"NEVER/Misconfigured"}
    if decision.admitted:
        return {"WAIT/PendingEvaluation"}
    if decision.reason:
        return {reason_codes.code(decision.reason)}
    info = cache.queues.get(w.metadata.key)
    assert info is not None
    if info.in_backoff(now):
        return {"WAIT/Backoff" if info.requeue_at is not None else "WAIT/PendingEvaluation"}
    # The scheduler has not tried it, since the head of its StrictFIFO queue, or blockAdmission, is before it.
    never = {f"NEVER/{r}" for r in (reasons.EXCEEDS_MAX_QUOTA, reasons.NO_MATCHING_FLAVOR, reasons.MISCONFIGURED)}
    return {"WAIT/BehindHead", "WAIT/WaitingForPodsReady", *never}


def check_codes(state: State, seen: Counter[str], where: object) -> None:
    """Each pending Workload has the code of the scheduler's decision, and a whole explanation."""
    decided = decide(state.objects, state.settings, state.now)
    for w in filter(waits, state.objects.workloads):
        found = explained(w, state.objects, state.settings, state.now)
        assert found.code in expected_now(w, state, decided), (where, w.metadata.name, found)
        assert found.code in reason_codes.CODES
        assert found.sentence.endswith(".")
        assert found.changes
        assert found.next_command
        seen[found.code] += 1


# The least number of Workloads with each code in a batch of stores: any store, crowded ones.
OFTEN = {
    "WAIT/WaitingForQuota": (5, 80),
    "WAIT/WaitingForPreemptedWorkloads": (0, 15),
    "WAIT/PendingEvaluation": (20, 20),
    "WAIT/BehindHead": (0, 5),
    "WAIT/Backoff": (5, 8),
    "WAIT/WaitingForPodsReady": (0, 1),
    "NEVER/ExceedsMaxQuota": (10, 5),
    "NEVER/NoMatchingFlavor": (3, 0),
    "NEVER/Misconfigured": (10, 0),
    "HOLD/Suspended": (3, 0),
}


@pytest.mark.parametrize("batch", batches(STORES))
def test_the_code_is_what_the_scheduler_decides_on_the_same_store(batch: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(batch, batch + BATCH):
        rng = Random(seed)
        check_codes(State(store(rng), random_settings(rng), T0), seen, seed)
    assert not {code: seen[code] for code, (least, _) in OFTEN.items() if seen[code] < least}, seen


@pytest.mark.parametrize("batch", batches(2 * STORES))
def test_the_code_is_what_the_scheduler_decides_on_a_crowded_store(batch: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(batch, batch + BATCH):
        rng = Random(seed)
        check_codes(State(crowded_store(rng), crowded_settings(rng), T0), seen, seed)
    assert not {code: seen[code] for code, (_, least) in OFTEN.items() if seen[code] < least}, seen


@pytest.mark.parametrize("seed", range(LIVES))
def test_the_code_is_what_the_scheduler_decides_at_any_time_of_a_life(seed: int) -> None:
    seen: Counter[str] = Counter()
    for number, state in enumerate(play(life(seed)).states):
        workloads = [structs.replace(w, metadata=without_owners(w.metadata)) for w in state.objects.workloads]
        check_codes(state._replace(objects=replace(state.objects, workloads=workloads)), seen, (seed, number))


def without_owners(meta: ObjectMeta) -> ObjectMeta:
    """Of a Workload that stands for itself, since its Job is not given."""
    return structs.replace(meta, owner_references=())


@pytest.mark.parametrize("batch", batches(STORES // 2))
def test_enough_quota_is_released_at_the_time_that_is_said_and_not_before(batch: int) -> None:
    """One Workload is pending. Those that have to end until then are gone, or all but the last one."""
    checked = Counter[str]()
    for seed in range(batch, batch + BATCH):
        rng = Random(seed)
        objects, settings = crowded_store(rng), replace(random_settings(rng), pods_ready=None, backfill=None)
        running = [w for w in objects.workloads if reserves_quota(w)]
        for w in [each for each in objects.workloads if waits(each)][:4]:
            found = explained(w, replace(objects, workloads=[*running, w]), settings)
            if found.released_by is None:
                checked["not known"] += bool(found.release)
                continue
            by = found.released_by
            ends = {r.metadata.uid: end_of(r) for r in running}
            for gone, admitted in ((lambda end, by=by: end <= by, True), (lambda end, by=by: end < by, False)):
                left = [r for r in running if not gone(ends[r.metadata.uid])]
                decided = decide(replace(objects, workloads=[*left, w]), settings).decisions[w.metadata.uid]
                assert decided.admitted == admitted, (seed, w.metadata.name, found)
            checked["known"] += 1
    print(checked)
    assert min(checked["known"], checked["not known"]) >= 5, checked


def end_of(w: Workload) -> datetime:
    """When a Workload that runs has to have ended: one that is being stopped, now."""
    evicted, admitted = w.condition("Evicted"), w.condition("Admitted")
    if evicted is not None and evicted.is_true:
        return T0
    most = w.spec.maximum_execution_time_seconds
    assert admitted is not None
    assert admitted.last_transition_time is not None
    return max(T0, admitted.last_transition_time + timedelta(seconds=most)) if most is not None else NEVER


@pytest.mark.parametrize("batch", batches(STORES))
def test_free_limit_borrowable_holders_and_position_are_those_of_a_recount(batch: int) -> None:
    checked = Counter[str]()
    for seed in range(batch, batch + BATCH):
        rng = Random(seed)
        objects, settings = store(rng), random_settings(rng)
        decided = decide(objects, settings)
        for w in filter(waits, objects.workloads):
            found = explained(w, objects, settings)
            if found.position is not None:
                assert found.position == position(w, objects), (seed, w.metadata.name)
                checked["position"] += 1
            if any(row.free is not None and row.flavor for row in found.flavors):
                check_numbers(w, found, objects, decided, checked)
    assert min(checked["free"], 4 * checked["holders"]) > BATCH, checked


@pytest.mark.parametrize("batch", batches(STORES))
def test_advice_about_preemption_is_given_if_and_only_if_it_helps(batch: int) -> None:
    """One Workload is pending. Each advice is followed in the store, and the scheduler decides again."""
    advised: Counter[tuple[str, bool]] = Counter()
    for seed in range(batch, batch + BATCH):
        rng = Random(seed)
        objects, settings = store(rng), replace(random_settings(rng), pods_ready=None)
        running = [w for w in objects.workloads if reserves_quota(w)]
        for w in [each for each in objects.workloads if waits(each)][:2]:
            alone = replace(objects, workloads=[*running, w])
            found = explained(w, alone, settings)
            if found.code != "WAIT/WaitingForQuota" or not found.preemptions:
                continue
            for field, changed in changed_policies(alone, found.cluster_queue):
                helps = decide(changed, settings).decisions[w.metadata.uid].preempts > 0
                text = f"an admin allows it to preempt ({field} of ClusterQueue {found.cluster_queue})"
                advised[field, helps] += 1
                assert (text in found.changes) == helps, (seed, w.metadata.name, text, found)

            helps = preempts_with(100, w, alone, settings)
            above = [int(n) for change in found.changes for n in HIGHER.findall(change)]
            assert (len(above) == 1) == helps, (seed, w.metadata.name, found)
            assert all(preempts_with(n + 1, w, alone, settings) for n in above), (seed, w.metadata.name, found)
            advised["priority", helps] += 1
    helpful = sum(count for (_, helps), count in advised.items() if helps)
    assert min(helpful, advised.total() - helpful) >= 1, advised


HIGHER = re.compile("it gets a priority above (.+)")
FIRST_STEPS = ("withinClusterQueue: LowerPriority", "reclaimWithinCohort: LowerPriority")


def preempts_with(priority: int, w: Workload, objects: ClusterObjects, settings: WorkloadSettings) -> bool:
    """Whether the Workload preempts others once it has this priority."""
    higher = structs.replace(w, spec=structs.replace(w.spec, priority=priority))
    others = (each for each in objects.workloads if each is not w)
    return decide(replace(objects, workloads=[*others, higher]), settings).decisions[w.metadata.uid].preempts > 0


def changed_policies(objects: ClusterObjects, name: str) -> Iterator[tuple[str, ClusterObjects]]:
    """The objects with a policy of the ClusterQueue that allows some preemption instead of none."""
    queue = next(each for each in objects.cluster_queues if each.metadata.name == name)
    given = queue.spec.preemption
    if given.within_cluster_queue == "Never":
        yield FIRST_STEPS[0], with_policy(objects, queue, structs.replace(given, within_cluster_queue="LowerPriority"))
    if given.reclaim_within_cohort == "Never":
        yield FIRST_STEPS[1], with_policy(objects, queue, structs.replace(given, reclaim_within_cohort="LowerPriority"))


def with_policy(objects: ClusterObjects, queue: ClusterQueue, policy: Preemption) -> ClusterObjects:
    changed = structs.replace(queue, spec=structs.replace(queue.spec, preemption=policy))
    return replace(objects, cluster_queues=[changed if each is queue else each for each in objects.cluster_queues])


@pytest.mark.parametrize("batch", batches(STORES))
def test_a_limit_is_named_if_and_only_if_raising_it_helps(batch: int) -> None:
    """One Workload of one pod set is pending. Without the limits that are named the scheduler admits it."""
    seen: Counter[str] = Counter()
    for seed in range(batch, batch + BATCH):
        rng = Random(seed)
        cohorts = [cohort("left", "top", quotas_of_left(rng)), cohort("top", "", {"spot": {"cpu": "2"}})]
        objects = replace(crowded_store(rng), cohorts=cohorts)
        settings = replace(random_settings(rng), pods_ready=None, backfill=None)
        running = [w for w in objects.workloads if reserves_quota(w)]
        for w in [each for each in objects.workloads if waits(each)][:3]:
            alone = replace(objects, workloads=[*running, w])
            found = explained(w, alone, settings)
            if found.code not in ("WAIT/WaitingForQuota", "NEVER/ExceedsMaxQuota"):
                continue
            is_never = found.code.startswith("NEVER")
            for kind in ("borrowing", "lending") if is_never else ("borrowing",):
                advice = [each for each in found.changes if re.match(f"an admin raises the {kind} limits? of", each)]
                limited = {
                    name for text in advice for name in re.findall(r"(?:ClusterQueue|Cohort) \S+?(?=,|$| and )", text)
                }
                helps = partial(helps_without_limits, alone, settings, w, f"{kind}_limit")
                assert helps(limited if advice else None) == bool(advice), (seed, w.metadata.name, kind, advice)
                if len(advice) == 1:
                    assert not any(helps(limited - {name}) for name in limited), (seed, w.metadata.name, advice)
                seen[f"{kind} {bool(advice)}"] += 1
    assert min(seen["borrowing True"], seen["borrowing False"]) > 0, seen


def helps_without_limits(
    objects: ClusterObjects, settings: WorkloadSettings, w: Workload, limit: str, names: Collection[str] | None
) -> bool:
    """Whether the Workload is admitted, or of one that can never fit, whether it can, without these limits."""
    before = decide(objects, settings).decisions[w.metadata.uid].reason
    then = decide(without_limits(objects, limit, names), settings).decisions[w.metadata.uid]
    return then.reason != before if before == "ExceedsMaxQuota" else then.admitted


def quotas_of_left(rng: Random) -> dict[str, Any]:
    """Quotas of a Cohort, with borrowing limits."""
    return {
        name: {"cpu": {"nominalQuota": str(rng.randint(0, 2)), "borrowingLimit": str(rng.randint(0, 2))}}
        for name in FLAVORS
    }


def names_a_mismatch(verdict: str) -> bool:
    """Whether the flavor would not do with more quota either."""
    return "taint" in verdict or "affinity" in verdict


def without_limits(objects: ClusterObjects, limit: str, names: Collection[str] | None = None) -> ClusterObjects:
    """The objects without the `limit` (field) of these ClusterQueues and Cohorts; None: of all."""

    def unlimited(groups: tuple[ResourceGroup, ...]) -> tuple[ResourceGroup, ...]:
        return tuple(
            structs.replace(
                group,
                flavors=tuple(
                    structs.replace(
                        flavor,
                        resources=tuple(structs.replace(each, **{limit: None}) for each in flavor.resources),
                    )
                    for flavor in group.flavors
                ),
            )
            for group in groups
        )

    def opened(kind: str, each: Q) -> Q:
        if names is not None and f"{kind} {each.metadata.name}" not in names:
            return each
        return structs.replace(
            each, spec=structs.replace(each.spec, resource_groups=unlimited(each.spec.resource_groups))
        )

    return replace(
        objects,
        cluster_queues=[opened("ClusterQueue", each) for each in objects.cluster_queues],
        cohorts=[opened("Cohort", each) for each in objects.cohorts],
    )


def test_candidates_that_do_not_suffice_let_it_wait_even_without_them() -> None:
    """One Workload is pending. Where it could stop all that runs in a ClusterQueue, it waits without them too."""
    seen: Counter[str] = Counter()
    for seed in range(3 * BATCH):
        rng = Random(seed)
        objects, settings = store(rng), replace(random_settings(rng), pods_ready=None, backfill=None)
        running = [w for w in objects.workloads if reserves_quota(w)]
        for w in filter(waits, objects.workloads):
            found = explained(w, replace(objects, workloads=[*running, w]), settings)
            seen.update(row.verdict for row in found.preemptions)
            queues = {row.cluster_queue for row in found.preemptions if row.candidates == row.running}
            other = {row.cluster_queue for row in found.preemptions if row.verdict != "NotEnough"}
            if found.code != "WAIT/WaitingForQuota" or not queues - other:
                continue
            queues -= other
            staying = [r for r in running if r.status.admission and r.status.admission.cluster_queue not in queues]
            left = decide(replace(objects, workloads=[*staying, w]), settings).decisions[w.metadata.uid]
            assert not left.admitted, (seed, w.metadata.name, found)
            seen["checked"] += 1
    assert seen["checked"] >= 3, seen


def position(w: Workload, objects: ClusterObjects) -> Position:
    """By the rules of the order: priority, then age, then uid."""
    target = {q.metadata.key: q.spec.cluster_queue for q in objects.local_queues}
    mine = target[w.local_queue]
    pending = [each for each in objects.workloads if waits(each) and target.get(each.local_queue) == mine]
    ahead = [each for each in pending if order(each) < order(w)]
    queues = Counter(each.local_queue for each in ahead)
    rows = [AheadRow(namespace=q.namespace, queue=q.name, workloads=n) for q, n in sorted(queues.items())]
    local = queues[w.local_queue] + 1
    return Position(cluster_queue=len(ahead) + 1, of=len(pending), local_queue=local, ahead=rows)


def order(w: Workload) -> tuple[int, datetime | None, str]:
    evicted = w.condition("Evicted")
    since = evicted.last_transition_time if evicted is not None else w.metadata.creation_timestamp
    return -(w.spec.priority or 0), since, w.metadata.uid


def check_numbers(
    w: Workload, found: Explanation, objects: ClusterObjects, decided: Decided, checked: Counter[str]
) -> None:
    state = decided.quota_cache.state
    others = [h for h in state.holdings.values() if h.uid != w.metadata.uid]
    own = state.reservations.get(w.metadata.uid)  # those that come after it are not counted against it
    reserved = [r for r in state.reservations.values() if own is None or r.retry_order < own.retry_order]
    waiting = {each.metadata.uid: each for each in objects.workloads}
    priority, place = w.spec.priority or 0, order(w)
    passed = any(  # some reservations may not concern it
        r.info.priority < priority or (r.cluster_queue == found.cluster_queue and place < order(waiting[r.info.uid]))
        for r in reserved
    )
    now = Recount(objects, total((h.cluster_queue, h.usage) for h in others))
    node = ("cq", found.cluster_queue)
    short = set()
    for row in found.flavors:
        fr = FlavorResource(row.flavor, row.resource)
        limit = now.potential(node, fr)
        assert amount(row.resource, row.limit or "") == limit
        checked["limit"] += 1
        if passed:
            continue
        unused = free(objects, others, reserved, node, fr)
        own = max(0, now.quota(node, fr)[0] - now.used(node, fr))
        assert amount(row.resource, row.free or "") == max(0, unused)
        assert amount(row.resource, row.borrowable or "") == max(0, unused - own)
        assert amount(row.resource, row.kept or "") == max(0, now.available(node, fr) - unused)
        checked["free"] += 1
        if unused < amount(row.resource, row.requested) <= limit and not names_a_mismatch(row.verdict):
            short.add(fr)
    if short and not passed:
        related = set(state.relatives(found.cluster_queue))
        taken = {name: {fr for fr in short if now.takes(("cq", name), node, fr)} for name in related}
        holding = [h for h in others if any(h.usage.get(fr) for fr in taken.get(h.cluster_queue, ()))]
        assert sum(row.workloads for row in found.holders) == len(holding)
        assert sorted(job for row in found.holders for job in row.jobs) == sorted(str(h.key) for h in holding)
        checked["holders"] += 1

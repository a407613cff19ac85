"""Each check of an invariant can fail: a valid history with one violation is reported with the invariant's number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from queue_manager.scheduling.quota_tree import set_quotas
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.invariants import Broken, History, at_rest, condition, is_true, owner
from tests.simulation import lives
from tests.simulation.lives import Move, check_owed, check_quiet

Tree = dict[str, Any]
Line = tuple[bytes, bytes, Tree]
WORKLOADS, JOBS, PODS = b"workloads.kueue.x-k8s.io", b"jobs.batch", b"pods"
CLUSTER_QUEUES = b"clusterqueues.kueue.x-k8s.io"

# b hangs: it is evicted twice, deactivated, reactivated and ends; c is pending in a queue that is held for a while.
MOVES = [
    Move("submit", 0, 2),
    Move("submit", 1, 1, 5),
    Move("wait", 0, 0, 5),
    Move("wait", 0, 0, 5),
    Move("stop_cluster_queue", 0, 0, 3),
    Move("submit", 2, 0, 3),
    Move("stop_cluster_queue", 0, 2, 3),
]


@cache
def valid_history() -> tuple[list[bytes], Mapping[str, Tree]]:
    return run_virtual(lives.live(MOVES))


def lines() -> list[Line]:
    split = (line.split(b" ", 2) for line in valid_history()[0])
    return [(what, resource, msgspec.json.decode(data)) for what, resource, data in split]


def check(changed: list[Line]) -> None:
    history = History(
        lives.QUOTA, base=lives.BASE, maximum=lives.MAXIMUM, limit=lives.LIMIT, by_user=valid_history()[1]
    )
    history.check(b" ".join((what, resource, msgspec.json.encode(tree))) for what, resource, tree in changed)


def test_the_unchanged_history_is_valid() -> None:
    check(lines())


# --- violations ---------------------------------------------------------------------------


def became(kind: str) -> Callable[[Tree, Tree], bool]:
    return lambda old, new: is_true(new, kind) and not is_true(old, kind)


def lost(kind: str) -> Callable[[Tree, Tree], bool]:
    return lambda old, new: is_true(old, kind) and not is_true(new, kind)


def timed_out(old: Tree, new: Tree) -> bool:
    return became("Evicted")(old, new) and condition(new, "Evicted")["reason"] == "PodsReadyTimeout"


def reactivated(old: Tree, new: Tree) -> bool:
    return old.get("spec", {}).get("active") is False and bool(new["spec"].get("active"))


def set_condition(tree: Tree, kind: str, status: str) -> None:
    found = condition(tree, kind)
    if found:
        found["status"] = status
    else:
        tree.setdefault("status", {}).setdefault("conditions", []).append(
            {"type": kind, "status": status, "reason": "x"}
        )


def at(where: Callable[[Tree, Tree], bool], change: Callable[[Tree], None]) -> list[Line]:
    """The history in which the first Workload write that satisfies `where` is changed."""
    result, before, done = [], {}, False
    for what, resource, tree in lines():
        if resource == WORKLOADS and not done:
            old = before.get(tree["metadata"]["uid"], {"metadata": tree["metadata"], "spec": {}, "status": {}})
            before[tree["metadata"]["uid"]] = deepcopy(tree)
            if where(old, tree):
                done = True
                change(tree)
        result.append((what, resource, tree))
    assert done, "the scenario has no such write"
    return result


def job_of(workload: Tree, changed: list[Line], until: Tree) -> Tree:
    """The last state of a Workload's Job before a write."""
    found = None
    for _, resource, tree in changed:
        if tree is until:
            break
        if resource == JOBS and tree["metadata"]["uid"] == owner(workload):
            found = tree
    assert found is not None
    return found


def around_release(change: Callable[[Tree, list[Line]], None]) -> list[Line]:
    """Change the Job of the first Workload that gives its quota back without having ended."""
    result = lines()
    before: dict[str, Tree] = {}
    for _, resource, tree in result:
        if resource == WORKLOADS:
            old = before.get(tree["metadata"]["uid"])
            before[tree["metadata"]["uid"]] = tree
            if old is not None and lost("QuotaReserved")(old, tree) and not is_true(tree, "Finished"):
                change(job_of(tree, result, tree), result)
                return result
    raise AssertionError("no quota is released")


def while_the_queue_is_held() -> list[Line]:
    """The first reservation happens while the ClusterQueue is stopped."""
    result = lines()
    for _, resource, tree in result:
        if resource == CLUSTER_QUEUES:
            tree["spec"]["stopPolicy"] = "Hold"
        if resource == WORKLOADS and is_true(tree, "QuotaReserved"):
            break
    return result


def pod_of_a_suspended_job() -> list[Line]:
    result = lines()
    job = next(tree for _, resource, tree in result if resource == JOBS)
    job = deepcopy(job)
    job["spec"]["suspend"] = True
    pod = deepcopy(
        next(tree for _, resource, tree in result if resource == PODS and owner(tree) == job["metadata"]["uid"])
    )
    pod["metadata"]["uid"] = "new"
    quiet = [(b"MODIFIED", JOBS, job)] * 20
    first = next(i for i, (_, resource, _) in enumerate(result) if resource == PODS)
    return [*result[:first], *quiet, (b"ADDED", PODS, pod)]


def started_too_early() -> list[Line]:
    """Each Job starts before the admission of its Workload."""
    result = lines()
    for _, resource, tree in result:
        if resource == WORKLOADS:
            set_condition(tree, "Admitted", "False")
    return result


def no_user() -> list[Line]:
    result = lines()
    for _, resource, tree in result:
        if resource == WORKLOADS:
            tree["metadata"]["resourceVersion"] = "0"
    return result


def deeper(tree: Tree, **values: Any) -> None:
    tree["status"]["requeueState"] = {**(tree["status"].get("requeueState") or {}), **values}


def suspend_only(job: Tree, changed: list[Line]) -> None:
    job["spec"]["suspend"] = False


def keep_injected(job: Tree, changed: list[Line]) -> None:
    job["spec"]["template"]["spec"]["nodeSelector"] = {"kind": "spot"}


def leave_a_pod(job: Tree, changed: list[Line]) -> None:
    for _, resource, tree in changed:
        if resource == PODS and owner(tree) == job["metadata"]["uid"]:
            tree["status"]["phase"] = "Running"
    changed[:] = [line for line in changed if line[:2] != (b"DELETED", PODS)]


WRONG: dict[str, tuple[str, Callable[[], list[Line]]]] = {
    "more is reserved than there is": (
        "S1",
        lambda: at(
            became("QuotaReserved"),
            lambda w: w["status"]["admission"]["podSetAssignments"][0]["resourceUsage"].update(cpu="9"),
        ),
    ),
    "quota for an inactive one": ("S5", lambda: at(became("QuotaReserved"), lambda w: w["spec"].update(active=False))),
    "quota for a finished one": (
        "S5",
        lambda: at(became("QuotaReserved"), lambda w: set_condition(w, "Finished", "True")),
    ),
    "quota for a deleted one": (
        "S5",
        lambda: at(became("QuotaReserved"), lambda w: w["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z")),
    ),
    "quota on hold": ("S5", lambda: at(became("QuotaReserved"), lambda w: set_condition(w, "Requeued", "False"))),
    "quota before requeueAt": (
        "S5",
        lambda: at(became("QuotaReserved"), lambda w: deeper(w, requeueAt="2030-01-01T00:00:00Z")),
    ),
    "quota in a stopped queue": ("S5", while_the_queue_is_held),
    "a start without admission": ("S10", started_too_early),
    "a pod of a suspended Job": ("S10", pod_of_a_suspended_job),
    "what was injected stays": ("S11", lambda: around_release(keep_injected)),
    "a pod keeps its node": ("S12", lambda: around_release(leave_a_pod)),
    "an eviction that is not counted": ("S21", lambda: at(timed_out, lambda w: deeper(w, count=0))),
    "an eviction that counts twice": ("S21", lambda: at(timed_out, lambda w: deeper(w, count=2))),
    "a count without eviction": ("S21", lambda: at(became("QuotaReserved"), lambda w: deeper(w, count=1))),
    "quota for one that is to be deactivated": (
        "S21",
        lambda: at(became("QuotaReserved"), lambda w: set_condition(w, "DeactivationTarget", "True")),
    ),
    "a reactivation that keeps its count": ("S22", lambda: at(reactivated, lambda w: deeper(w, count=2))),
    "a reactivation without a user": ("S22", no_user),
    "a wait that is too short": ("S23", lambda: at(timed_out, lambda w: deeper(w, requeueAt="2026-01-01T00:00:00Z"))),
    "a wait that is too long": ("S23", lambda: at(timed_out, lambda w: deeper(w, requeueAt="2027-01-01T00:00:00Z"))),
    "no quota, and the Job runs on": ("L3", lambda: around_release(suspend_only)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_violation_in_a_history_is_found(what: str) -> None:
    number, make = WRONG[what]
    with pytest.raises(Broken, match=rf"^{number}"):
        check(make())


def test_a_retry_beyond_the_limit_is_found() -> None:
    history = History(lives.QUOTA, base=lives.BASE, maximum=lives.MAXIMUM, limit=1)
    with pytest.raises(Broken, match=r"^S21: job-b-\w+ is retried 2 times and the limit is 1"):
        history.check(valid_history()[0])


# --- the end -------------------------------------------------------------------------------------------------


def a_world_after(spoil: Callable[[lives.Lives], None]) -> None:
    async def scenario() -> None:
        outcomes: dict[str, lives.PodScript] = {}
        config = lives.loads(lives.CONFIG)
        async with lives.World(1, lambda pod: lives.OUTCOMES[2], config, separate_queue=True) as world:
            all_lives = lives.Lives(world, outcomes)
            await all_lives.queues()
            for move in (Move("submit", 0, 2, 3), Move("submit", 1, 1, 3), Move("submit", 2, 1, 3)):
                await all_lives.make(move)
            spoil(all_lives)
            at_rest(world)

    run_virtual(scenario())


def lose_from_the_queue(one: lives.Lives) -> None:
    queues = one.world.queue.quota_cache.queues
    for key in list(queues._queue_of):
        queues.remove(key)
    for uid in list(one.world.queue.quota_cache.state.holdings):
        one.world.queue.quota_cache.state.release(uid)


def count_twice_in_the_queue(one: lives.Lives) -> None:
    node = one.world.queue.quota_cache.state.queues["cq"].node
    node.add_all(dict.fromkeys(node.usage, 1))


def count_twice_in_the_cohort(one: lives.Lives) -> None:
    cohort = one.world.queue.quota_cache.state.forest.cohorts["team"]
    cohort.add_all(dict.fromkeys(cohort.usage, 1))


def forget_a_holding(one: lives.Lives) -> None:
    """The Workload is pending again and its quota is free, in memory only."""
    ledger = one.world.queue.quota_cache
    uid = next(iter(ledger.state.holdings))
    ledger.state.release(uid)
    workload = ledger._workloads.by_uid(uid)
    assert workload is not None
    ledger.queues.put(ledger.read(workload), one.world.clock.now())


def count_more_than_the_store_says(one: lives.Lives) -> None:
    """A holding is larger than its Workload, and all numbers in memory agree with it."""
    state = one.world.queue.quota_cache.state
    holding = next(iter(state.holdings.values()))
    state.hold(holding._replace(usage={fr: 2 * amount for fr, amount in holding.usage.items()}))


def raise_the_quota_in_memory(one: lives.Lives) -> None:
    """What waits for quota would be admitted if it were tried again, and nothing tries it."""
    node = one.world.queue.quota_cache.state.queues["cq"].node
    set_quotas(node, {fr: replace(quota, nominal=100 * quota.nominal) for fr, quota in node.quotas.items()})


@pytest.mark.parametrize(
    ("number", "spoil"),
    [
        (r"S2: cq counts [0-9]+ m cpu, and its Workloads hold 3$", count_more_than_the_store_says),
        (r"S26: job-c-\w+ says WaitingForQuota, and it is admitted$", raise_the_quota_in_memory),
        ("S4", lose_from_the_queue),
        ("S2", forget_a_holding),
        ("S2: ClusterQueue cq", count_twice_in_the_queue),
        ("S2: cohort team", count_twice_in_the_cohort),
    ],
)
def test_a_violation_in_memory_is_found(number: str, spoil: Callable[[lives.Lives], None]) -> None:
    with pytest.raises(Broken, match=rf"^{number}"):
        a_world_after(spoil)


def test_each_workload_of_a_running_cluster_is_in_one_place() -> None:
    a_world_after(lambda one: None)


def test_a_pending_workload_without_a_reason_is_found() -> None:
    def spoil(one: lives.Lives) -> None:
        ledger = one.world.queue.quota_cache
        stored = next(iter(one.world.store.scan("workloads.kueue.x-k8s.io")))
        tree = msgspec.json.decode(stored.data)
        for uid in list(ledger.state.holdings):
            ledger.state.release(uid)
        tree["status"]["conditions"] = []
        fresh = msgspec.convert(tree, type(next(iter(ledger._workloads.values()))), strict=False)
        ledger.queues.put(ledger.read(fresh), one.world.clock.now())
        lives_scan = one.world.store.scan
        data = SimpleNamespace(data=msgspec.json.encode(tree))
        one.world.store.scan = lambda kind: [data] if kind == "workloads.kueue.x-k8s.io" else lives_scan(kind)  # type: ignore[method-assign,assignment,return-value]

    with pytest.raises(Broken, match=r"^L6:"):
        a_world_after(spoil)


JOB = {"metadata": {"name": "a", "uid": "a"}, "status": {"conditions": []}}
ENDED = {**JOB, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def ticket(*conditions: str, active: bool = True) -> Tree:
    true = [{"type": kind, "status": "True"} for kind in conditions]
    meta = {"name": "w", "ownerReferences": [{"uid": "a", "controller": True}]}
    return {"metadata": meta, "spec": {"active": active}, "status": {"conditions": true}}


@pytest.mark.parametrize(
    ("number", "job", "workloads", "pods"),
    [
        ("L1", JOB, [], []),
        ("L1", JOB, [ticket()], []),
        ("L2", JOB, [ticket("Admitted")], []),
        ("L3", ENDED, [ticket("Finished")], [{"metadata": {"name": "p"}, "status": {"phase": "Running"}}]),
        ("L6", ENDED, [ticket("Admitted")], []),
        ("L10", JOB, [ticket(active=False)], []),
    ],
)
def test_a_job_that_should_have_run_is_found(number: str, job: Tree, workloads: list[Tree], pods: list[Tree]) -> None:
    with pytest.raises(Broken, match=rf"^{number}"):
        check_owed({"a": job}, workloads, pods)


def test_no_violation_is_found_when_all_has_ended() -> None:
    check_owed({"a": ENDED}, [ticket("Finished")], [{"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}}])


def test_a_write_at_rest_is_found() -> None:
    with pytest.raises(Broken, match=r"^L8:"):
        check_quiet(7, 8)


def waiting(name: str, priority: int, *conditions: Tree, cpu: int = 1, **status: Any) -> Tree:
    """A Workload; the resourceVersion is no user's."""
    rows = [{"name": "main", "resources": {"cpu": cpu}}]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
        "spec": {"priority": priority, "active": True, "podSets": [{"name": "main", "count": 1}]},
        "status": {"conditions": list(conditions), "resourceRequests": rows, **status},
    }


def has(kind: str, status: str, reason: str = "x", message: str = "") -> Tree:
    time = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


def holding(name: str, priority: int, *more: Tree, cpu: int = 1, **status: Any) -> Tree:
    assigned = {"podSetAssignments": [{"resourceUsage": {"cpu": cpu}}]}
    return waiting(name, priority, has("QuotaReserved", "True"), *more, admission=assigned, **status)


def victim(name: str, priority: int, by: str, times: int = 1, *, cpu: int = 1, holds: bool = True) -> Tree:
    text = f"Preempted to accommodate a workload (UID: {by}, JobUID: j) due to ..."
    stats = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": times}]}
    how = holding if holds else waiting
    more = (has("Preempted", "True", "InClusterQueue", text), has("Evicted", "True", "Preempted", text))
    return how(name, priority, *more, cpu=cpu, schedulingStats=stats)


WAITS = has("QuotaReserved", "False", "WaitingForPreemptedWorkloads")
LOW, HIGH = holding("low", 1), waiting("high", 9, WAITS)


def preemptions(*writes: Tree) -> None:
    lines = (b"MODIFIED " + WORKLOADS + b" " + msgspec.json.encode(tree) for tree in writes)
    History(quota=1).check(lines)


def test_a_right_preemption_is_not_found() -> None:
    released = victim("low", 1, "high", holds=False)
    preemptions(LOW, HIGH, victim("low", 1, "high"), released, holding("high", 9))


@pytest.mark.parametrize(
    ("number", "writes"),
    [
        ("S8", (holding("low", 10), HIGH, victim("low", 10, "high"))),
        ("S7", (LOW, HIGH, victim("low", 1, "high"), holding("low", 1), victim("low", 1, "high"))),
        ("S9", (LOW, HIGH, victim("low", 1, "high", times=3))),
        ("S7", (LOW, HIGH, victim("low", 1, "high"), victim("low", 1, "high", holds=False), holding("other", 9))),
    ],
    ids=["of a higher priority", "twice for one attempt", "again and again", "for the benefit of another one"],
)
def test_a_wrong_preemption_is_found(number: str, writes: tuple[Tree, ...]) -> None:
    with pytest.raises(Broken, match=f"^{number}:"):
        preemptions(*writes)

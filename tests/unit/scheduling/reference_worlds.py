"""Generated Worlds for `reference`, the same for one seed, and the product's state of a World."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from random import Random

from queue_manager.api.types import ClusterQueue, Cohort
from queue_manager.scheduling import victim_search
from queue_manager.scheduling.holdings import Holding, Reservation
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import Info
from tests.unit.queueing.builders import at, cluster_queue, cohort, flavor, pending
from tests.unit.scheduling.reference import (
    FR,
    Head,
    Held,
    Kept,
    Limits,
    Node,
    Policies,
    World,
    above,
    available,
    potential,
)
from tests.unit.scheduling.reference_cycle import ADMIT, REFUSE, as_preemptor, run_cycle
from tests.unit.scheduling.reference_preemption import FINAL_SHARE, INITIAL_SHARE, Preemptor

FLAVORS = ("red", "green", "blue")
RESOURCES = ("cpu", "example.com/gpu")
POLICY = ("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")
WEIGHTS = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(7, 2))
STRATEGIES = (
    (),
    (),
    (),
    (),
    (FINAL_SHARE, INITIAL_SHARE),
    (FINAL_SHARE,),
    (INITIAL_SHARE,),
    (INITIAL_SHARE, FINAL_SHARE),
)


# --- generation --------------------------------------------------------------------------------------------


def generate(seed: str) -> World:
    """A World of up to four cohorts in as many levels, five ClusterQueues, three flavors and two resources."""
    random = Random(seed)
    cohorts = [f"c{i}" for i in range(random.choice((0, 1, 2, 3, 3, 4)))]
    parents = {name: random.choice((*cohorts[:i], *cohorts[i - 1 : i] * 2, "")) for i, name in enumerate(cohorts)}
    groups = _groups(random)
    strategies = random.choice(STRATEGIES)
    bounded = random.choice((0.0, 0.3, 0.7))  # how often limits are set
    nodes = {name: _cohort(random, name, parents[name], groups, bounded) for name in cohorts}
    for i in range(random.choice((1, 2, 3, 4, 4, 5, 5))):
        parent = random.choice(cohorts) if cohorts and random.random() < 0.9 else ""
        nodes[f"q{i}"] = _queue(random, f"q{i}", parent, groups, bounded)
    world = World(nodes, strategies=strategies)
    for i in range(random.randint(6, 16)):
        world = _with_held(random, world, f"w{i}")
    heads = tuple(_head(random, world, name) for name in nodes if nodes[name].groups and random.random() < 0.8)
    preempted = {
        head.uid: {held.uid: random.randint(1, 3) for held in world.held if random.random() < 0.6}
        for head in heads
        if random.random() < 0.4
    }
    return replace(world, heads=heads, preempted=preempted)


def generate_later(seed: str) -> World:
    """The World after a cycle: some preemptors wait, some victims have stopped, and other heads have come."""
    random = Random(f"{seed}/later")
    world = generate(seed)
    for cycle in range(random.choice((1, 1, 2))):
        world = _after(random, world, cycle)
    return world


def _after(random: Random, world: World, cycle: int) -> World:
    decided = run_cycle(world)
    heads = {head.uid: head for head in world.heads}
    held, kept = list(world.held), {each.uid: each for each in world.kept if each.uid not in decided}
    victims: set[str] = set()
    for uid, each in decided.items():
        head = heads[uid]
        if each.outcome == ADMIT:
            held.append(Held(uid, head.queue, each.usage, head.priority, head.queued, 5))
        elif each.outcome != REFUSE:
            kept[uid] = Kept(uid, head.queue, head.priority, each.usage, each.borrow, dict(each.outcome))
            victims |= {uid for uid, _ in each.outcome}
    held = [replace(each, evicted=True) if each.uid in victims else each for each in held]
    held = [each for each in held if not (each.evicted and random.random() < 0.3)]
    world = replace(world, held=tuple(held), kept=tuple(kept.values()), memo={})
    return replace(world, heads=tuple(_heads_after(random, world, heads, cycle)))


def _heads_after(random: Random, world: World, before: Mapping[str, Head], cycle: int) -> Iterator[Head]:
    """Preemptors are mostly tried again, and otherwise others come: of higher priority too."""
    for name, node in world.nodes.items():
        waiting = [before[each.uid] for each in world.kept if each.queue == name and each.uid in before]
        if waiting and random.random() < 0.5:
            yield waiting[0]
        elif node.groups and random.random() < 0.8:
            head = _head(random, world, name)
            yield replace(head, uid=f"{head.uid}-{cycle}", priority=random.randint(0, 7))


def _groups(random: Random) -> tuple:
    flavors = FLAVORS[: random.choice((1, 1, 1, 2, 3))]
    if random.random() < 0.5:
        return ((RESOURCES[:1], flavors),)
    if len(flavors) > 1 and random.random() < 0.4:
        return ((RESOURCES[:1], flavors[:-1]), (RESOURCES[1:], flavors[-1:]))
    return ((RESOURCES, flavors),)


def _frs(groups: tuple) -> list[FR]:
    return [(flavor, resource) for resources, flavors in groups for flavor in flavors for resource in resources]


def _limits(random: Random, nominal: int, bounded: float) -> Limits:
    borrowing = random.randint(0, 6) if random.random() < bounded else None
    lending = random.randint(0, nominal) if random.random() < bounded else None
    return Limits(nominal, borrowing, lending)


def _cohort(random: Random, name: str, parent: str, groups: tuple, bounded: float) -> Node:
    quotas = {}
    if random.random() < 0.4:
        quotas = {fr: _limits(random, random.choice((0, 1, 2, 4)), bounded if parent else 0) for fr in _frs(groups)}
    return Node(name, parent, quotas, random.choice(WEIGHTS))


def _queue(random: Random, name: str, parent: str, groups: tuple, bounded: float) -> Node:
    own = tuple(
        (resources, tuple(random.sample(flavors, random.randint(1, len(flavors))))) for resources, flavors in groups
    )
    quotas = {fr: _limits(random, random.choice((0, 1, 2, 3, 4, 6, 8)), bounded if parent else 0) for fr in _frs(own)}
    policies = Policies(
        within=random.choice((*POLICY[:3], *POLICY[1:3])),
        reclaim=random.choice((*POLICY, *POLICY[1:], "Any")),
        borrow=random.choice(("Never", "LowerPriority")),
        threshold=random.choice((None, 0, 1, 2)),
        when_can_borrow=random.choice(("MayStopSearch", "TryNextFlavor")),
        when_can_preempt=random.choice(("MayStopSearch", "TryNextFlavor")),
        preference=random.choice(("", "BorrowingOverPreemption", "PreemptionOverBorrowing")),
    )
    if policies.borrow == "Never" or policies.reclaim == "Never":
        policies = replace(policies, borrow="Never", threshold=None)
    return Node(name, parent, quotas, random.choice(WEIGHTS), own, policies)


def _with_held(random: Random, world: World, uid: str) -> World:
    """One more Workload in some ClusterQueue. A few were admitted under quotas that have been lowered since."""
    queue = random.choice([n for n in world.nodes.values() if n.groups])
    usage = {}
    for resources, flavors in queue.groups:
        chosen = random.choice(flavors)
        usage |= {(chosen, r): random.choice((1, 1, 2, 3, 4)) for r in resources if random.random() < 0.8}
    fits = all(amount <= available(world, queue.name, fr) for fr, amount in usage.items())
    if not usage or (not fits and random.random() < 0.9):
        return world
    held = Held(
        uid, queue.name, usage, random.randint(0, 3), random.randint(0, 4), random.randint(0, 4), random.random() < 0.15
    )
    held = replace(held, arrival=random.randint(0, 2))
    return replace(world, held=(*world.held, held), memo={})


def _head(random: Random, world: World, queue: str) -> Head:
    resources = [r for covered, _ in world.nodes[queue].groups for r in covered]
    refused = frozenset(f for f in FLAVORS if random.random() < 0.1)
    sizes = [1, 2, 2, 3, 4, 6]

    def pod_set() -> dict[str, int]:
        wanted = [r for r in resources if random.random() < 0.85] or resources[:1]
        return {
            r: max(1, min(random.choice(sizes), _most(world, queue, r) + random.choice((0, 0, 0, 1)))) for r in wanted
        }

    pod_sets = tuple(pod_set() for _ in range(random.choice((1, 1, 1, 2))))
    return Head(f"h{queue}", queue, pod_sets, random.randint(0, 5), random.randint(0, 4), refused)


def _most(world: World, queue: str, resource: str) -> int:
    """What the ClusterQueue could use of a resource at most."""
    return max(potential(world, queue, fr) for fr in world.nodes[queue].quotas if fr[1] == resource)


def preemptor(world: World, head: Head, seed: str) -> Preemptor | None:
    """The head in random flavors; None if they hold it already."""
    random = Random(f"{seed}/flavors")
    usage: dict[FR, int] = {}
    for resources, flavors in world.nodes[head.queue].groups:
        chosen = random.choice(flavors)
        for resource in resources:
            amount = sum(requests.get(resource, 0) for requests in head.pod_sets)
            if amount:
                usage[chosen, resource] = amount
    needs = frozenset(fr for fr, amount in usage.items() if amount > available(world, head.queue, fr))
    return as_preemptor(world, head, usage, needs) if needs else None


# --- the product's state -----------------------------------------------------------------------------------


def quantity(resource: str, amount: int) -> str:
    """The reference counts cpu in thousandths, as the product does."""
    return f"{amount}m" if resource == "cpu" else str(amount)


def _quota(resource: str, given: Limits) -> dict:
    named = {"nominalQuota": given.nominal, "borrowingLimit": given.borrowing, "lendingLimit": given.lending}
    return {name: quantity(resource, amount) for name, amount in named.items() if amount is not None}


def _cohort_object(node: Node) -> Cohort:
    quotas: dict = {}
    for (name, resource), given in node.quotas.items():
        quotas.setdefault(name, {})[resource] = _quota(resource, given)
    return cohort(node.name, node.parent, quotas, fairSharing={"weight": _decimal(node.weight)})


def _decimal(weight: Fraction) -> str:
    return str(float(weight))


def _cluster_queue(node: Node) -> ClusterQueue:
    groups = [
        {f: {r: _quota(r, node.quotas[f, r]) for r in resources} for f in flavors} for resources, flavors in node.groups
    ]
    p = node.policies
    borrow = {"policy": p.borrow} | ({} if p.threshold is None else {"maxPriorityThreshold": p.threshold})
    fungibility = {"whenCanBorrow": p.when_can_borrow, "whenCanPreempt": p.when_can_preempt}
    return cluster_queue(
        node.name,
        groups=groups,
        cohortName=node.parent,
        fairSharing={"weight": _decimal(node.weight)},
        preemption={"withinClusterQueue": p.within, "reclaimWithinCohort": p.reclaim, "borrowWithinCohort": borrow},
        flavorFungibility=fungibility | ({"preference": p.preference} if p.preference else {}),
    )


def state_of(world: World) -> SchedulerState:
    state = SchedulerState()
    state.fair_sharing = world.strategies
    state.namespaces["ns"] = {}
    for name in FLAVORS:
        state.flavors[name] = flavor(name, nodeTaints=[{"key": name, "value": "x", "effect": "NoSchedule"}])
    for node in world.nodes.values():
        if node.groups:
            state.set_queue(_cluster_queue(node))
        else:
            state.set_cohort(_cohort_object(node))
    for held in world.held:
        state.hold(holding_of(held))
    for kept in world.kept:
        usage = {FlavorResource(*fr): amount for fr, amount in kept.usage.items()}
        waits = pending(kept.uid, uid=kept.uid, priority=kept.priority)
        state.reserve(Reservation(waits, kept.queue, usage, kept.borrow, kept.victims))
    state.preempted = {uid: Counter(counts) for uid, counts in world.preempted.items()}
    return state


def holding_of(held: Held) -> Holding:
    info = pending(held.uid, uid=held.uid)
    return Holding(
        uid=held.uid,
        key=info.key,
        cluster_queue=held.queue,
        queue=info.queue,
        usage={FlavorResource(*fr): amount for fr, amount in held.usage.items()},
        admitted=True,
        priority=held.priority,
        queued_at=at(held.queued),
        arrival=held.arrival,
        reserved_at=at(held.reserved),
        evicted=held.evicted,
    )


def info_of(head: Head) -> Info:
    tolerations = [{"key": name, "operator": "Exists"} for name in FLAVORS if name not in head.refused]
    pod_sets = [_pod_set(f"p{i}", requests, tolerations) for i, requests in enumerate(head.pod_sets)]
    return pending(head.uid, uid=head.uid, priority=head.priority, created=head.queued, spec={"podSets": pod_sets})


def _pod_set(name: str, requests: dict[str, int], tolerations: list[dict]) -> dict:
    wanted = {r: quantity(r, amount) for r, amount in requests.items()}
    container = {"name": "c", "image": "x", "resources": {"requests": wanted}}
    return {"name": name, "count": 1, "template": {"spec": {"containers": [container], "tolerations": tolerations}}}


def product_preemptor(state: SchedulerState, head: Head, p: Preemptor) -> victim_search.Preemptor:
    usage = {FlavorResource(*fr): amount for fr, amount in p.usage.items()}
    needs = frozenset(FlavorResource(*fr) for fr in p.needs)
    return victim_search.Preemptor(info_of(head), state.queues[p.queue], usage, needs, preempted=p.preempted)


# --- words -------------------------------------------------------------------------------------------------


def describe(world: World) -> str:
    """A World in few lines. Quotas as nominal, then +borrowingLimit and -lendingLimit."""
    lines = [f"strategies {world.strategies}"]
    for node in world.nodes.values():
        policies = {k: v for k, v in asdict(node.policies).items() if v != getattr(Policies(), k)}
        quotas = " ".join(f"{_name(fr)}={_limits_text(given)}" for fr, given in node.quotas.items())
        lines.append(f"{node.name} in {node.parent or '-'}: {quotas} weight={node.weight} {policies or ''}")
        lines += [f"   flavors of {','.join(r)}: {','.join(f)}" for r, f in node.groups]
    for held in world.held:
        times = f"priority={held.priority} queued={held.queued} reserved={held.reserved} arrival={held.arrival}"
        lines.append(f"{held.uid} in {held.queue}: {_usage_text(held.usage)} {times} {'evicted' * held.evicted}")
    if world.preempted:
        lines.append(f"preempted before: {world.preempted}")
    for kept in world.kept:
        where = f"for {kept.uid} in {kept.queue}: {_usage_text(kept.usage)} priority={kept.priority}"
        lines.append(f"kept {where} borrow={kept.borrow} victims={dict(kept.victims)}")
    for head in world.heads:
        refused = f"not in {sorted(head.refused)}" if head.refused else ""
        lines.append(f"{head.uid}: {head.pod_sets} priority={head.priority} queued={head.queued} {refused}")
    return "\n".join(f"    {line}" for line in lines)


def _name(fr: FR) -> str:
    return f"{fr[0]}/{fr[1].rpartition('/')[2]}"


def _usage_text(usage: Mapping[FR, int]) -> str:
    return " ".join(f"{_name(fr)}={amount}" for fr, amount in usage.items())


def _limits_text(given: Limits) -> str:
    borrowing = "" if given.borrowing is None else f"+{given.borrowing}"
    return f"{given.nominal}{borrowing}" + ("" if given.lending is None else f"-{given.lending}")


# --- smaller Worlds ----------------------------------------------------------------------------------------


def shrink(world: World, fails: Callable[[World], object]) -> World:
    """A World without any Workload, head or limit that the failure does not need."""
    while smaller := next((some for some in _smaller(world) if fails(some)), None):
        world = smaller
    return world


def _smaller(world: World) -> Iterator[World]:
    for head in world.heads:
        yield replace(world, heads=tuple(h for h in world.heads if h is not head), memo={})
    if world.preempted:
        yield replace(world, preempted={}, memo={})
    for kept in world.kept:
        yield replace(world, kept=tuple(k for k in world.kept if k is not kept), memo={})
    for held in world.held:
        yield world.without([held.uid])
    for name in world.nodes:
        yield from _simpler(world, world.nodes[name])
    used_names = {h.queue for h in (*world.held, *world.heads, *world.kept)}
    used_names |= {name for used_name in used_names for name in above(world, used_name)}
    for name in world.nodes.keys() - used_names:
        if not any(n.parent == name for n in world.nodes.values()):
            yield replace(world, nodes={k: n for k, n in world.nodes.items() if k != name}, memo={})


def _simpler(world: World, node: Node) -> Iterator[World]:
    changed = [
        replace(node, quotas={**node.quotas, fr: Limits(q.nominal)})
        for fr, q in node.quotas.items()
        if q[1:] != (None, None)
    ]
    if node.weight != 1:
        changed.append(replace(node, weight=Fraction(1)))
    if not node.groups:
        changed += [replace(node, quotas={k: v for k, v in node.quotas.items() if k != fr}) for fr in node.quotas]
    if (
        node.groups
        and node.policies != Policies()
        and not any(h.queue == node.name for h in (*world.heads, *world.kept))
    ):
        changed.append(replace(node, policies=Policies()))
    for simpler in changed:
        yield replace(world, nodes={**world.nodes, node.name: simpler}, memo={})

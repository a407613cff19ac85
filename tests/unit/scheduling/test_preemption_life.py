"""Whole lives: Workloads queue, preempt, stop late and run again, until all have run. With a shell of a few lines."""

from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_manager.queueing import outcomes
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.cycle import Admit, Preempt, Refuse, Retry, run_cycle
from queue_manager.scheduling.fair_preemption import INITIAL_SHARE
from queue_manager.scheduling.quota_state import MOST_RECLAIMS
from tests.examples import examples
from tests.unit.queueing.builders import T0, local_queue, pending
from tests.unit.scheduling.preemption_cases import CPU, queue, run, state


class Cluster:
    """Queues and quota, and what the shell does with outcomes. Victims stop when `stop` is called."""

    def __init__(self, queues, infos, seed):
        self.rng = Random(seed)
        self.now = T0
        self.state = state(*queues)
        self.queues = Queues()
        self.infos = {info.uid: info for info in infos}
        self.evictions: Counter[tuple[str, str]] = Counter()  # by preemptor and victim
        self.finished: set[str] = set()
        self.cycles = 0
        for each in queues:
            self.queues.set_cluster_queue(each, T0)
            self.queues.set_local_queue(local_queue(each.metadata.name, each.metadata.name), T0)
        for info in infos:
            self.queues.put(info, T0)

    def settle(self):
        """Run cycles until nothing changes."""
        while heads := outcomes.heads(self.state, self.queues, lambda _: True, self.now):
            self.cycles += 1
            assert self.cycles < 50 * (len(self.infos) + 1), "cycles do not end"
            withholding = outcomes.withholding_heads(self.state, self.queues, lambda _: True, heads)
            decided = run_cycle(self.state, heads, self.now, withholding=withholding)
            assert not all(isinstance(o, Refuse) and o.retry is Retry.NEXT_CYCLE for o in decided)
            ended = [done for outcome in decided if (done := self.carry_out(outcome)) is not None]
            takers = [outcome for outcome in decided if isinstance(outcome, Admit | Preempt)]
            outcomes.requeue_after_cycle(self.state, self.queues, takers, ended, self.try_again, backfills=False)
            self.check()

    def carry_out(self, outcome):
        match outcome:
            case Admit():
                outcomes.assume(self.state, self.queues, outcome, self.now)
            case Preempt():
                self.preempt(outcome)
            case Refuse():
                return outcomes.refuse(self.state, self.queues, outcome, self.now)
        return None

    def preempt(self, outcome):
        preemptor = outcome.info
        for victim in outcomes.await_victims(self.state, self.queues, outcome):
            own = victim.holding.cluster_queue == outcome.cluster_queue
            assert not own or victim.holding.priority <= preemptor.priority, "preempted a higher priority"
            self.evictions[preemptor.uid, victim.holding.uid] += 1
            if victim.holding.priority >= preemptor.priority and not own:
                assert self.evictions[preemptor.uid, victim.holding.uid] <= MOST_RECLAIMS, "preempted too often"

    def wake(self, name):
        self.try_again(self.state.relatives(name))

    def try_again(self, names, **which):
        outcomes.requeue_within_reach(self.state, self.queues, names, self.now, **which)

    def advance(self):
        """Time passes: one Workload that is being stopped has stopped, or else one has finished."""
        self.now += timedelta(seconds=1)
        holdings = sorted(self.state.holdings.values(), key=lambda h: h.uid)
        stopping = [h for h in holdings if h.evicted]
        if not holdings:
            return False
        gone = self.rng.choice(stopping or holdings)
        self.state.release(gone.uid)
        if gone.evicted:
            self.queues.put(self.infos[gone.uid], self.now)
        else:
            self.finished.add(gone.uid)
            self.state.forget(gone.uid)
        self.wake(gone.cluster_queue)
        return True

    def check(self):
        """No node is above its quota, and usage equals the holdings counted anew."""
        for name, each in self.state.queues.items():
            held = sum(h.usage.get(CPU, 0) for h in self.state.holdings.values() if h.cluster_queue == name)
            assert each.node.usage.get(CPU, 0) == held
            assert sorted(h.ranking for h in each.holdings.values()) == each.ranking
            for bound in range(5):
                below = sum(h.usage.get(CPU, 0) for h in each.holdings.values() if h.priority < bound)
                assert each.by_priority.below(bound, CPU) == below
            assert each.node.available(CPU) >= 0
        assert not self.state.reservations.keys() & self.state.holdings.keys()
        for reservation in self.state.reservations.values():
            assert self.queues.get(reservation.info.key) is not None


POLICIES = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
some_queues = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(POLICIES),
        st.sampled_from(["Never", "LowerPriority", "Any"]),
        st.sampled_from([None, {"policy": "LowerPriority"}, {"policy": "LowerPriority", "maxPriorityThreshold": 1}]),
        st.sampled_from(["BestEffortFIFO", "StrictFIFO"]),
    ),
    min_size=1,
    max_size=3,
)
some_workloads = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 3), st.integers(0, 9)), max_size=14
)


def build(queues, workloads, seed):
    specs = [
        queue(f"q{i}", str(cpu), "team", within, reclaim, borrowing if reclaim != "Never" else None, strategy=strategy)
        for i, (cpu, within, reclaim, borrowing, strategy) in enumerate(queues)
    ]
    total = sum(cpu for cpu, *_ in queues)
    infos = [
        pending(
            f"w{i}", requests={"cpu": str(cpu)}, priority=priority, created=created, queue=f"q{where % len(queues)}"
        )
        for i, (where, cpu, priority, created) in enumerate(workloads)
        if cpu <= total
    ]
    return Cluster(specs, infos, seed)


def run_to_the_end(cluster):
    cluster.settle()
    while cluster.advance():
        cluster.settle()
    assert cluster.finished == set(cluster.infos)
    assert not cluster.state.reservations
    assert not cluster.state.preempted


@settings(max_examples=examples(150), deadline=None)
@given(some_queues, some_workloads, st.integers(0, 99))
def test_all_run_in_the_end_and_none_is_evicted_again_and_again(queues, workloads, seed):
    run_to_the_end(build(queues, workloads, seed))


def crowded(seed):
    rng = Random(seed)
    borrowing = [None, {"policy": "LowerPriority"}, {"policy": "LowerPriority", "maxPriorityThreshold": 1}]
    queues = [
        (
            rng.randrange(5),
            rng.choice(POLICIES),
            rng.choice(["Never", "LowerPriority", "Any"]),
            rng.choice(borrowing),
            rng.choice(["BestEffortFIFO", "StrictFIFO"]),
        )
        for _ in range(rng.randint(1, 4))
    ]
    count = rng.randint(5, 25)
    workloads = [(rng.randrange(4), rng.randint(1, 4), rng.randrange(4), rng.randrange(9)) for _ in range(count)]
    return build(queues, workloads, seed)


@pytest.mark.parametrize("seed", [298, 304, 601, 642, 758, 1002, 1145, 1310])
def test_policies_that_contradict_each_other_do_not_make_a_circle(seed):
    """One queue reclaims from any priority, the next preempts lower ones while it borrows, and so on: in these, each of
    two or three Workloads may evict the next one.
    """
    run_to_the_end(crowded(seed))


@settings(max_examples=examples(150), deadline=None)
@given(some_queues, some_workloads, st.integers(0, 99))
@example(
    queues=[(3, "Never", "Any", None, "StrictFIFO")]
    + [(cpu, "Never", "Any", None, "BestEffortFIFO") for cpu in (0, 3)],
    workloads=[(0, 1, 0, 0)] * 5
    + [(0, 1, 0, 1), (2, 1, 0, 0), (2, 3, 0, 0), (0, 1, 0, 0), (0, 2, 0, 0), (1, 1, 0, 0)]
    + [(0, 1, 0, 0)],
    seed=0,
)  # a victim is again the head of the StrictFIFO queue in which the preemptor is
def test_a_preemptor_is_admitted_as_soon_as_its_victims_have_stopped(queues, workloads, seed):
    """Unless a higher priority arrives, nothing is kept for a preemptor whose victims have all stopped."""
    cluster = build(queues, workloads, seed)
    cluster.settle()
    while cluster.advance():
        cluster.settle()
        if cluster.state.reservations:
            assert any(holding.evicted for holding in cluster.state.holdings.values())


def test_at_rest_nothing_more_could_be_admitted():
    """Whoever is refused is tried again after every change that could alter the answer, though not after others."""
    for seed in range(40):
        cluster = crowded(seed)
        cluster.settle()
        while cluster.advance():
            cluster.settle()
            held, kept = dict(cluster.state.holdings), dict(cluster.state.reservations)
            cluster.queues.requeue_inadmissible(list(cluster.state.queues), cluster.now)
            cluster.settle()
            assert set(cluster.state.holdings) == set(held)
            # Otherwise queue_manager/BEHAVIOUR.md#q56-tries-after-a-preemption.
            if not any(holding.evicted for holding in held.values()):
                assert (cluster.state.holdings, cluster.state.reservations) == (held, kept)


def waiting(name, cpu, **fields):
    return pending(name, requests={"cpu": str(cpu)}, **fields)


def test_one_that_found_no_victims_is_tried_when_a_preemptor_is_admitted():
    """`late` has to do without quota that is kept for `early`, which is no candidate before it is admitted."""
    queues = (
        queue("own", "4", "team", reclaim="Any"),
        queue("borrower", "2", "team", within="LowerPriority"),
        queue("lender", "4", "team"),
    )
    early, late = waiting("early", 2, queue="borrower", priority=1), waiting("late", 4, queue="own", created=1)
    cluster = Cluster(queues, [early, late], 0)
    cluster.queues.remove(late.key)
    run(cluster.state, "protected", "borrower", 4, protected_until=T0 + timedelta(hours=1))
    run(cluster.state, "lent", "borrower", 2)
    run(cluster.state, "victim", "borrower", 2, created=1)
    run(cluster.state, "lender", "lender", 2)
    cluster.settle()
    (kept,) = cluster.state.reservations.values()
    cluster.queues.put(late, T0)
    cluster.settle()
    assert list(cluster.state.reservations) == [early.uid]
    (gone,) = kept.victims
    cluster.state.release(gone)
    cluster.wake("borrower")
    cluster.settle()
    assert early.uid in cluster.state.holdings
    assert early.uid in cluster.state.reservations[late.uid].victims


def test_with_fair_sharing_one_is_tried_when_another_queue_has_the_larger_share():
    """`late` uses the rest of the quota: only then has its ClusterQueue borrowed more than `early` would."""
    queues = queue("poor", "2", "team", reclaim="Any"), queue("rich", "2", "team"), queue("lender", "5", "team")
    early, late = waiting("early", 3, queue="poor", created=1), waiting("late", 2, queue="rich", priority=1)
    cluster = Cluster(queues, [early, late], 0)
    cluster.state.fair_sharing = (INITIAL_SHARE,)
    run(cluster.state, "poor", "poor", 2)
    run(cluster.state, "rich", "rich", 5)
    cluster.queues.remove(late.key)
    cluster.settle()
    assert not cluster.state.reservations
    cluster.queues.put(late, T0)
    cluster.settle()
    assert late.uid in cluster.state.holdings
    assert list(cluster.state.reservations) == [early.uid]

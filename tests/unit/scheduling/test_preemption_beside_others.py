"""Preemptors that lack several resources, or have a choice of flavors, beside the preemptors of other queues."""

import pytest

from queue_manager.api.policy_values import STRICT_FIFO
from queue_manager.queueing.queue_set import Queues
from queue_manager.queueing.rehearsal import Rehearsal
from queue_manager.scheduling.cycle import Admit, Preempt, Refuse
from queue_manager.scheduling.fair_preemption import FINAL_SHARE
from queue_manager.scheduling.holdings import Reservation
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.unit.queueing.builders import T0, cohort, local_queue, pending
from tests.unit.scheduling.preemption_cases import queue, run, state
from tests.unit.scheduling.test_preemption_cycle import carry_out, head, names, try_one


def amounts(cpu, memory):
    return {("default", "cpu"): cpu * 1000, ("default", "memory"): memory}


def quotas(cpu, memory):
    return {"default": {"cpu": str(cpu), "memory": str(memory)}}


@pytest.mark.parametrize(("priority", "victims"), [(20, ["x"]), (0, None)])
def test_a_victim_for_one_resource_may_release_enough_of_the_other(priority, victims):
    """x borrows cpu only, so it is no victim for memory alone."""
    s = state(
        queue("q0", cohort="r", reclaim="LowerPriority", quotas=quotas(4, 400)),
        queue("q1", cohort="r", quotas=quotas(0, 400)),
        queue("q2", cohort="r", quotas=quotas(2, 0)),
    )
    run(s, "x", "q1", usage=amounts(4, 400))
    run(s, "y", "q2", usage=amounts(2, 400), priority=30)
    outcome = try_one(s, pending("p", requests={"cpu": "4", "memory": "400"}, priority=priority), "q0")
    assert (names(outcome) if isinstance(outcome, Preempt) else None) == victims


@pytest.mark.parametrize(("memory", "outcome"), [(300, Admit), (200, Refuse)])
def test_what_is_kept_goes_only_to_who_could_reclaim_it(memory, outcome):
    """A preemptor waits for 4 cpus that it will borrow from q3. A head of q3 gets 3 of them if it borrows no memory."""
    s = state(
        queue("q0", cohort="r", reclaim="Any", borrowing={"policy": "LowerPriority"}, quotas=quotas(0, 1000)),
        queue("q1", cohort="r", quotas=quotas(0, 1000)),
        queue("q3", cohort="r", reclaim="Any", quotas=quotas(4, memory)),
    )
    run(s, "v1", "q1", usage=amounts(3, 100)), run(s, "v2", "q1", usage=amounts(1, 100))
    preemptor = try_one(s, pending("p", requests={"cpu": "4", "memory": "100"}, priority=30), "q0")
    assert sorted(names(preemptor)) == ["v1", "v2"]
    carry_out(s, preemptor)
    s.release("uid-v1")
    low = pending("low", requests={"cpu": "3", "memory": "300"}, created=9)
    assert isinstance(try_one(s, low, "q3"), outcome)


def test_one_that_fits_once_others_have_stopped_stops_none_in_another_flavor():
    """j7 releases 4 cpus of fa. Beside a higher priority the preemptor has to borrow 2 of them; in fb it need not."""
    flavors = ("fa", "fb")
    s = state(
        queue("q1", cohort="r", quotas={"fa": {"cpu": "0"}, "fb": {"cpu": "0"}}),
        queue("q2", cohort="r", reclaim="Any", quotas={"fa": {"cpu": "2"}, "fb": {"cpu": "2"}}),
        flavors=flavors,
    )
    s.set_cohort(cohort("r", quotas={"fa": {"cpu": "2"}, "fb": {"cpu": "0"}}))
    run(s, "j7", "q1", usage={("fa", "cpu"): 4000}), run(s, "j4", "q1", usage={("fb", "cpu"): 2000})
    first, higher = (head(name, 2, "q2", priority=priority)[1] for name, priority in (("first", 0), ("higher", 20)))
    for info in (first, higher, first):
        outcome = try_one(s, info, "q2")
        assert names(outcome) == ["j7"], info.key.name
        carry_out(s, outcome)


def test_beside_what_a_strict_head_withholds_another_flavor_is_found():
    """The head of q0 keeps the free cpu of fa from q1, which has cpus of its own in fb."""
    flavors = {"q0": ("2", "0"), "q1": ("0", "2"), "q2": ("2", "0")}
    more = {
        "q0": {"reclaim": "LowerPriority", "borrowing": {"policy": "LowerPriority"}, "queueingStrategy": STRICT_FIFO}
    }
    s, queues = state(flavors=("fa", "fb")), Queues()
    for name, (fa, fb) in flavors.items():
        made = queue(name, cohort="r", quotas={"fa": {"cpu": fa}, "fb": {"cpu": fb}}, **more.get(name, {}))
        s.set_queue(made)
        queues.set_cluster_queue(made, T0)
        queues.set_local_queue(local_queue(name, name), T0)
    run(s, "a", "q2", usage={("fa", "cpu"): 3000}, priority=30)
    for info in (pending("head", queue="q0", requests={"cpu": "4"}), pending("other", queue="q1", created=9)):
        queues.put(info, T0)
        outcome = Rehearsal(s, queues, T0).settle()[info.uid]
    assert isinstance(outcome, Admit)
    assert outcome.assignment.usage == {FlavorResource("fb", "cpu"): 1000}


def test_nothing_is_kept_for_one_that_its_strict_queue_blocks():
    """`behind` would fit once the victim has stopped. The victim is then before it, and blocks the queue."""
    s, queues = state(), Queues()
    s.set_cohort(cohort("a", "r"))
    made = [
        queue("q0", "2", "a"),
        queue("q1", "2", "a", reclaim="Any"),
        queue("q2", "2", "r", reclaim="LowerPriority", queueingStrategy=STRICT_FIFO),
    ]
    for each in made:
        s.set_queue(each)
        queues.set_cluster_queue(each, T0)
        queues.set_local_queue(local_queue(each.metadata.name, each.metadata.name), T0)

    def settle(*infos):
        for info in infos:
            queues.put(info, T0)
        outcomes = Rehearsal(s, queues, T0).settle().values()
        return [each.info.key.name for each in outcomes if isinstance(each, Admit)]

    run(s, "x", "q1"), run(s, "high", "q2", priority=30), run(s, "victim", "q2", cpu=4, priority=20)
    assert settle(pending("behind", queue="q2", priority=20, created=5)) == []
    assert settle(pending("preemptor", queue="q1", requests={"cpu": "2"}, created=9)) == []
    assert "uid-preemptor" in s.reservations
    assert settle(pending("other", queue="q0", requests={"cpu": "2"}, created=10)) == []
    s.release("uid-victim")
    queues.requeue_inadmissible(["q0", "q1", "q2"], T0)
    victim = pending("victim", queue="q2", requests={"cpu": "4"}, priority=20)
    assert sorted(settle(victim)) == ["other", "preemptor"]
    assert not s.reservations


def test_who_takes_back_own_quota_stops_none_for_what_a_preemptor_would_borrow():
    """q1 uses 1 of its 4 cpus; its preemptor will borrow one of q0. That is no usage that q0 could take back."""
    s = state(
        queue("q0", cohort="r", reclaim="Any", cpu="2"),
        queue("q1", cohort="r", reclaim="Any", cpu="4", borrowing={"policy": "LowerPriority"}),
        queue("q2", cohort="r", cpu="2"),
    )
    run(s, "own", "q0"), run(s, "small", "q1"), run(s, "big0", "q2", cpu=2), run(s, "big1", "q2", cpu=4, reserved=1)
    preemptor = try_one(s, head("p", 4, priority=1)[1], "q1")
    assert names(preemptor) == ["big1"]
    carry_out(s, preemptor)
    wanted = head("w", 1, created=9)[1]
    assert isinstance(try_one(s, wanted, "q0"), Refuse), "`small` runs in quota of its own ClusterQueue"
    s.release("uid-big1")
    assert isinstance(try_one(s, wanted, "q0"), Admit)


@pytest.mark.parametrize("strategies", [(), (FINAL_SHARE,)], ids=["by priority", "fair sharing"])
@pytest.mark.parametrize(("reclaim", "cpu", "outcome"), [("Any", 4, Preempt), ("Any", 5, Refuse), ("Never", 4, Refuse)])
def test_a_strict_head_withholds_only_its_own_quota_from_who_can_reclaim(strategies, reclaim, cpu, outcome):
    """`first` would borrow one of the cpus that `sibling` uses, and of which the owner is entitled to 4."""
    s, queues = state(), Queues()
    s.fair_sharing = strategies
    s.set_cohort(cohort("m", "r"))
    for each in (
        queue("strict", "4", "r", queueingStrategy=STRICT_FIFO),
        queue("owner", "4", "m", reclaim=reclaim),
        queue("sibling", "0", "m"),
    ):
        s.set_queue(each)
        queues.set_cluster_queue(each, T0)
        queues.set_local_queue(local_queue(each.metadata.name, each.metadata.name), T0)
    run(s, "s1", "strict", cpu=3)
    for number in range(5):
        run(s, f"b{number}", "sibling")
    first, wanted = pending("first", queue="strict", requests={"cpu": "2"}), {"cpu": str(cpu)}
    for info in (first, pending("w", queue="owner", requests=wanted, created=9)):
        queues.put(info, T0)
        decided = Rehearsal(s, queues, T0).settle()[info.uid]
    assert isinstance(decided, outcome)


def test_claims_that_matter_only_together_are_counted():
    """q3 lends nothing; the two preemptors there need one cpu more than it has, which it will borrow from q2."""
    s = state(
        queue("q2", cohort="r", quotas={"default": {"cpu": "2"}}),
        queue("q3", cohort="r", quotas={"default": {"cpu": {"nominalQuota": "6", "lendingLimit": "0"}}}),
        queue("q0", cohort="r", quotas={"default": {"cpu": {"nominalQuota": "3", "lendingLimit": "2"}}}),
    )
    run(s, "w", "q3", cpu=2), run(s, "x", "q2", cpu=1), run(s, "v", "q2", cpu=2, evicted=True)
    for name, cluster_queue, cpus, victims in (("p0", "q3", 1, "a"), ("p1", "q3", 4, "b"), ("p2", "q0", 2, "v")):
        info = pending(name, priority=5)
        usage = {FlavorResource("default", "cpu"): cpus * 1000}
        s.reserve(Reservation(info, cluster_queue, usage, 0, {f"uid-{victims}": "InClusterQueue"}))
    outcome = try_one(s, head("late", 1, created=9)[1], "q2")
    assert (type(outcome), outcome.victims) == (Preempt, ()), "it waits for the victim of p2"


@pytest.mark.parametrize("strategies", [(), (FINAL_SHARE,)])
def test_what_is_kept_below_a_lending_limit_protects_no_borrower_beside_it(strategies):
    """q1 lends nothing, so what is kept for its preemptor is no usage of cohort a, which q2 alone makes borrow."""
    s = state()
    s.fair_sharing = strategies
    s.set_cohort(cohort("a", "r"))
    alone = {"default": {"cpu": {"nominalQuota": "4", "lendingLimit": "0"}}}
    s.set_queue(queue("q1", cohort="a", within="LowerPriority", quotas=alone))
    s.set_queue(queue("q2", cohort="a", cpu="2"))
    s.set_queue(queue("q3", cohort="r", reclaim="Any", cpu="4"))
    for number in range(6):
        run(s, f"borrows{number}", "q2")
    run(s, "victim", "q1", cpu=4)
    kept = try_one(s, pending("kept", requests={"cpu": "4"}, priority=10), "q1")
    assert names(kept) == ["victim"]
    carry_out(s, kept)
    assert len(names(try_one(s, head("owner", 4)[1], "q3"))) == 4

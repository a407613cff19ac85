"""The line of one ClusterQueue."""

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.queueing.pending import PendingWorkloads
from queue_manager.queueing.refresh_turns import TURNS
from queue_manager.scheduling.cycle import Retry
from queue_manager.scheduling.flavor_assignment import Demand
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.usage_decay import WeightedUsage
from tests.examples import examples
from tests.unit.queueing.builders import T0, at, condition, drain, pending

WAITS = "WaitingForPreemptedWorkloads"
WHY = PendingReason("WaitingForQuota", "full")
CPU, GPU = FlavorResource("default", "cpu"), FlavorResource("default", "gpu")


def queue_of(strategy="BestEffortFIFO", *infos):
    queue = PendingWorkloads(strategy)
    for info in infos:
        queue.put(info, T0)
    return queue


def test_priority_comes_first_then_time_then_arrival():
    queue = queue_of(
        "StrictFIFO",
        pending("young", created=5),
        pending("second", created=1, annotations={"sluice/sequence": "12"}),
        pending("odd", created=1, annotations={"sluice/sequence": "9" * 5000}),
        pending("first", created=1, annotations={"sluice/sequence": "9"}, uid="zzz"),
        pending("high", created=9, priority=10),
    )
    assert drain(queue) == ["high", "odd", "first", "second", "young"]


def test_workloads_are_ordered_by_the_creation_of_their_jobs():
    queue = queue_of(
        "StrictFIFO",
        pending("second", created=1, annotations={"sluice/job-created": "2026-01-01T00:00:01Z"}),
        pending("first", created=2, annotations={"sluice/job-created": "2026-01-01T00:00:00Z"}),
    )
    assert drain(queue) == ["first", "second"]


def test_besteffort_parks_all_equal_workloads_with_one_refusal():
    queue = queue_of("BestEffortFIFO", *(pending(f"big{i}", requests={"cpu": "9"}, created=i) for i in range(50)))
    queue.put(pending("small", created=99), T0)
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head().key.name == "small"
    assert (queue.active, queue.inadmissible) == (1, 50)
    assert [queue.bypassed(pending(name).key) for name in ("big7", "big0", "small")] == [WHY, None, None]


def test_a_parked_shape_is_tried_again_when_its_refused_workload_leaves():
    """Its status carried the reason for all of them."""
    queue = queue_of("BestEffortFIFO", *(pending(f"big{i}", requests={"cpu": "9"}, created=i) for i in range(3)))
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    queue.remove(pending("big2").key)
    assert queue.head() is None
    queue.remove(pending("big0").key)
    assert queue.head().key.name == "big1"
    assert (queue.active, queue.inadmissible) == (1, 0)


def test_a_new_workload_equal_to_a_parked_one_is_parked_at_once():
    queue = queue_of("BestEffortFIFO", pending("a"))
    queue.refused(pending("a").key, Retry.CHANGE, WHY)
    queue.put(pending("b", created=1), T0)
    assert queue.head() is None
    assert queue.inadmissible == 2


def test_strictfifo_waits_for_its_first_workload_without_trying_it_again():
    """Until a change requeues it."""
    queue = queue_of("StrictFIFO", pending("big", requests={"cpu": "9"}), pending("small", created=1))
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head() is None
    assert queue.requeue_inadmissible(T0)
    assert queue.head().key.name == "big"


def test_strictfifo_tries_a_newcomer_that_stands_before_the_blocked_one():
    queue = queue_of("StrictFIFO", pending("big", requests={"cpu": "9"}))
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    queue.put(pending("high", priority=1, created=5), T0)
    assert queue.head().key.name == "high"


def test_a_change_that_alters_nothing_for_the_scheduler_does_not_unblock():
    queue = queue_of("StrictFIFO", pending("big"))
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    queue.put(pending("big", conditions=[condition("PodsReady", "False")]), T0)
    assert queue.head() is None


def test_removing_the_blocked_one_lets_the_next_try():
    queue = queue_of("StrictFIFO", pending("big"), pending("next", created=1))
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    queue.remove(pending("big").key)
    assert queue.head().key.name == "next"


def test_a_head_that_never_fits_is_known_as_such_until_it_leaves():
    """Also while it is tried again, so that the condition Blocked of its ClusterQueue does not come and go."""
    queue = queue_of("StrictFIFO", pending("big", requests={"cpu": "9"}), pending("small", created=1))
    queue.refused(queue.head().key, Retry.CHANGE, WHY, never=True)
    queue.requeue_inadmissible(T0)
    assert queue.never == WHY
    queue.remove(pending("small").key)
    assert queue.never == WHY
    queue.remove(pending("big").key)
    assert queue.never is None


def test_no_head_never_fits_once_the_strategy_is_another_one():
    queue = queue_of("StrictFIFO", pending("big", requests={"cpu": "9"}))
    queue.refused(queue.head().key, Retry.CHANGE, WHY, never=True)
    queue.set_strategy("BestEffortFIFO", T0)
    assert queue.never is None


def test_switching_to_besteffort_frees_what_was_blocked():
    queue = queue_of("StrictFIFO", pending("big", requests={"cpu": "9"}), pending("small", created=1))
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    queue.set_strategy("BestEffortFIFO", T0)
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head().key.name == "small"


BACKOFF = [
    pytest.param({"status": {"requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:10Z"}}}, id="requeueAt"),
    pytest.param({"conditions": [condition("Requeued", "False", "Deactivated")]}, id="Requeued=False"),
]


@pytest.mark.parametrize("state", BACKOFF)
@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_workload_in_backoff_is_passed_by_and_no_wake_up_brings_it_back(strategy, state):
    queue = queue_of(strategy, pending("resting", **state), pending("next", created=5))
    queue.requeue_inadmissible(at(5))
    assert drain(queue) == ["next"]
    assert queue.inadmissible == 1


def test_a_backoff_that_is_over_ends_the_rest():
    queue = queue_of("StrictFIFO", pending("w", **BACKOFF[0].values[0]))
    queue.requeue_inadmissible(at(10))
    assert queue.head().key.name == "w"


def test_a_backoff_ends_by_the_time_alone_and_the_workload_is_first_again():
    """The order holds from requeueAt on, without a write or another change of the Workload."""
    queue = queue_of("BestEffortFIFO", pending("older", **BACKOFF[0].values[0]), pending("younger", created=5))
    assert not queue.end_backoffs(at(9.9))
    assert queue.head().key.name == "younger"
    assert queue.end_backoffs(at(10))
    assert queue.head().key.name == "older"
    assert not queue.end_backoffs(at(11))
    assert (queue.active, queue.inadmissible) == (2, 0)


@pytest.mark.parametrize("hold", [True, False])
def test_the_end_of_an_outdated_backoff_changes_nothing(hold):
    queue = queue_of("BestEffortFIFO", pending("w", **BACKOFF[0].values[0]))
    later = {"status": {"requeueState": {"count": 2, "requeueAt": "2026-01-01T00:00:20Z"}}}
    queue.put(pending("w", **later), T0, hold=hold)
    assert not queue.end_backoffs(at(15))
    assert queue.head() is None
    assert queue.end_backoffs(at(20)) is not hold


def test_a_workload_on_hold_stays_until_it_is_put_again():
    queue = PendingWorkloads("StrictFIFO")
    queue.put(pending("w"), T0, hold=True)
    queue.requeue_inadmissible(at(5))
    assert queue.head() is None
    queue.put(pending("w"), T0)
    assert queue.head().key.name == "w"


def test_a_workload_of_a_wrong_namespace_does_not_block_a_strict_queue():
    queue = queue_of("StrictFIFO", pending("a"), pending("b", created=1))
    queue.refused(queue.head().key, Retry.NAMESPACE, WHY)
    assert queue.head().key.name == "b"
    queue.requeue_inadmissible(T0)
    assert queue.head().key.name == "a"


def test_who_lost_against_another_head_stays_first():
    queue = queue_of("BestEffortFIFO", pending("a"))
    queue.refused(queue.head().key, Retry.NEXT_CYCLE, WHY)
    assert queue.head().key.name == "a"


def test_a_raised_priority_moves_a_workload_forward():
    queue = queue_of("StrictFIFO", pending("a"), pending("b", created=1))
    queue.put(pending("b", created=1, priority=5), T0)
    assert drain(queue) == ["b", "a"]


def test_a_preemptor_waits_alone_and_is_first_of_its_priority_after_a_change():
    """An equal Workload has no claim to the quota that is kept for it; one that waits longer comes after it."""
    queue = queue_of("BestEffortFIFO", pending("big", requests={"cpu": "9"}), pending("p", created=1))
    queue.put(pending("equal", created=2), T0)
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head().key.name == "p"
    queue.refused(queue.head().key, Retry.PREEMPTION, WHY)
    assert queue.head().key.name == "equal"
    assert (queue.active, queue.inadmissible) == (2, 1)
    assert not queue.is_inadmissible(pending("p").key)
    assert queue.bypassed(pending("equal").key) is None
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head() is None
    queue.put(pending("p", created=1, conditions=[condition("QuotaReserved", "False", WAITS)]), T0)
    assert queue.head() is None
    assert queue.requeue_inadmissible(T0)
    assert drain(queue) == ["p", "big", "equal"]


def test_a_higher_priority_comes_before_a_preemptor_that_returns():
    queue = queue_of("BestEffortFIFO", pending("p"))
    queue.refused(queue.head().key, Retry.PREEMPTION, WHY)
    queue.put(pending("high", priority=1, created=5), T0)
    queue.requeue_inadmissible(T0)
    assert drain(queue) == ["high", "p"]


def test_after_a_restart_a_preemptor_is_first_of_its_priority():
    waits = pending("p", created=5, conditions=[condition("QuotaReserved", "False", WAITS)])
    queue = queue_of("BestEffortFIFO", pending("older"), waits)
    assert queue.head().key.name == "p"
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.is_inadmissible(waits.key)


def test_a_preemptor_blocks_a_strict_queue_until_something_changes():
    queue = queue_of("StrictFIFO", pending("p"), pending("next", created=1))
    queue.refused(queue.head().key, Retry.PREEMPTION, WHY)
    assert queue.head() is None
    assert queue.requeue_inadmissible(T0)
    assert queue.head().key.name == "p"


def test_an_earlier_equal_workload_is_tried_if_it_may_preempt_newer_ones():
    queue = queue_of("BestEffortFIFO", pending("later", created=9))
    queue.preempts_newer = True
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    queue.put(pending("last", created=10), T0)
    assert queue.head() is None
    queue.put(pending("earlier", created=3), T0)
    assert queue.head().key.name == "earlier"


def test_a_switch_to_strict_order_ends_the_precedence_of_a_preemptor():
    queue = queue_of("BestEffortFIFO", pending("p", created=1))
    queue.refused(queue.head().key, Retry.PREEMPTION, WHY)
    queue.put(pending("older"), T0)
    queue.set_strategy("StrictFIFO", T0)
    assert drain(queue) == ["older", "p"]


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "remove", "refuse", "preempt", "namespace", "wake", "admit"]),
        st.integers(0, 11),  # Workload
        st.integers(0, 2),  # priority
        st.integers(1, 3),  # cpu
        st.integers(0, 2),  # created
    ),
    max_size=60,
)


@settings(max_examples=examples(300), deadline=None)
@given(operations, st.sampled_from(["StrictFIFO", "BestEffortFIFO"]))
def test_the_head_is_the_first_workload_not_refused_since_the_last_change(steps, strategy):
    """Compares the heaps with a model that searches all Workloads. Of the preemptors the first one of the earliest
    round is tried.
    """
    queue = PendingWorkloads(strategy)
    model: dict = {}
    parked: dict = {}  # shape -> the Workload that was refused for it
    refused: set = set()
    preempting: dict = {}  # the round in which each is tried; None: none, before the next change
    current = 0  # round
    blocked = None

    def first():
        nonlocal current
        strict = strategy == "StrictFIFO"
        able = [i for k, i in model.items() if k not in refused and (strict or i.shape not in parked)]
        able = [i for i in able if i.key not in preempting]
        due = {key: turn for key, turn in preempting.items() if turn is not None}
        if due:
            preemptor = min(due, key=lambda key: (due[key], model[key].rank))
            current = due[preemptor]
            able.append(model[preemptor])
        best = min(able, key=lambda i: (-i.priority, i.key not in preempting, i.rank), default=None)
        return None if best is not None and best.key == blocked else best

    for op, n, priority, cpu, created in steps:
        info = pending(f"w{n}", priority=priority, requests={"cpu": str(cpu)}, created=created)
        head = first()
        if op == "put":
            old = model.get(info.key)
            same = old is not None and (old.rank, old.shape) == (info.rank, info.shape)
            if not same:
                refused.discard(info.key)
                preempting.pop(info.key, None)
                blocked = None if blocked == info.key else blocked
                if old is not None and parked.get(old.shape) == old.key:
                    del parked[old.shape]
            queue.put(info, T0)
            model[info.key] = info
        elif op == "remove" or (op == "admit" and head is not None):
            key = info.key if op == "remove" else head.key
            old = model.pop(key, None)
            queue.remove(key)
            refused.discard(key)
            preempting.pop(key, None)
            blocked = None if blocked == key else blocked
            if old is not None and parked.get(old.shape) == key:
                del parked[old.shape]
        elif op == "refuse" and head is not None:
            queue.refused(head.key, Retry.CHANGE, WHY)
            if strategy == "StrictFIFO":
                blocked = head.key
            else:
                preempting.pop(head.key, None)
                parked[head.shape] = head.key
        elif op == "preempt" and head is not None:
            queue.refused(head.key, Retry.PREEMPTION, WHY)
            if strategy == "StrictFIFO":
                blocked = head.key
            else:
                preempting[head.key] = None
        elif op == "namespace" and head is not None:
            queue.refused(head.key, Retry.NAMESPACE, WHY)
            refused.add(head.key)
            preempting.pop(head.key, None)
        elif op == "wake":
            queue.requeue_inadmissible(T0)
            parked, refused, blocked = {}, set(), None
            preempting = {key: current + 1 if turn is None else turn for key, turn in preempting.items()}
        expected, got = first(), queue.head()
        assert (got and got.key) == (expected and expected.key)
        assert len(queue) == len(model)
        assert queue.active + queue.inadmissible == len(model)
        assert queue.active >= 0
        assert queue.inadmissible >= 0


def test_many_workloads_drain_in_order():
    rng = random.Random(7)
    queue = PendingWorkloads("BestEffortFIFO")
    infos = [pending(f"w{i}", priority=rng.randrange(5), created=rng.randrange(100)) for i in range(2000)]
    for info in infos:
        queue.put(info, T0)
    assert drain(queue) == [i.key.name for i in sorted(infos, key=lambda i: i.rank)]


# --- past usage of LocalQueues ---


def by_usage(strategy="BestEffortFIFO", **usages):
    """A queue ordered by this past usage of its LocalQueues, and the usage, which a test may change."""
    queue = PendingWorkloads(strategy)
    queue.set_usage(lambda local: WeightedUsage(False, Fraction(usages[local.name])))
    return queue, usages


def test_the_local_queue_with_the_lowest_usage_comes_before_priority():
    queue, _ = by_usage(a=5, b=3)
    for info in (pending("high", queue="a", priority=9), pending("b2", queue="b", created=2), pending("b1", queue="b")):
        queue.put(info, T0)
    assert [info.key.name for info in queue.in_order()] == ["b1", "b2", "high"]
    assert drain(queue) == ["b1", "b2", "high"]


def test_usage_decides_anew_for_each_head():
    queue, usages = by_usage(a=0, b=0)
    for i in range(3):
        for local in "ab":
            queue.put(pending(f"{local}{i}", queue=local, created=i), T0)
    names = []
    while (head := queue.head()) is not None:
        names.append(head.key.name)
        queue.remove(head.key)
        usages[head.queue.name] += 2 if head.queue.name == "a" else 1
    assert names == ["a0", "b0", "b1", "a1", "b2", "a2"]


def test_equal_workloads_of_several_local_queues_are_parked_one_by_one():
    queue, _ = by_usage(a=1, b=2)
    for local in "ab":
        queue.put(pending(local, queue=local), T0)
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head().key.name == "b"
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head() is None
    assert queue.requeue_inadmissible(T0)
    assert drain(queue) == ["a", "b"]


def test_a_blocked_strict_queue_goes_on_when_usage_puts_another_first():
    queue, usages = by_usage("StrictFIFO", a=1, b=2)
    for local in "ab":
        queue.put(pending(local, queue=local), T0)
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head() is None
    usages["a"] = 3
    assert queue.head().key.name == "b"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_preemptor_leads_its_strict_queue_until_a_higher_priority_comes(restarted):
    """Its victim comes back with a lower past usage, and would be stopped again as soon as it is admitted."""
    queue, _ = by_usage("StrictFIFO", busy=9, idle=1)
    waits = [condition("QuotaReserved", "False", WAITS)] if restarted else []
    queue.put(pending("preemptor", queue="busy", priority=5, conditions=waits), T0)
    if not restarted:
        queue.refused(queue.head().key, Retry.PREEMPTION, WHY)
    queue.put(pending("victim", queue="idle"), T0)
    queue.requeue_inadmissible(T0)
    assert queue.head().key.name == "preemptor"
    queue.put(pending("higher", queue="idle", priority=6), T0)
    assert queue.head().key.name == "higher"
    queue.remove(pending("higher").key)
    queue.refused(pending("preemptor").key, Retry.CHANGE, WHY)
    queue.requeue_inadmissible(T0)
    assert queue.head().key.name == "victim"


def test_switching_the_order_by_usage_keeps_all_and_tries_them_again():
    queue = queue_of("BestEffortFIFO", pending("b", queue="b"), pending("a", queue="a", created=1))
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.head() is None  # both have one shape
    queue.set_usage(lambda local: WeightedUsage(False, Fraction(local.name == "b")))
    assert (len(queue), queue.inadmissible) == (2, 0)
    assert queue.head().key.name == "a"
    queue.set_usage(None)
    assert drain(queue) == ["b", "a"]


def parked(*sizes, demand=True):
    """A queue in which Workloads of these cpus were refused."""
    infos = [pending(f"w{cpu}", requests={"cpu": str(cpu)}) for cpu in sizes]
    queue = queue_of("BestEffortFIFO", *infos)
    while (head := queue.head()) is not None:
        cpu = int(head.key.name[1:])
        demands = (Demand(CPU, cpu), Demand(GPU, 10 * cpu)) if demand else None
        queue.refused(head.key, Retry.CHANGE, WHY, demands=demands)
    return queue


@pytest.mark.parametrize(
    ("within", "expected"),
    [({CPU: 0}, []), ({CPU: 5}, ["w2", "w5"]), ({GPU: 20}, ["w2"]), ({CPU: 9}, ["w2", "w5", "w9"])],
)
def test_released_quota_wakes_the_workloads_whose_demand_it_covers(within, expected):
    queue = parked(2, 5, 9)
    assert queue.requeue_inadmissible(T0, lambda fr, _: within.get(fr, 0)) is bool(expected)
    assert sorted(drain(queue)) == expected
    assert queue.inadmissible == 3 - len(expected)


def test_a_demand_holds_after_the_workload_was_refused_again_and_ends_with_it():
    queue = parked(2, 5)
    for _ in range(3):
        queue.requeue_inadmissible(T0)
        while (head := queue.head()) is not None:
            queue.refused(head.key, Retry.CHANGE, WHY, demands=(Demand(CPU, int(head.key.name[1:])),))
    queue.remove(pending("w2").key)
    assert queue.requeue_inadmissible(T0, lambda fr, _: 4) is False
    assert queue.requeue_inadmissible(T0, lambda fr, _: 5) is True
    assert drain(queue) == ["w5"]


def test_a_workload_of_unknown_demand_is_tried_after_every_release():
    queue = parked(2, demand=False)
    for _ in range(2):
        assert queue.requeue_inadmissible(T0, lambda fr, _: 0) is True
        queue.refused(queue.head().key, Retry.CHANGE, WHY)


def test_each_parked_workload_is_tried_in_one_turn_of_a_period():
    queue, sizes = parked(*range(1, 50)), range(1, 50)
    tried = []
    for turn in range(TURNS):
        queue.refresh(turn)
        while (head := queue.head()) is not None:
            tried.append(int(head.key.name[1:]))
            queue.refused(head.key, Retry.CHANGE, WHY)
    assert sorted(tried) == list(sizes)


def test_released_quota_does_not_help_one_whose_namespace_is_not_selected():
    queue = queue_of("BestEffortFIFO", pending("w"))
    queue.refused(queue.head().key, Retry.NAMESPACE, WHY)
    assert not queue.requeue_inadmissible(T0, lambda fr, priority: 99_000)
    assert queue.head() is None
    assert queue.requeue_inadmissible(T0)
    assert queue.head().key.name == "w"


def test_one_that_is_on_hold_was_not_refused():
    queue = PendingWorkloads("BestEffortFIFO")
    queue.put(pending("w"), T0, hold=True)
    assert (queue.inadmissible, queue.has_refused) == (1, False)
    queue.put(pending("v"), T0)
    queue.refused(queue.head().key, Retry.CHANGE, WHY)
    assert queue.has_refused

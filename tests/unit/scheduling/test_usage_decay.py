"""Past usage of LocalQueues: decay, samples, entry penalties, and how queues compare."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_controller.model import Key
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.usage_decay import (
    Sample,
    UsageDecay,
    UsageLedger,
    WeightedUsage,
    consumption,
    from_quantities,
    to_quantities,
)
from tests.unit.queueing.builders import at

MINUTE = UsageDecay(half_life=60, interval=300)
LQ = Key("ns", "lq")
ONE = Fraction(1)
M = 10**6  # thousandths of a unit, in billionths


def test_usage_halves_with_every_half_life():
    assert MINUTE.after({"cpu": 8000 * M}, {}, 60) == {"cpu": 4000 * M}
    assert MINUTE.after({"cpu": 8000 * M}, {}, 180) == {"cpu": 1000 * M}


def test_what_runs_replaces_what_has_decayed():
    assert MINUTE.after({"cpu": 8000 * M}, {"cpu": 2000 * M, "memory": 1000 * M}, 60) == {
        "cpu": 5000 * M,
        "memory": 500 * M,
    }


def test_usage_that_has_decayed_is_gone():
    assert MINUTE.after({"cpu": 1000 * M}, {}, 60 * 11) == {}


def test_a_half_life_of_0_forgets_all():
    off = UsageDecay(half_life=0)
    assert off.after({"cpu": 1000 * M}, {"cpu": 1000 * M}, 60) == {}
    assert off.penalty({"cpu": 1000 * M}) == {}


def test_the_entry_penalty_is_the_usage_of_one_interval():
    assert UsageDecay(half_life=300, interval=300).penalty({"cpu": 8000 * M}) == {"cpu": 4000 * M}


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 10**6))
def test_usage_stays_between_what_was_and_what_runs(before, running, seconds):
    after = MINUTE.after({"cpu": before}, {"cpu": running}, seconds).get("cpu", 0)
    assert min(before, running) - M <= after <= max(before, running)


@pytest.mark.parametrize(
    ("weights", "weight", "expected"),
    [
        ({}, "1", WeightedUsage(False, Fraction(3000 * M))),
        ({}, "2", WeightedUsage(False, Fraction(1500 * M))),
        ({"cpu": Fraction("0.1")}, "1", WeightedUsage(False, Fraction((2200 - 100) * M))),
        ({"cpu": Fraction(0), "memory": Fraction(0)}, "1", WeightedUsage(False, Fraction(0))),
        ({}, "0", WeightedUsage(True, Fraction(3000 * M))),
    ],
)
def test_resources_and_queues_have_weights(weights, weight, expected):
    decay = UsageDecay(60, weights=weights)
    assert decay.weighted({"cpu": 1000 * M, "memory": 2000 * M}, Fraction(weight)) == expected


def test_a_queue_of_weight_0_comes_after_all_others():
    assert MINUTE.weighted({}, Fraction(0)) > MINUTE.weighted({"cpu": 10**15}, Fraction(1, 1000))


def test_the_first_sample_is_what_runs_and_the_next_is_due_after_the_interval():
    ledger = UsageLedger(MINUTE)
    assert ledger.is_due(LQ, at(0))
    ledger.sample(LQ, {"cpu": 4000 * M}, at(0.5))
    assert ledger.get(LQ) == Sample({"cpu": 4000 * M}, at(0))
    assert not ledger.is_due(LQ, at(299))
    assert ledger.is_due(LQ, at(300))
    ledger.sample(LQ, {}, at(300))
    assert ledger.get(LQ) == Sample({"cpu": 125 * M}, at(300))


def test_a_queue_without_usage_keeps_its_sample():
    ledger = UsageLedger(MINUTE)
    for seconds in (0, 300, 600):
        ledger.sample(LQ, {}, at(seconds))
    assert ledger.get(LQ) == Sample({}, at(0))


def test_a_queue_that_was_idle_is_not_charged_for_the_time_before_its_admission():
    ledger = UsageLedger(UsageDecay(half_life=600, interval=2))
    ledger.sample(LQ, {}, at(0))
    ledger.admit(LQ, {"cpu": 1000 * M}, at(10_000))
    penalty = ledger.weighted(LQ, ONE).amount
    ledger.sample(LQ, {"cpu": 1000 * M}, at(10_002))
    assert ledger.weighted(LQ, ONE).amount == pytest.approx(float(2 * penalty), rel=0.01)


@pytest.mark.parametrize("interval", [1, 2, 60, 600])
def test_small_usage_has_the_same_half_life_however_often_it_is_sampled(interval):
    ledger = UsageLedger(UsageDecay(half_life=600, interval=interval))
    ledger.restore(LQ, {"cpu": 10 * M}, at(0))
    for seconds in range(interval, 601, interval):
        ledger.sample(LQ, {}, at(seconds))
    assert ledger.weighted(LQ, ONE).amount == pytest.approx(5 * M, rel=1e-4)


def test_an_admission_counts_at_once_and_a_failed_one_does_not():
    ledger = UsageLedger(UsageDecay(half_life=300, interval=300))
    ledger.sample(LQ, {}, at(0))
    ledger.admit(LQ, {"cpu": 8000 * M}, at(1))
    assert ledger.weighted(LQ, ONE).amount == 4000 * M
    ledger.admit(LQ, {"cpu": 2000 * M}, at(2))
    ledger.admit(LQ, {"cpu": 2000 * M}, at(3), undo=True)
    assert ledger.get(LQ) == Sample({"cpu": 4000 * M}, at(1))
    ledger.admit(LQ, {"cpu": 8000 * M}, at(4), undo=True)
    assert ledger.get(LQ) == Sample({}, at(1))


def test_a_restart_takes_the_sample_of_the_status():
    ledger = UsageLedger(MINUTE)
    ledger.restore(LQ, {"cpu": 8000 * M}, at(0))
    ledger.sample(LQ, {}, at(60))
    assert ledger.get(LQ) == Sample({"cpu": 4000 * M}, at(60))
    ledger.restore(LQ, {"cpu": 8000 * M}, at(0))  # an older one
    assert ledger.get(LQ) == Sample({"cpu": 4000 * M}, at(60))


def test_nothing_is_kept_while_it_is_off():
    ledger = UsageLedger()
    ledger.sample(LQ, {"cpu": 1 * M}, at(0))
    ledger.admit(LQ, {"cpu": 1 * M}, at(0))
    ledger.restore(LQ, {"cpu": 1 * M}, at(0))
    assert ledger.get(LQ) is None
    assert not ledger.is_due(LQ, at(10**9))
    ledger.reconfigure(MINUTE)
    ledger.sample(LQ, {"cpu": 1 * M}, at(0))
    ledger.reconfigure(None)
    assert ledger.get(LQ) is None


def test_consumption_adds_up_flavors():
    usage = {FlavorResource("a", "cpu"): 1500, FlavorResource("b", "cpu"): 500, FlavorResource("a", "memory"): 2}
    assert consumption([usage, {FlavorResource("a", "pods"): 1}]) == {
        "cpu": 2000 * M,
        "memory": 2000 * M,
        "pods": 1000 * M,
    }


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", 1500, "1500m"), ("memory", 1024**3 * 1000, "1Gi"), ("memory", 1500, "1500m"), ("pods", 2000, "2")],
)
def test_the_status_holds_quantities(resource, amount, text):
    assert to_quantities({resource: amount * M}) == {resource: text}
    assert from_quantities({resource: text}) == {resource: amount * M}

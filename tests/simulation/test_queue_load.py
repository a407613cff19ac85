"""The load of the queue benchmark, in memory: a crowd whose preemptors have many victims in common."""

import pytest

from queue_manager.api import reasons
from tests.benchmarks.bench_queue_replay import replay
from tests.benchmarks.queue_record import ADMITTED, EVICTED, FIRST_REASON, NUMBERS, REASON
from tests.benchmarks.queue_shape import Shape


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_cycles_end_while_preemptors_claim_what_is_kept_for_one_another():
    """Were all tried again whenever one loses what is kept for it, two would take it from each other forever."""
    shape = Shape().scaled(0.8, 1.0, 1)
    record = replay(shape).record
    assert record.finished == shape.total
    assert record.preemptions[reasons.IN_CLUSTER_QUEUE] > 30
    assert record.preemptions[reasons.IN_COHORT_RECLAMATION] > 30
    assert sum(record.causes[why] for why in (FIRST_REASON, REASON, NUMBERS)) / shape.total < 0.3
    preempted, writes = record.writes_of_preempted()
    assert writes[REASON] / preempted < 1, "a wait for the victims of others is written like any other reason"


@pytest.mark.timeout(120)
def test_under_full_load_a_preempted_workload_costs_three_status_writes():
    """It is admitted, evicted and admitted again. Reasons are written when the API server has nothing better to do."""
    shape = Shape().scaled(0.1, 1.0, 5)
    record = replay(shape).record
    assert record.finished == shape.total
    preempted, writes = record.writes_of_preempted()
    assert preempted > 20
    assert writes == {ADMITTED: 2 * preempted, EVICTED: preempted}

"""Since when a Workload waits, by which queues order it."""

import pytest

from queue_manager.scheduling.queue_order import queue_time
from tests.unit.queueing.builders import at, condition, workload


@pytest.mark.parametrize(
    ("reason", "status", "by_eviction", "by_creation"),
    [
        ("PodsReadyTimeout", "True", 50, 0),
        ("AdmissionCheck", "True", 50, 50),
        ("Preempted", "True", 0, 0),
        ("Deactivated", "True", 0, 0),
        ("PodsReadyTimeout", "False", 0, 0),
        ("AdmissionCheck", "False", 0, 0),
    ],
)
def test_only_what_was_its_own_fault_sends_it_to_the_back_of_the_line(reason, status, by_eviction, by_creation):
    w = workload(conditions=[condition("Evicted", status, reason, seconds=50)])
    assert queue_time(w, "Eviction") == at(by_eviction)
    assert queue_time(w, "Creation") == at(by_creation)


def test_an_eviction_without_a_time_does_not_change_the_order():
    timeless = {"type": "Evicted", "status": "True", "reason": "AdmissionCheck", "message": ""}
    assert queue_time(workload(conditions=[timeless], created=3)) == at(3)

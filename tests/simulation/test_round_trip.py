"""An eviction costs at most six writes until the Workload is pending again; Kueue needs eight, and more are refused."""

from __future__ import annotations

import pytest

from queue_manager.simulation.virtual_time import run_virtual
from tests.simulation.round_trip import round_trip


@pytest.mark.parametrize("ready_first", [False, True], ids=["never ready", "a ready pod lost"])
def test_the_queue_makes_five_writes_per_round_trip(ready_first: bool) -> None:
    """Evict, suspend, restore, release quota and, when the backoff is over, requeue."""
    ours = [write for write in run_virtual(round_trip(ready_first)) if not write.startswith("Job: status")]
    kinds = [write.partition(":")[0] for write in ours if not write.startswith("Job: Suspended")]
    assert kinds == ["Workload", "Job", "Job", "Workload", "Workload"]


def test_a_round_trip_takes_six_writes_of_all_controllers() -> None:
    """With the Job controller's, which confirms the suspension and the end of the pods."""
    writes = run_virtual(round_trip())
    pending = next(i for i, write in enumerate(writes) if "QuotaReserved=False" in write)
    assert pending + 1 <= 6, writes

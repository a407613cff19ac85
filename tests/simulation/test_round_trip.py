"""An eviction round trip costs at most six writes; Kueue needs eight, and several that are refused (row 8)."""

from __future__ import annotations

import pytest

from queue_manager.simulation.virtual import run_virtual
from tests.simulation.round_trip import round_trip


@pytest.mark.parametrize("ready_first", [False, True], ids=["never ready", "a ready pod lost"])
def test_our_own_writes_of_a_round_trip_are_five(ready_first: bool) -> None:
    """Evict, suspend, restore, give back, and, when the backoff is over, requeue."""
    ours = [write for write in run_virtual(round_trip(ready_first)) if not write.startswith("Job: status")]
    kinds = [write.partition(":")[0] for write in ours if not write.startswith("Job: Suspended")]
    assert kinds == ["Workload", "Job", "Job", "Workload", "Workload"]


def test_from_the_timeout_until_it_is_pending_again_there_are_six_writes_of_anybody() -> None:
    """Those of the Job controller included, which confirms the suspension and the end of the pods."""
    writes = run_virtual(round_trip())
    pending = next(i for i, write in enumerate(writes) if "QuotaReserved=False" in write)
    assert pending + 1 <= 6, writes

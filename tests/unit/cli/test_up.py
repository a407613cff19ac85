"""Messages of `sluice up`."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.cli.stop_report import interruption
from queue_manager.cli.up import enforcement
from queue_manager.local.agent.cgroups import Cgroups
from queue_manager.local.local_cluster import RunningCounts


@pytest.mark.parametrize(
    ("running", "says"),
    [
        (RunningCounts(0, 0), ""),
        (
            RunningCounts(1, 1),
            ": 1 Job interrupted, the next `sluice up` starts 1 pod again, which does not count as a retry; ",
        ),
        (
            RunningCounts(2, 5),
            ": 2 Jobs interrupted, the next `sluice up` starts 5 pods again, which does not count as a retry; ",
        ),
        (
            RunningCounts(0, 2),
            ": 2 pods interrupted, the next `sluice up` starts 2 pods again, which does not count as a retry; ",
        ),
    ],
)
def test_a_stop_reports_how_many_jobs_it_interrupts(running: RunningCounts, says: str) -> None:
    said = interruption(running)
    assert said.startswith(says)
    assert bool(said) is bool(says)


@pytest.mark.parametrize(
    ("cgroups", "says"),
    [
        (None, "limits.memory is checked once a second, limits.cpu is not enforced"),
        (Cgroups(Path("/c"), limits_cpu=False), "limits.memory is enforced by cgroups, limits.cpu is not"),
        (Cgroups(Path("/c"), limits_cpu=True), "limits.memory and limits.cpu are enforced by cgroups"),
    ],
)
def test_a_start_reports_which_limits_are_enforced(cgroups: Cgroups | None, says: str) -> None:
    assert enforcement(cgroups).startswith(says)

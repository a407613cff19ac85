"""Messages of `sluice up`."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.cli.up import enforcement, interruption
from queue_manager.local.agent.cgroups import Cgroups
from queue_manager.local.cluster import AtWork


@pytest.mark.parametrize(
    ("running", "says"),
    [
        (AtWork(0, 0), ""),
        (AtWork(1, 1), ": 1 Job interrupted, the next `sluice up` starts 1 pod again, which costs no try; "),
        (AtWork(2, 5), ": 2 Jobs interrupted, the next `sluice up` starts 5 pods again, which costs no try; "),
        (AtWork(0, 2), ": 2 pods interrupted, the next `sluice up` starts 2 pods again, which costs no try; "),
    ],
)
def test_a_stop_reports_how_many_jobs_it_interrupts(running: AtWork, says: str) -> None:
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

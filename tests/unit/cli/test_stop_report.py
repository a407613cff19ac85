"""What a stop says about running Jobs, and how `sluice down` learns it."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.cli.stop_report import departure, forget, record, recorded, stopped_jobs, without_data
from queue_manager.local.local_cluster import RunningCounts

ONE = RunningCounts(1, 2, ("default/train",))
MANY = RunningCounts(7, 7, tuple(f"default/job-{number}" for number in range(7)))


@pytest.mark.parametrize(
    ("running", "left", "says"),
    [
        (RunningCounts(0, 0), False, "no Job was running"),
        (ONE, False, "1 Job (default/train) interrupted: `sluice up` starts 2 pods again, which does not count"),
        (ONE, True, "1 Job (default/train) left running, with the processes of 2 pods: `sluice up` finds"),
        (RunningCounts(0, 1), False, "1 pod interrupted: `sluice up` starts 1 pod again"),
        (MANY, False, "7 Jobs (default/job-0, default/job-1, default/job-2, default/job-3, default/job-4 and 2 more)"),
    ],
)
def test_a_stop_names_the_jobs_and_what_becomes_of_them(running: RunningCounts, left: bool, says: str) -> None:
    assert stopped_jobs(running, left=left).startswith(says)


@pytest.mark.parametrize(
    ("running", "left", "says"),
    [
        (RunningCounts(0, 0), False, "no Job was running"),
        (ONE, False, "1 Job (default/train) interrupted"),
        (ONE, True, "1 Job (default/train) ended"),
    ],
)
def test_of_a_cluster_whose_data_is_removed_nothing_continues(running: RunningCounts, left: bool, says: str) -> None:
    assert without_data(stopped_jobs(running, left=left)) == says


def test_jobs_left_running_are_said_to_be_unsupervised() -> None:
    assert "nothing enforces their deadlines and memory limits meanwhile" in departure(ONE)
    assert departure(RunningCounts(0, 0)) == ""


def test_the_sentence_of_a_stop_is_kept_until_the_next_start(tmp_path: Path) -> None:
    record(tmp_path, "1 Job interrupted")
    assert recorded(tmp_path) == "1 Job interrupted"
    forget(tmp_path)
    assert recorded(tmp_path) == ""

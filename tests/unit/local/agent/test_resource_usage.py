"""What containers used, from cgroups, the shell's `times` and the lines about each of their ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.local.agent import resource_usage
from queue_manager.local.agent.pod_files import Layout, RunFiles
from queue_manager.local.agent.resource_usage import Usage


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    layout = Layout(tmp_path)
    layout.create("uid", "main")
    return layout.run("uid", "main", 0)


def test_a_pod_used_the_sum_of_its_containers_and_of_their_starts(run: RunFiles, tmp_path: Path) -> None:
    other = Layout(tmp_path).run("uid", "side", 0)
    other.container.mkdir()
    resource_usage.record(run, 1.0, Usage(1.5, 100))
    resource_usage.record(run, 2.0, Usage(0.25, 300))
    resource_usage.record(other, 2.0, Usage(0.25, 50))
    found = resource_usage.pod_annotations([run.usage, other.usage])
    assert found == {"sluice/cpu-seconds": "2.000", "sluice/peak-memory-bytes": "350"}


def test_an_end_that_is_found_again_counts_once(run: RunFiles) -> None:
    for _ in range(2):
        resource_usage.record(run, 1.25, Usage(1.5, None))
    assert resource_usage.pod_annotations([run.usage]) == {"sluice/cpu-seconds": "1.500"}


def test_what_nobody_measured_is_no_annotation(run: RunFiles) -> None:
    assert resource_usage.pod_annotations([run.usage]) == {}
    resource_usage.record(run, 1.0, Usage())
    assert resource_usage.pod_annotations([run.usage]) == {}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0m0.01s 0m0.02s\n1m2.5s 0m0.25s\n", 62.75),  # the second line is that of the descendants
        ("0m0.000000s 0m0.000000s\n0m0.120000s 0m0.010000s\n", 0.13),
        ("0m0.01s 0m0.02s\n", None),
        ("", None),
    ],
)
def test_cpu_time_is_read_from_what_the_supervisor_recorded(text: str, seconds: float | None, run: RunFiles) -> None:
    run.times.write_text(text)
    assert resource_usage.of_times(run).cpu_seconds == pytest.approx(seconds)


def test_a_cgroup_tells_what_its_controllers_count(tmp_path: Path) -> None:
    assert resource_usage.of_cgroup(tmp_path) == Usage()
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.peak").write_text("4096\n")
    assert resource_usage.of_cgroup(tmp_path) == Usage(2.5, 4096)
    assert Usage(None, 4096).over(Usage(1.0, 7)) == Usage(1.0, 4096)

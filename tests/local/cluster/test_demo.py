"""`sluice demo`, interrupted by its user."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.local.cluster.conftest import ROOT, SLUICE
from tests.waiting import SECONDS


@pytest.fixture
def demo(tmp_path: Path) -> subprocess.Popen[str]:
    """A running demo of which the first line has been read."""
    process = subprocess.Popen(
        [*SLUICE, "demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "Submitted" in process.stdout.readline()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_demo_and_removes_its_cluster(
    number: signal.Signals, demo: subprocess.Popen[str], tmp_path: Path
) -> None:
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_a_second_signal_ends_the_demo_at_once_without_a_traceback(demo: subprocess.Popen[str]) -> None:
    """It may arrive while the first one is handled, or after the end."""
    demo.send_signal(signal.SIGINT)
    demo.send_signal(signal.SIGTERM)
    _, errors = demo.communicate(timeout=SECONDS)
    assert "Traceback" not in errors
    assert demo.returncode in (130, -signal.SIGTERM)

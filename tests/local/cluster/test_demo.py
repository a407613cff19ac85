"""`sluice demo` as somebody who has seen enough of it."""

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
    """One of which the first line has been read."""
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
def test_a_signal_ends_its_cluster_and_takes_all_away(
    number: signal.Signals, demo: subprocess.Popen[str], tmp_path: Path
) -> None:
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_impatience_ends_it_at_once_and_without_a_traceback(demo: subprocess.Popen[str]) -> None:
    """The second one may come while the first is being handled, or when all has ended."""
    demo.send_signal(signal.SIGINT)
    demo.send_signal(signal.SIGTERM)
    _, errors = demo.communicate(timeout=SECONDS)
    assert "Traceback" not in errors
    assert demo.returncode in (130, -signal.SIGTERM)

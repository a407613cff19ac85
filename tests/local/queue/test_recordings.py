"""What the real Kueue did, we do: recorded scenarios played again, compared value by value and event by event."""

from __future__ import annotations

import json

import pytest

from queue_manager.simulation.virtual import run_virtual
from tests.local.queue.replay import TRACES, differences, play

NAMES = sorted(path.stem for path in TRACES.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_the_recording_is_reproduced(name: str) -> None:
    trace = json.loads((TRACES / f"{name}.json").read_text())
    assert differences(trace, run_virtual(play(trace))) == {}

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_manager.local.agent.pod_files import Layout
from tests.local.agent.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """The files of the container `main` of the pod `u`."""
    layout = Layout(tmp_path)
    layout.create("u", "main")
    return layout

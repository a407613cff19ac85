"""The commands that the README shows for a cluster print what it shows, on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.server import ControlPlane
from tests.local.readme import CLUSTER, README, Session, difference, steps

pytestmark = pytest.mark.control_plane


@pytest.mark.timeout(300)
def test_the_commands_of_the_readme_for_a_cluster_print_what_it_shows(cluster: ControlPlane, tmp_path: Path) -> None:
    blocks = steps(README.read_text(), CLUSTER)
    found = difference(Session(tmp_path, cluster.kubeconfig), blocks)
    assert blocks
    assert not found, found

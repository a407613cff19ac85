"""A `sluice manager` whose configuration names no store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.manager.conftest import Start, kubeconfig, running_pods, scenario, start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.scenario import Scenario
from tests.waiting import until

__all__ = ["kubeconfig", "running_pods", "scenario", "start"]

pytestmark = pytest.mark.control_plane


@pytest.mark.parametrize("named", [False, True], ids=["without a store", "with one"])
async def test_a_manager_keeps_a_history_only_where_its_configuration_names_a_store(
    scenario: Scenario, kubeconfig: Path, running_pods: None, start: Start, tmp_path: Path, named: bool
) -> None:
    store = tmp_path / "of-the-test.db"
    manager = await start(kubeconfig, config=ALL_JOBS + (f"history: {{url: 'sqlite:///{store}'}}\n" if named else ""))
    await scenario.queues()
    await scenario.submit("first")
    await scenario.until_finished("first")
    _, text = await manager.get("/metrics")
    series = {line.partition(" ")[0].partition("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert ("sluice_history_records_queued" in series) is named
    if named:  # made by the first write, which no Job waits for
        await until(store.exists, "the store exists")
    assert {path.name for path in kubeconfig.parent.rglob("*.db")} == ({store.name} if named else set())

"""Prometheus' own checker accepts the alert rules and the metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from queue_manager.simulation.virtual_time import run_virtual
from tests.control_plane.promtool.command import RULES, promtool
from tests.local.queue.cluster import cluster

pytestmark = pytest.mark.control_plane

RULE = """groups:
- name: sluice
  rules:
  - alert: Down
    expr: {expression}
"""


@pytest.mark.skipif(not RULES.exists(), reason="no alert rules are generated yet")
def test_prometheus_accepts_the_alert_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [("absent(leader_election_master_status)", True), ("absent(leader_election_master_status", False)],
)
def test_a_rule_with_a_mistake_is_refused(expression: str, accepted: bool, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULE.format(expression=expression))
    assert (promtool("check", "rules", str(file)).returncode == 0) is accepted


def test_prometheus_accepts_names_and_help_texts_of_the_metrics() -> None:
    async def scenario() -> str:
        async with cluster("metrics: {enableClusterQueueResources: true}\n") as c:
            await c.queues("1")
            await c.submit("a")
            await c.submit("b")
            await asyncio.sleep(10)
            return c.world.metrics.exposition()

    text = run_virtual(scenario())
    done = promtool("check", "metrics", stdin=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    missing = text.replace("# HELP kueue_build_info", "# HELP kueue_other")
    assert promtool("check", "metrics", stdin=missing).returncode != 0

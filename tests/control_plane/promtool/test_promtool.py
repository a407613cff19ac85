"""Prometheus' own checker accepts the alert rules and the metrics."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
import yaml

from queue_manager.simulation.virtual_time import run_virtual
from tests.control_plane.promtool import build
from tests.local.queue.cluster import cluster

pytestmark = pytest.mark.control_plane

RULES = Path(__file__).parents[3] / "deploy" / "monitoring" / "rules.yaml"
RULE = """groups:
- name: sluice
  rules:
  - alert: Down
    expr: {expression}
"""


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    assert build.path().is_file(), "run `make control-plane`"
    return subprocess.run(
        [build.path(), *arguments], input=stdin, text=True, capture_output=True, check=False, timeout=60
    )


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


def is_firing(alert: str, series: str, values: str, folder: Path) -> bool:
    """Whether the alert fires 90 minutes after the epoch, at which `promtool test rules` starts, if a series has these
    values, one per minute.
    """
    count = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    accepted = []
    for samples in ([], [{"labels": "{}", "value": 1}]):
        expected = {"expr": count, "eval_time": "90m", "exp_samples": samples}
        case = {
            "interval": "1m",
            "input_series": [{"series": series, "values": values}],
            "promql_expr_test": [expected],
        }
        file = folder / "test.yaml"
        file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [case]}))
        accepted.append(promtool("test", "rules", str(file)).returncode == 0)
    assert accepted.count(True) == 1
    return accepted[1]


@pytest.mark.parametrize(("days", "fires"), [(20, True), (22, False)])
def test_a_certificate_that_is_not_renewed_in_time_raises_an_alert(days: int, fires: bool, tmp_path: Path) -> None:
    """Sixty minutes after the epoch."""
    series = 'sluice_certificate_expiry_timestamp_seconds{certificate="webhook",pod="p"}'
    assert is_firing("SluiceCertificateExpires", series, f"{days * 86400 + 3600}x120", tmp_path) is fires


@pytest.mark.parametrize(
    ("values", "fires"),
    [
        ("0x80 60+60x20", True),  # without a write since minute 80
        ("0x84 60+60x2 0x20", False),  # that continued after two minutes
        ("0x120", False),
    ],
)
def test_a_history_that_is_not_written_raises_an_alert(values: str, fires: bool, tmp_path: Path) -> None:
    assert is_firing("SluiceHistoryStalled", 'sluice_history_stalled_seconds{pod="p"}', values, tmp_path) is fires


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

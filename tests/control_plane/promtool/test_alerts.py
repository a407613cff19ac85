"""Each alert fires for the series that it is about, and not for others, as Prometheus evaluates the rules.

A test begins at the epoch with a sample per minute. `0+2x60` is a counter that grows by two a minute for an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from queue_manager.installation.alerts import ALERTS
from tests.control_plane.promtool.command import RULES, promtool

pytestmark = pytest.mark.control_plane

DAY = 86400
SEVERITY = {alert.name: alert.severity for alert in ALERTS}
LEADER = "leader_election_master_status"
HEAD = 'sluice_cluster_queue_head_queued_timestamp_seconds{cluster_queue="q"}'
ADMITTED = 'kueue_admitted_workloads_total{cluster_queue="q",priority_class=""}'
NEVER_FITS = 'sluice_cluster_queue_blocked_by_never_fitting_head{cluster_queue="q"}'
CYCLE = "kueue_admission_attempt_duration_seconds_bucket"
EXPIRY = 'sluice_certificate_expiry_timestamp_seconds{certificate="webhook",pod="%s"}'
STALLED = 'sluice_history_stalled_seconds{pod="p"}'
OF_QUEUE = {"cluster_queue": "q"}


def evicted(reason: str) -> str:
    return f'kueue_evicted_workloads_total{{cluster_queue="q",reason="{reason}",underlying_cause="",priority_class=""}}'


def cycles(within_a_second: int, in_all: int) -> dict[str, str]:
    """Admission cycles per minute by their duration."""
    bounds = {"1": within_a_second, "2.5": in_all, "+Inf": in_all}
    return {f'{CYCLE}{{result="success",le="{bound}"}}': f"0+{count}x60" for bound, count in bounds.items()}


class Case(NamedTuple):
    """`labels`: those of the alert that fires, beside its name and severity; None: it does not."""

    alert: str
    what: str
    minute: int
    series: Mapping[str, str]
    labels: Mapping[str, str] | None


CASES = (
    Case("SluiceDown", "nothing is scraped", 6, {"up": "0x60"}, {}),
    Case("SluiceDown", "nothing is scraped since four minutes", 4, {"up": "0x60"}, None),
    Case("SluiceDown", "a candidate is scraped", 30, {f'{LEADER}{{name="l",pod="a"}}': "0x60"}, None),
    Case(
        "SluiceNoLeader",
        "two candidates",
        6,
        {f'{LEADER}{{name="l",pod="a"}}': "0x60", f'{LEADER}{{name="l",pod="b"}}': "0x60"},
        {"name": "l"},
    ),
    Case(
        "SluiceNoLeader",
        "one leads",
        30,
        {f'{LEADER}{{name="l",pod="a"}}': "0x60", f'{LEADER}{{name="l",pod="b"}}': "1x60"},
        None,
    ),
    Case(
        "SluiceNoLeader",
        "a take-over within a minute",
        30,
        {f'{LEADER}{{name="l",pod="a"}}': "1x10 0x50", f'{LEADER}{{name="l",pod="b"}}': "0x11 1x49"},
        None,
    ),
    Case("SluiceQueueStuck", "nothing was ever admitted", 380, {HEAD: "0x400"}, OF_QUEUE),
    Case("SluiceQueueStuck", "nothing was admitted lately", 780, {HEAD: "0x800", ADMITTED: "0+1x30 30x770"}, OF_QUEUE),
    Case("SluiceQueueStuck", "the head waits for five hours", 300, {HEAD: "0x400"}, None),
    Case("SluiceQueueStuck", "others are admitted", 380, {HEAD: "0x400", ADMITTED: "0+1x400"}, None),
    Case("SluiceQueueStuck", "the first one of all was admitted", 380, {HEAD: "0x400", ADMITTED: "_x200 1x200"}, None),
    Case("SluiceQueueStuck", "the head changes", 380, {HEAD: "0+60x400"}, None),
    Case("SluiceHeadNeverFits", "a head that never fits", 16, {NEVER_FITS: "1x60"}, OF_QUEUE),
    Case("SluiceHeadNeverFits", "for ten minutes only", 30, {NEVER_FITS: "1x10 0x50"}, None),
    Case(
        "SluiceEvictionStorm",
        "as many evictions as admissions",
        40,
        {evicted("PodsReadyTimeout"): "0+2x60", ADMITTED: "0+2x60"},
        {**OF_QUEUE, "reason": "PodsReadyTimeout"},
    ),
    Case(
        "SluiceEvictionStorm",
        "one of ten is evicted",
        40,
        {evicted("PodsReadyTimeout"): "0+1x60", ADMITTED: "0+10x60"},
        None,
    ),
    Case("SluiceEvictionStorm", "preemption", 40, {evicted("Preempted"): "0+2x60", ADMITTED: "0+2x60"}, None),
    Case(
        "SluiceEvictionStorm",
        "a few evictions",
        40,
        {evicted("PodsReadyTimeout"): "0+0.5x60", ADMITTED: "0+0.5x60"},
        None,
    ),
    Case("SluiceSlowCycle", "most take longer", 30, cycles(1, 10), {}),
    Case("SluiceSlowCycle", "all are quick", 30, cycles(10, 10), None),
    Case(
        "SluiceWatchFailures",
        "twelve a minute",
        30,
        {'reflector_failures_total{resource="jobs",pod="a"}': "0+12x60"},
        {"resource": "jobs"},
    ),
    Case("SluiceWatchFailures", "three a minute", 30, {'reflector_failures_total{resource="jobs"}': "0+3x60"}, None),
    Case(
        "SluiceCertificateExpires",
        "in 20 days",
        90,
        {EXPIRY % "a": f"{20 * DAY + 3600}x120", EXPIRY % "b": f"{50 * DAY}x120"},
        {"certificate": "webhook"},
    ),
    Case("SluiceCertificateExpires", "in 22 days", 90, {EXPIRY % "a": f"{22 * DAY + 3600}x120"}, None),
    Case("SluiceCertificateExpires", "renewed late", 90, {EXPIRY % "a": f"{20 * DAY}x40 {90 * DAY}x80"}, None),
    Case("SluiceHistoryStalled", "none written since minute 80", 90, {STALLED: "0x80 60+60x20"}, {}),
    Case("SluiceHistoryStalled", "it continued after two minutes", 90, {STALLED: "0x84 60+60x2 0x20"}, None),
    Case(
        "SluiceUndecodableObjects",
        "the first one of all",
        12,
        {'reflector_undecodable_total{resource="jobs"}': "_x10 1x60"},
        {"resource": "jobs"},
    ),
    Case(
        "SluiceUndecodableObjects",
        "one more",
        112,
        {'reflector_undecodable_total{resource="jobs"}': "1x100 2x60"},
        {"resource": "jobs"},
    ),
    Case(
        "SluiceUndecodableObjects",
        "two hours ago",
        180,
        {'reflector_undecodable_total{resource="jobs"}': "_x10 1x240"},
        None,
    ),
    Case("SluiceSyncErrors", "90 a minute", 30, {'workqueue_retries_total{name="job"}': "0+90x60"}, {"name": "job"}),
    Case("SluiceSyncErrors", "30 a minute", 30, {'workqueue_retries_total{name="job"}': "0+30x60"}, None),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.what}")
def test_an_alert_fires_when_its_condition_has_held_and_only_then(case: Case, tmp_path: Path) -> None:
    query = f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}'
    labels = {"alertname": case.alert, "alertstate": "firing", "severity": SEVERITY[case.alert], **(case.labels or {})}
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    expected = [] if case.labels is None else [{"labels": f"ALERTS{{{text}}}", "value": 1}]
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": f"{case.minute}m", "exp_samples": expected}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    assert {case.alert for case in CASES if case.labels is not None} == set(SEVERITY)
    assert {case.alert for case in CASES if case.labels is None} == set(SEVERITY)

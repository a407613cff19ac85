"""The Grafana dashboard: what an admin asks, from top (is it up, who waits) to bottom (what it costs).

Panels that can be restricted to ClusterQueues use the variable `queue`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from job_controller.json_tree import Json

QUEUE = 'cluster_queue=~"$queue"'
WINDOW = "[$__rate_interval]"
PANEL_HEIGHT, ROW_WIDTH = 8, 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph. `queries`: expression and legend of each."""

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    width: int = 12
    kind: Literal["timeseries", "stat"] = "timeseries"


def quantiles(metric: str, by: str = "") -> list[tuple[str, str]]:
    """Return the queries for the 50th and 95th percentile of a histogram: per value of the label `by`, or in all."""
    group = f"le, {by}" if by else "le"
    legend = f"{{{{{by}}}}} " if by else ""
    chosen = f"{{{QUEUE}}}" if by == "cluster_queue" else ""
    return [
        (
            f"histogram_quantile({q}, sum by ({group}) (rate({metric}_bucket{chosen}{WINDOW})))",
            f"{legend}p{round(100 * q)}",
        )
        for q in (0.5, 0.95)
    ]


def of_quota(amount: str) -> str:
    """Return the query of a gauge per flavor and resource, e.g. "resource_usage"."""
    return f"max by (cluster_queue, flavor, resource) (kueue_cluster_queue_{amount}{{{QUEUE}}})"


PANELS = (
    Panel(
        "Leader",
        "The manager that holds the Lease.",
        [("leader_election_master_status == 1", "{{pod}}{{instance}}")],
        width=6,
        kind="stat",
    ),
    Panel(
        "Pending", "Workloads that wait for quota.", [("sum(kueue_pending_workloads)", "pending")], width=6, kind="stat"
    ),
    Panel(
        "Admitted",
        "Workloads that are admitted and have not finished.",
        [("sum(kueue_admitted_active_workloads)", "admitted")],
        width=6,
        kind="stat",
    ),
    Panel(
        "Oldest head",
        "The longest time for which the first Workload of a ClusterQueue has waited.",
        [("max(time() - sluice_cluster_queue_head_queued_timestamp_seconds)", "age")],
        unit="s",
        width=6,
        kind="stat",
    ),
    Panel(
        "Pending by ClusterQueue",
        "inadmissible: nothing that would help has changed since the last attempt.",
        [(f"max by (cluster_queue, status) (kueue_pending_workloads{{{QUEUE}}})", "{{cluster_queue}} {{status}}")],
    ),
    Panel(
        "Age of the head",
        "How long the first Workload of each ClusterQueue has waited since its creation or last requeue.",
        [
            (
                f"time() - max by (cluster_queue) (sluice_cluster_queue_head_queued_timestamp_seconds{{{QUEUE}}})",
                "{{cluster_queue}}",
            )
        ],
        unit="s",
    ),
    Panel(
        "Admissions per second",
        "Workloads that were admitted.",
        [(f"sum by (cluster_queue) (rate(kueue_admitted_workloads_total{{{QUEUE}}}{WINDOW}))", "{{cluster_queue}}")],
        unit="ops",
    ),
    Panel(
        "Time to admission",
        "From creation or the last requeue until admission.",
        quantiles("kueue_admission_wait_time_seconds", "cluster_queue"),
        unit="s",
    ),
    Panel(
        "Usage of nominal quota",
        "Quota of the admitted Workloads, as a share of nominal quota; more than 100 % is borrowed.",
        [
            (
                f"{of_quota('resource_usage')} / ({of_quota('nominal_quota')} > 0)",
                "{{cluster_queue}} {{flavor}} {{resource}}",
            )
        ],
        unit="percentunit",
    ),
    Panel(
        "Reserved and nominal quota",
        "Amounts per flavor and resource: cpu in cores, memory in bytes.",
        [
            (
                of_quota("resource_reservation"),
                "{{cluster_queue}} {{flavor}} {{resource}} reserved",
            ),
            (of_quota("nominal_quota"), "{{cluster_queue}} {{flavor}} {{resource}} nominal"),
        ],
    ),
    Panel(
        "Evictions by reason",
        "Workloads that lost their quota before they finished.",
        [(f"sum by (reason) (rate(kueue_evicted_workloads_total{{{QUEUE}}}{WINDOW}))", "{{reason}}")],
        unit="ops",
    ),
    Panel(
        "Preemptions",
        "Workloads that made room for others, by the ClusterQueue that got the room.",
        [
            (
                "sum by (preempting_cluster_queue, reason) "
                f'(rate(kueue_preempted_workloads_total{{preempting_cluster_queue=~"$queue"}}{WINDOW}))',
                "{{preempting_cluster_queue}} {{reason}}",
            )
        ],
        unit="ops",
    ),
    Panel(
        "Duration of admission cycles",
        "The time that the scheduler takes to decide once.",
        quantiles("kueue_admission_attempt_duration_seconds"),
        unit="s",
    ),
    Panel(
        "API writes by cause",
        "Writes of the status of Workloads. At rest nothing is written.",
        [(f"sum by (cause) (rate(sluice_workload_status_writes_total{WINDOW}))", "{{cause}}")],
        unit="ops",
    ),
    Panel(
        "Latency of API writes",
        "From a write until the response, waits for the rate limit and for Retry-After included.",
        quantiles("sluice_api_write_duration_seconds", "resource"),
        unit="s",
    ),
    Panel(
        "Watch lag",
        "From the response to a write until the watch delivered it: how old the objects are that the manager works on.",
        quantiles("reflector_watch_lag_seconds", "resource"),
        unit="s",
    ),
    Panel(
        "Work queue depth",
        "Keys that wait for a worker.",
        [("max by (name) (workqueue_depth)", "{{name}}")],
    ),
    Panel(
        "Latency of webhooks",
        "From a complete review to its answer. The API server waits for it with each write in the scope of a webhook.",
        quantiles("controller_runtime_webhook_latency_seconds", "webhook"),
        unit="s",
    ),
    Panel(
        "Certificate expires in",
        "Of the webhooks and the visibility API. Sluice renews its own thirty days before.",
        [
            (
                "min by (certificate) (sluice_certificate_expiry_timestamp_seconds) - time()",
                "{{certificate}}",
            )
        ],
        unit="s",
        kind="stat",
    ),
    Panel(
        "Errors",
        "Syncs that are repeated, watches that failed, objects that cannot be read, Events that were dropped.",
        [
            (f"sum by (name) (rate(workqueue_retries_total{WINDOW}))", "retries {{name}}"),
            (f"sum by (resource) (rate(reflector_failures_total{WINDOW}))", "watch {{resource}}"),
            (f"sum by (resource) (rate(reflector_undecodable_total{WINDOW}))", "undecodable {{resource}}"),
            (f"sum(rate(events_dropped_total{WINDOW}))", "dropped Events"),
        ],
        unit="ops",
    ),
    Panel(
        "Job controller",
        "Jobs that finished by result, and pods that were created.",
        [
            (f"sum by (result) (rate(job_controller_jobs_finished_total{WINDOW}))", "finished {{result}}"),
            (f"sum by (status) (rate(job_controller_job_pods_creation_total{WINDOW}))", "pods created {{status}}"),
        ],
        unit="ops",
    ),
)


def dashboard() -> str:
    """Return the dashboard as the text of its file."""
    tree = {
        "title": "Sluice",
        "uid": "sluice",
        "tags": ["kueue", "sluice"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_data_source(), _queues()]},
        "panels": _placed(PANELS),
    }
    return json.dumps(tree, indent=1) + "\n"


def _data_source() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _queues() -> Json:
    query = "label_values(kueue_cluster_queue_status, cluster_queue)"
    return {
        "name": "queue",
        "label": "ClusterQueue",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "queues"},
        "definition": query,
        "refresh": 2,  # when the time range changes
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: Sequence[Panel]) -> list[Json]:
    """Place the panels from left to right, in rows."""
    found, x, y = [], 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > ROW_WIDTH:
            x, y = 0, y + PANEL_HEIGHT
        found.append({"id": number, "gridPos": {"x": x, "y": y, "w": panel.width, "h": PANEL_HEIGHT}, **_tree(panel)})
        x += panel.width
    return found


def _tree(panel: Panel) -> Json:
    return {
        "title": panel.title,
        "description": panel.description,
        "type": panel.kind,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"textMode": "value_and_name"} if panel.title == "Leader" else {},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for place, (expression, legend) in enumerate(panel.queries)
        ],
    }

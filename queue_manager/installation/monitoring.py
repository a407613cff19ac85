"""The objects that carry alerts and dashboard into a cluster with the Prometheus operator and Grafana's sidecar."""

from __future__ import annotations

from collections.abc import Sequence

from queue_manager.installation import object_names
from queue_manager.installation.alerts import ALERTS, rule_groups
from queue_manager.installation.dashboard import dashboard
from queue_manager.installation.rbac_objects import CLUSTER_WIDE, OWN_DEPLOYMENT, QUEUE_RUNS
from queue_manager.installation.template import NAMESPACE, Setting, Spread, Template, TemplateCondition, Text, when

RUNBOOK = "RUNBOOK.md"


def monitoring_templates() -> list[Template]:
    """Return ServiceMonitors, PrometheusRule and the ConfigMap with the dashboard."""
    monitored = TemplateCondition("monitoring.serviceMonitor.enabled")
    return [
        when(_service_monitor(object_names.MANAGER), QUEUE_RUNS, CLUSTER_WIDE, monitored),
        when(_service_monitor(object_names.JOB_CONTROLLER), OWN_DEPLOYMENT, monitored),
        when(_rules(), TemplateCondition("monitoring.prometheusRule.enabled")),
        when(_dashboard(), TemplateCondition("monitoring.dashboard.enabled")),
    ]


def plain_rule_groups() -> Sequence[Template]:
    """Return the alerts as in a rules file of Prometheus, beside which the runbook lies."""
    return rule_groups({alert.anchor: f"{RUNBOOK}#{alert.anchor}" for alert in ALERTS})


def _service_monitor(deployment: str) -> Template:
    return {
        "apiVersion": f"{object_names.MONITORING}/v1",
        "kind": "ServiceMonitor",
        "metadata": {
            "name": deployment,
            "namespace": NAMESPACE,
            "labels": {**object_names.LABELS, "+": Spread("monitoring.serviceMonitor.labels")},
        },
        "spec": {
            "selector": {"matchLabels": object_names.pod_labels(deployment)},
            "endpoints": [
                {
                    "port": "metrics",
                    "scheme": "https",
                    # Prometheus' own service account, bound to kueue-metrics-reader. It cannot know the CA of the
                    # certificate, which the manager renews.
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    "tlsConfig": {"insecureSkipVerify": True},
                    "interval": Setting("monitoring.serviceMonitor.interval"),
                }
            ],
        },
    }


def _rules() -> Template:
    address = Setting("monitoring.prometheusRule.runbook")
    return {
        "apiVersion": f"{object_names.MONITORING}/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": object_names.NAME,
            "namespace": NAMESPACE,
            "labels": {**object_names.LABELS, "+": Spread("monitoring.prometheusRule.labels")},
        },
        "spec": {"groups": rule_groups({alert.anchor: Text(address, f"#{alert.anchor}") for alert in ALERTS})},
    }


def _dashboard() -> Template:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "sluice-dashboard",
            "namespace": NAMESPACE,
            "labels": {**object_names.LABELS, "+": Spread("monitoring.dashboard.labels")},
        },
        "data": {"sluice.json": dashboard()},
    }

"""How the API server reaches a manager."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.installation.helm_test import answer_check_templates
from queue_manager.installation.helm_values import settings_from
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import values_of
from queue_manager.installation.template import resolve


@pytest.mark.parametrize(
    ("assignments", "skipped"),
    [((), False), (("webhook.enabled=false",), True), (("namespaces=[a]",), False)],
    ids=["with webhooks", "without webhooks", "listed namespaces"],
)
def test_the_visibility_api_is_verified_when_its_ca_is_written(assignments: tuple[str, ...], skipped: bool) -> None:
    """The manager writes its CA into an APIService only beside webhooks, and never where verification is skipped."""
    installed = objects(settings_from((), assignments))
    specs = [tree["spec"] for tree in installed if tree["kind"] == "APIService"]
    assert [spec["insecureSkipTLSVerify"] for spec in specs] == [skipped, skipped]


@pytest.mark.parametrize("components", ["Together", "Apart", "JobController"])
def test_the_pod_of_helm_test_reads_metrics_whoever_else_may(components: str) -> None:
    """A pod is admitted by the labels that the chart gives it, in its own namespace."""
    monitoring = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    settings = settings_from([{"networkPolicy": {"metricsFrom": [monitoring]}, "components": components}], ())
    [pod] = answer_check_templates()
    [labels] = [tree["metadata"]["labels"] for tree in resolve([pod], {**values_of(settings), "namespace": "ns"})]
    policies = [tree for tree in objects(settings) if tree["kind"] == "NetworkPolicy"]
    assert policies
    for policy in policies:
        peers = [peer for rule in policy["spec"]["ingress"] if metrics_port(rule) for peer in rule["from"]]
        assert peers == [monitoring, {"podSelector": {"matchLabels": labels}}]


def metrics_port(rule: dict[str, Any]) -> bool:
    return {"port": 8443, "protocol": "TCP"} in rule["ports"]

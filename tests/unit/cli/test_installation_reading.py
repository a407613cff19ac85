"""Which Services writes depend on, and which of them have a pod that answers."""

from __future__ import annotations

from typing import Any

import pytest

from job_controller.model import Key
from queue_manager.cli.installation_reading import ready_services, required_services
from queue_manager.installation.webhook_configurations import WebhookScope, webhook_configurations

SERVICE = Key("kueue-system", "kueue-webhook-service")


def test_writes_depend_on_the_service_of_both_configurations() -> None:
    names = [tree["metadata"]["name"] for tree in webhook_configurations(WebhookScope("kueue-system"))]
    assert required_services(webhook_configurations(WebhookScope("kueue-system"))) == {SERVICE: names}


def test_the_service_is_found_in_the_namespace_of_the_installation() -> None:
    """By its name, or by the label of the configuration, where the settings name another Service."""
    renamed = WebhookScope("queue", service="hooks", labels={"app.kubernetes.io/name": "sluice"})
    for scope, name in ((WebhookScope("queue"), SERVICE.name), (renamed, "hooks")):
        assert list(required_services(webhook_configurations(scope))) == [Key("queue", name)]


def test_no_write_depends_on_a_webhook_that_may_fail_or_is_somebody_else_s() -> None:
    ours = webhook_configurations(WebhookScope("kueue-system"))
    ignored = [
        {**tree, "webhooks": [{**hook, "failurePolicy": "Ignore"} for hook in tree["webhooks"]]} for tree in ours
    ]
    by_url = [{**ours[0], "webhooks": [{"clientConfig": {"url": "https://127.0.0.1:1"}}]}]
    assert required_services([*ignored, *by_url, *webhook_configurations(WebhookScope("elsewhere", service="x"))]) == {}


@pytest.mark.parametrize(
    ("endpoints", "ready"),
    [
        (None, set()),
        ([{"conditions": {"ready": False}}], set()),
        ([{"conditions": {"ready": False}}, {"conditions": {"ready": True}}], {SERVICE}),
        ([{"addresses": ["192.0.2.1"]}], {SERVICE}),
    ],
)
def test_a_service_is_ready_with_one_endpoint_that_is_not_known_to_be_unready(endpoints: Any, ready: set[Key]) -> None:
    labels = {"kubernetes.io/service-name": SERVICE.name}
    tree = {"metadata": {"namespace": SERVICE.namespace, "labels": labels}, "endpoints": endpoints}
    assert ready_services([tree]) == ready

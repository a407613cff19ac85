"""Which managers the Services of an installation lead to."""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import Settings
from queue_manager.operator.webhooks.ca_injection import OwnServices
from queue_manager.operator.webhooks.webhook_startup import serving_names


def services() -> dict[str, Json]:
    return {tree["metadata"]["name"]: tree["spec"] for tree in objects(Settings()) if tree["kind"] == "Service"}


def conversions() -> set[str]:
    """The Services that the definitions name."""
    specs = (tree["spec"] for tree in objects(Settings()) if tree["kind"] == "CustomResourceDefinition")
    hooks = (spec["conversion"]["webhook"] for spec in specs if spec.get("conversion", {}).get("strategy") == "Webhook")
    return {hook["clientConfig"]["service"]["name"] for hook in hooks}


def test_conversions_reach_managers_that_are_not_ready() -> None:
    """A manager becomes ready by a list that may need a conversion."""
    (name,) = conversions()
    found = services()
    assert found[name]["publishNotReadyAddresses"] is True
    assert found[name]["selector"] == found["kueue-webhook-service"]["selector"]


def test_reviews_reach_only_managers_that_are_ready() -> None:
    assert "publishNotReadyAddresses" not in services()["kueue-webhook-service"]


def test_the_certificate_is_valid_for_the_service_of_the_conversion() -> None:
    (name,) = conversions()
    assert f"{name}.system.svc" in serving_names(OwnServices("system", "kueue-webhook-service"))

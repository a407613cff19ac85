"""Which objects get the bundle, and by which patch."""

from __future__ import annotations

import base64

import pytest

from job_controller.json_tree import Json
from queue_manager.api.api_resources import API_SERVICES, CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from queue_manager.engine.transport_protocol import JSON_PATCH, MERGE_PATCH
from queue_manager.installation.webhook_configurations import WebhookScope, webhook_configurations
from queue_manager.operator.webhooks.ca_injection import OwnServices, change_of

OURS = OwnServices("system", "kueue-webhook-service")
BUNDLE = "-----BEGIN CERTIFICATE-----\n"
ENCODED = base64.b64encode(BUNDLE.encode()).decode()


def change(resource: Resource, obj: Json) -> tuple[Json, str] | None:
    return change_of(resource, obj, BUNDLE, OURS)


@pytest.mark.parametrize(("resource", "index"), [(MUTATING_WEBHOOKS, 0), (VALIDATING_WEBHOOKS, 1)])
def test_every_webhook_of_an_installation_gets_the_bundle(resource: Resource, index: int) -> None:
    configuration = webhook_configurations(WebhookScope("system"))[index]
    found = change(resource, configuration)
    assert found is not None
    steps, content_type = found
    assert content_type == JSON_PATCH
    added = [step["path"] for step in steps if step["op"] == "add"]
    assert added == [f"/webhooks/{i}/clientConfig/caBundle" for i in range(len(configuration["webhooks"]))]
    for hook in configuration["webhooks"]:
        hook["clientConfig"]["caBundle"] = ENCODED
    assert change(resource, configuration) is None


@pytest.mark.parametrize(
    "service", [{"namespace": "other", "name": OURS.webhook}, {"namespace": "system", "name": "x"}]
)
def test_webhooks_of_another_service_are_left_alone(service: Json) -> None:
    hooks = [{"name": "a", "clientConfig": {"service": service}}]
    assert change(MUTATING_WEBHOOKS, {"webhooks": hooks}) is None


def test_an_outdated_bundle_is_replaced_where_it_is() -> None:
    ours = {"service": {"namespace": "system", "name": OURS.webhook}}
    hooks = [
        {"name": "a", "clientConfig": {**ours, "caBundle": ENCODED}},
        {"name": "b", "clientConfig": {**ours, "caBundle": "b2xk"}},
    ]
    found = change(VALIDATING_WEBHOOKS, {"webhooks": hooks})
    assert found is not None
    assert found[0] == [
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": ENCODED},
    ]


@pytest.mark.parametrize("service", [OURS.conversion, OURS.webhook])
def test_a_definition_gets_the_bundle_for_its_conversion(service: str) -> None:
    config = {"service": {"namespace": "system", "name": service, "path": "/convert"}}
    crd = {"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": config}}}}
    assert change(CRDS, crd) == (
        {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": ENCODED}}}}},
        MERGE_PATCH,
    )
    config["caBundle"] = ENCODED
    assert change(CRDS, crd) is None
    assert change(CRDS, {"spec": {"conversion": {"strategy": "None"}}}) is None


def test_an_api_service_gets_the_bundle_unless_it_skips_verification() -> None:
    service = {"namespace": "system", "name": "kueue-visibility-server"}
    assert change(API_SERVICES, {"spec": {"service": service}}) == ({"spec": {"caBundle": ENCODED}}, MERGE_PATCH)
    assert change(API_SERVICES, {"spec": {"service": service, "insecureSkipTLSVerify": True}}) is None
    assert change(API_SERVICES, {"spec": {"service": {"namespace": "x", "name": "y"}}}) is None

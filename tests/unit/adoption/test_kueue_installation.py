"""Which objects of a cluster are Kueue's, and how they are saved."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.adoption.kueue_installation import (
    DEPLOYMENTS,
    LAST_APPLIED,
    Treatment,
    image_name,
    installed_objects,
    manifest,
    without_data,
)
from queue_manager.api.api_resources import API_SERVICES, MUTATING_WEBHOOKS

SYSTEM = "kueue-system"


def deployment(image: str, label: str = "controller-manager") -> dict[str, Any]:
    return {
        "metadata": {"name": "m", "namespace": SYSTEM, "labels": {"control-plane": label}},
        "spec": {"template": {"spec": {"containers": [{"name": "manager", "image": image}]}}},
    }


def webhooks(*services: tuple[str, str]) -> dict[str, Any]:
    configs = [{"clientConfig": {"service": {"namespace": ns, "name": name}}} for ns, name in services]
    return {"metadata": {"name": "w"}, "webhooks": configs}


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("registry.k8s.io/kueue/kueue:v0.14.2", "kueue"),
        ("localhost:5000/kueue", "kueue"),
        ("example.com/mirror/kueue@sha256:abc", "kueue"),
        ("ghcr.io/acme/sluice:v1", "sluice"),
    ],
)
def test_image_name_is_the_last_part_without_tag_and_digest(image: str, name: str) -> None:
    assert image_name(image) == name


@pytest.mark.parametrize(
    ("tree", "is_kueue"),
    [
        (deployment("registry.k8s.io/kueue/kueue:v0.14.2"), True),
        (deployment("example.com/sluice:1"), False),
        (deployment("registry.k8s.io/kueue/kueue:v0.14.2", label="kueueviz"), False),
    ],
)
def test_a_deployment_of_the_manager_is_stopped(tree: dict[str, Any], is_kueue: bool) -> None:
    found = [item.treatment for item in installed_objects(DEPLOYMENTS, [tree], SYSTEM)]
    assert found == ([Treatment.STOP] if is_kueue else [])


@pytest.mark.parametrize(
    ("tree", "is_kueue"),
    [
        (webhooks((SYSTEM, "kueue-webhook-service")), True),
        (webhooks(("other", "kueue-webhook-service")), False),
        (webhooks((SYSTEM, "kueue-webhook-service"), ("a", "b")), False),
        (webhooks(), False),
    ],
)
def test_webhooks_that_call_only_the_manager_are_deleted(tree: dict[str, Any], is_kueue: bool) -> None:
    found = [item.treatment for item in installed_objects(MUTATING_WEBHOOKS, [tree], SYSTEM)]
    assert found == ([Treatment.DELETE] if is_kueue else [])


def test_only_the_api_service_of_the_visibility_api_is_deleted() -> None:
    trees = [{"metadata": {"name": g}, "spec": {"group": g}} for g in ("visibility.kueue.x-k8s.io", "metrics.k8s.io")]
    assert [item.name for item in installed_objects(API_SERVICES, trees, SYSTEM)] == ["visibility.kueue.x-k8s.io"]


def test_a_saved_manifest_has_no_fields_of_the_server() -> None:
    tree = deployment("kueue") | {"status": {"replicas": 1}}
    tree["metadata"] |= {"uid": "u", "resourceVersion": "1", "managedFields": []}
    saved = manifest(DEPLOYMENTS, tree)
    assert saved["metadata"] == {"name": "m", "namespace": SYSTEM, "labels": {"control-plane": "controller-manager"}}
    assert (saved["apiVersion"], saved["kind"]) == ("apps/v1", "Deployment")
    assert "status" not in saved


def test_nothing_of_what_a_secret_keeps_is_left_without_its_data() -> None:
    annotations = {LAST_APPLIED: '{"stringData": {"key": "private"}}', "team": "a"}
    secret = {
        "metadata": {"name": "cert", "annotations": annotations},
        "type": "Opaque",
        "data": {"key": "eA=="},
    }
    emptied = without_data(secret)
    assert emptied == {"metadata": {"name": "cert", "annotations": {"team": "a"}}, "type": "Opaque"}

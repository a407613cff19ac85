"""What the pods of an installation mount."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from queue_manager.configuration import KueueConfig
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import Certificates, Components, Notifications, Settings, Webhook

Json = dict[str, Any]
SECRET = {"secretName": "hook", "optional": True}  # without it the queue goes on, and reports failed notifications
MOUNTED = {"name": "notifications", "mountPath": "/etc/sluice-notifications", "readOnly": True}


def pods(settings: Settings) -> dict[str, Json]:
    """The specs of the pods, by the names of their Deployments."""
    trees = [tree for tree in objects(settings) if tree["kind"] == "Deployment"]
    return {tree["metadata"]["name"]: tree["spec"]["template"]["spec"] for tree in trees}


@pytest.mark.parametrize("components", ["Together", "Apart", "Queue", "JobController"])
def test_the_secret_of_notifications_is_mounted_where_the_queue_runs(components: Components) -> None:
    found = pods(Settings(components=components, notifications=Notifications(secret_name="hook")))
    mounting = set()
    for name, pod in found.items():
        [container] = pod["containers"]
        if {"name": "notifications", "secret": SECRET} in pod["volumes"]:
            mounting.add(name)
        assert (MOUNTED in container["volumeMounts"]) == (name in mounting)
    assert mounting == found.keys() - {"sluice-job-controller"}


def test_no_pod_mounts_a_secret_by_default() -> None:
    assert not [volume for pod in pods(Settings()).values() for volume in pod["volumes"] if "secret" in volume]


@pytest.mark.parametrize("components", ["Together", "Apart", "Queue", "JobController"])
@pytest.mark.parametrize("source", ["Secret", "CertManager"])
def test_the_secret_with_the_certificate_is_mounted_where_webhooks_are_served(
    components: Components, source: Literal["Secret", "CertManager"]
) -> None:
    """At the default of webhook.certDir."""
    certificates = Certificates(source=source, secret_name="mine")
    for name, pod in pods(Settings(components=components, certificates=certificates)).items():
        wanted = {"name": "serving-certificate", "mountPath": KueueConfig().webhook.cert_dir, "readOnly": True}
        has_queue = name != "sluice-job-controller"
        assert ({"name": "serving-certificate", "secret": {"secretName": "mine"}} in pod["volumes"]) is has_queue
        assert (wanted in pod["containers"][0]["volumeMounts"]) is has_queue


def test_without_webhooks_no_certificate_is_mounted() -> None:
    settings = Settings(webhook=Webhook(enabled=False), certificates=Certificates(source="Secret"))
    assert not [volume for pod in pods(settings).values() for volume in pod["volumes"] if "secret" in volume]


@pytest.mark.parametrize("components", ["Together", "Apart"])
def test_a_pod_has_limits_and_only_pods_that_ask_mount_a_token(components: Components) -> None:
    settings = Settings(components=components)
    for pod in pods(settings).values():
        assert {"cpu", "memory"} <= pod["containers"][0]["resources"]["limits"].keys()
        assert pod["automountServiceAccountToken"] is True
    accounts = [tree for tree in objects(settings) if tree["kind"] == "ServiceAccount"]
    assert [account["automountServiceAccountToken"] for account in accounts] == [False] * len(accounts)
    assert accounts


@pytest.mark.parametrize("components", ["Together", "Apart"])
def test_of_two_replicas_a_disruption_leaves_one(components: Components) -> None:
    trees = objects(Settings(components=components))
    budgets = {t["metadata"]["name"]: t["spec"] for t in trees if t["kind"] == "PodDisruptionBudget"}
    for tree in trees:
        if tree["kind"] == "Deployment":
            spec = budgets[tree["metadata"]["name"]]
            assert (tree["spec"]["replicas"], spec["maxUnavailable"]) == (2, 1)
            assert spec["selector"] == tree["spec"]["selector"]

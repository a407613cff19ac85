"""What the pods of an installation mount."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.installation.objects import objects
from queue_manager.installation.settings import Components, Notifications, Settings

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

"""How the API server reaches a manager."""

from __future__ import annotations

import pytest

from queue_manager.installation.objects import objects
from queue_manager.installation.values import settings_from


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

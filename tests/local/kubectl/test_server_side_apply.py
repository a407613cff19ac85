"""kubectl apply --server-side with the embedded API server."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.local.kubectl.conftest import Kubectl

pytestmark = pytest.mark.kubectl


def config_map(**data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})


async def managers(k: Kubectl) -> dict[tuple[str, str], Any]:
    """(name, operation) -> owned fields."""
    tree = (await k("get", "configmap", "m", "-o", "json", "--show-managed-fields")).tree
    return {(e["manager"], e["operation"]): e["fieldsV1"] for e in tree["metadata"]["managedFields"]}


async def test_apply_creates_and_owns(k: Kubectl) -> None:
    done = await k("apply", "--server-side", "-f", "-", stdin=config_map(a="1"))
    assert done.out == "configmap/m serverside-applied\n"
    assert await managers(k) == {("kubectl", "Apply"): {"f:data": {"f:a": {}}}}


async def test_a_field_of_another_manager_is_a_conflict_until_forced(k: Kubectl) -> None:
    await k("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=config_map(a="1"))
    refused = await k.try_("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=config_map(a="2"))
    assert refused.code == 1
    assert 'Apply failed with 1 conflict: conflict with "one": .data.a' in refused.err
    await k("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", stdin=config_map(a="2"))
    assert await managers(k) == {("two", "Apply"): {"f:data": {"f:a": {}}}}


async def test_what_is_no_longer_applied_goes_away(k: Kubectl) -> None:
    await k("apply", "--server-side", "-f", "-", stdin=config_map(a="1", b="2"))
    await k("apply", "--server-side", "-f", "-", stdin=config_map(a="1"))
    assert (await k("get", "configmap", "m", "-o", "json")).tree["data"] == {"a": "1"}


async def test_apply_on_the_server_takes_over_from_apply_on_the_client(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=config_map(a="1", b="2"))
    assert ("kubectl-client-side-apply", "Update") in await managers(k)
    await k("apply", "--server-side", "-f", "-", stdin=config_map(a="3"))
    tree = (await k("get", "configmap", "m", "-o", "json")).tree
    assert tree["data"] == {"a": "3"}
    # kubectl keeps the annotation under a manager of its own.
    assert [name for name, _ in await managers(k)] == ["kubectl-last-applied", "kubectl"]


async def test_a_dry_run_on_the_server_stores_nothing(k: Kubectl) -> None:
    await k("apply", "--server-side", "-f", "-", stdin=config_map(a="1"))
    shown = await k("apply", "--server-side", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=config_map(a="2"))
    assert yaml.safe_load(shown.out)["data"] == {"a": "2"}
    assert (await k("get", "configmap", "m", "-o", "json")).tree["data"] == {"a": "1"}


@pytest.mark.parametrize("options", [[], ["--server-side", "--force-conflicts"]], ids=["client", "server"])
async def test_diff_shows_what_apply_would_change(k: Kubectl, options: list[str]) -> None:
    await k("apply", *options, "-f", "-", stdin=config_map(a="1"))
    assert (await k.try_("diff", *options, "-f", "-", stdin=config_map(a="1"))).code == 0
    shown = await k.try_("diff", *options, "-f", "-", stdin=config_map(a="2"))
    assert shown.code == 1, shown
    changed = [line for line in shown.out.splitlines() if line[:1] in "+-" and "a:" in line]
    assert [line.replace(" ", "") for line in changed] == ['-a:"1"', '+a:"2"']


async def test_an_unknown_field_is_refused(k: Kubectl) -> None:
    wrong = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "dada": {}})
    refused = await k.try_("apply", "--server-side", "--validate=ignore", "-f", "-", stdin=wrong)
    assert ".dada: field not declared in schema" in refused.err


async def test_edited_fields_are_owned_by_kubectl_edit(k: Kubectl) -> None:
    await k("apply", "--server-side", "-f", "-", stdin=config_map(a="1"))
    await k("label", "configmap", "m", "x=y")
    assert (await managers(k))[("kubectl-label", "Update")] == {"f:metadata": {"f:labels": {".": {}, "f:x": {}}}}

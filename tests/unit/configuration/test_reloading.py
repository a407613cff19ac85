"""Which fields of a new configuration a running process applies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from queue_manager.configuration import KueueConfig, loads
from queue_manager.configuration.config_field_types import ConfigModel, fields_of
from queue_manager.configuration.reloading import changes, verdict

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
AT_START = {
    "namespace",
    "metrics.bindAddress",
    "health",
    "history.enable",
    "history.url",
    "controller.cacheSyncTimeout",
    "clientConnection",
    "leaderElection",
    "jobController",
    "notifications",
    "internalCertManagement",
    "tls",
    "visibilityServer",
    "webhook",
}


def said(body: str) -> str:
    return verdict(changes(KueueConfig(), loads(HEAD + body)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", "no changes"),
        ("waitForPodsReady: {timeout: 5m, recoveryTimeout: 30m}\n", "applied: waitForPodsReady.timeout"),
        (
            "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: 3, timestamp: Creation}}\n",
            "applied: waitForPodsReady.requeuingStrategy.timestamp, "
            "waitForPodsReady.requeuingStrategy.backoffLimitCount",
        ),
        (
            "featureGates: {DisableWaitForPodsReady: true}\n",
            "applied: waitForPodsReady, featureGates",
        ),
        ("metrics: {enableClusterQueueResources: true}\n", "applied: metrics.enableClusterQueueResources"),
        (
            "pprofBindAddress: ':6060'\n",
            "applied: pprofBindAddress (no effect: there is no Go profile to serve)",
        ),
        (
            "jobController: {concurrentSyncs: 3}\nwaitForPodsReady: {timeout: 5m}\n",
            "nothing applied: jobController.concurrentSyncs (line 3) needs a restart, "
            "the Job controller has already started",
        ),
        (
            "metrics: {bindAddress: ':1'}\nhealth: {livenessEndpointName: alive}\n",
            "nothing applied: metrics.bindAddress (line 3) needs a restart, the address is served already; "
            "health.livenessEndpointName (line 4) needs a restart, the address is served already",
        ),
    ],
)
def test_each_changed_field_is_applied_or_needs_a_restart(body: str, expected: str) -> None:
    assert said(body) == expected


@pytest.mark.parametrize(("left", "place"), [("jobController: {}\n", " (line 3)"), ("", "")])
def test_a_field_that_was_removed_is_named_with_the_line_of_its_section(left: str, place: str) -> None:
    before = loads(HEAD + "jobController: {concurrentSyncs: 3}\n")
    assert verdict(changes(before, loads(HEAD + left))) == (
        f"nothing applied: jobController.concurrentSyncs{place} needs a restart, the Job controller has already started"
    )


def test_returning_to_the_default_is_a_change() -> None:
    off = loads(HEAD + "featureGates: {DisableWaitForPodsReady: true}\n")
    assert verdict(changes(off, KueueConfig())) == "applied: waitForPodsReady, featureGates"


def test_the_namespace_of_the_process_needs_a_restart_and_nothing_else_is_to_blame() -> None:
    """The selector of namespaces follows from it, and could be applied."""
    found = changes(KueueConfig(), loads(HEAD + "namespace: other\n"))
    assert [change.path for change in found.refused] == ["namespace"]
    assert len(found.fields) == 2


def leaves(section: ConfigModel, path: str = "") -> list[tuple[str, ConfigModel]]:
    """All fields that are not sections, each with a configuration in which only this one is changed."""
    result = []
    for name, field in fields_of(type(section), "v1beta2").items():
        attribute = next(key for key, found in type(section).model_fields.items() if found is field)
        value = getattr(section, attribute)
        if isinstance(value, ConfigModel):
            inner = leaves(value, f"{path}{name}.")
            result += [(p, section.model_copy(update={attribute: changed})) for p, changed in inner]
        else:
            result.append((f"{path}{name}", section.model_copy(update={attribute: another(value)})))
    return result


def another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case timedelta():
            return value + timedelta(seconds=7)
        case int() | float():
            return value + 7
        case str() | None:
            return "another"
        case tuple():
            return (*value, "another")
        case _:
            return {**value, "another": "another"}


LEAVES = leaves(KueueConfig())


@pytest.mark.parametrize(("path", "other"), LEAVES, ids=[path for path, _ in LEAVES])
def test_every_field_is_applied_or_named_as_needing_a_restart(path: str, other: KueueConfig) -> None:
    found = changes(KueueConfig(), other)
    assert [change.path for change in found.fields] == [path]
    spent = any(path == start or path.startswith(f"{start}.") for start in AT_START)
    assert bool(found.refused) == spent

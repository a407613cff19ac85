"""Environment variables of a container: from all sources, from the downward API, and in its command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from job_controller.json_tree import Json
from queue_manager.local.agent.container_program import arguments
from queue_manager.local.agent.environment import (
    ConfigError,
    Host,
    StartError,
    declared,
    environment,
    expand,
    field,
    resource_field,
)

HOST = Host("node-1", "10.0.0.1", {"cpu": "4", "memory": "8Gi"})
TOO_LONG = "argument list too long"
SOURCES = {
    ("configmap", "n", "settings"): {"A": "from a", "B": "from b", "not a name": "x", "1": "y"},
    ("secret", "n", "keys"): {"A": "secret", "TOKEN": "t"},
}
RESOURCES = {"requests": {"cpu": "250m"}, "limits": {"cpu": "1500m", "memory": "1Gi"}}
CONTAINERS: list[Json] = [{"name": "main", "resources": RESOURCES}, {"name": "bare"}]
POD: Json = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "labels": {"app": "x", "a.b/c": "y"},
        "annotations": {"note": "it's"},
    },
    "spec": {
        "containers": CONTAINERS,
        "initContainers": [{"name": "first", "resources": {"requests": {"cpu": "3"}}}],
        "serviceAccountName": "default",
        "nodeName": "other",
    },
}


async def source(kind: str, namespace: str, name: str) -> Mapping[str, str] | None:
    return SOURCES.get((kind, namespace, name))


async def variables(pod: Json = POD, **container: Any) -> dict[str, str]:
    return await declared(pod, {"name": "main", **container}, HOST, source)


def key_of(kind: str, name: str, key: str, **more: Any) -> list[Json]:
    return [{"name": "V", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": key, **more}}}]


SETTINGS, KEYS = {"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}
SEEN: list[tuple[Json, dict[str, str]]] = [
    ({}, {}),
    ({"env": [{"name": "V"}]}, {"V": ""}),
    ({"envFrom": [SETTINGS]}, {"A": "from a", "B": "from b"}),
    ({"envFrom": [SETTINGS, KEYS]}, {"A": "secret", "B": "from b", "TOKEN": "t"}),
    ({"envFrom": [KEYS, SETTINGS]}, {"A": "from a", "B": "from b", "TOKEN": "t"}),
    ({"envFrom": [{**KEYS, "prefix": "P_"}]}, {"P_A": "secret", "P_TOKEN": "t"}),
    ({"envFrom": [{**SETTINGS, "prefix": "P"}]}, {"PA": "from a", "PB": "from b", "P1": "y"}),
    ({"envFrom": [{"configMapRef": {"name": "none", "optional": True}}]}, {}),
    ({"envFrom": [KEYS], "env": [{"name": "A", "value": "own, not $(A)"}]}, {"A": "own, not secret", "TOKEN": "t"}),
    ({"env": [{"name": "W", "value": "$(V)"}, {"name": "V", "value": "1"}]}, {"W": "$(V)", "V": "1"}),
    ({"env": [{"name": "V", "value": "1"}, {"name": "V", "value": "$(V)2"}]}, {"V": "12"}),
    ({"env": key_of("configMap", "settings", "A")}, {"V": "from a"}),
    ({"env": key_of("secret", "keys", "TOKEN")}, {"V": "t"}),
    ({"env": key_of("secret", "keys", "none", optional=True)}, {}),
    ({"env": key_of("configMap", "none", "A", optional=True)}, {}),
    ({"env": [{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, {"V": "p"}),
    ({"env": [{"name": "V", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}}]}, {"V": "1"}),
]


@pytest.mark.parametrize(("container", "expected"), SEEN)
async def test_later_variables_override_earlier_ones(container: Json, expected: dict[str, str]) -> None:
    assert await variables(**container) == expected


MISSING: list[tuple[Json, str]] = [
    ({"envFrom": [{"configMapRef": {"name": "none"}}]}, 'configmap "none" not found'),
    ({"envFrom": [{"secretRef": {"name": "none", "optional": False}}]}, 'secret "none" not found'),
    ({"env": key_of("configMap", "none", "A")}, 'configmap "none" not found'),
    ({"env": key_of("secret", "none", "A")}, 'secret "none" not found'),
    ({"env": key_of("configMap", "settings", "C")}, "couldn't find key C in ConfigMap n/settings"),
    ({"env": key_of("secret", "keys", "C")}, "couldn't find key C in Secret n/keys"),
    ({"env": [{"name": "V", "valueFrom": {"fileKeyRef": {}}}]}, "env V: unsupported valueFrom fileKeyRef"),
]


@pytest.mark.parametrize(("container", "message"), MISSING)
async def test_a_missing_source_is_named(container: Json, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        await variables(**container)
    assert str(refused.value) == message


async def test_every_container_has_a_home_a_path_and_a_host_name() -> None:
    seen = environment(POD, {}, "/pods/u/main/work")
    assert (seen["HOME"], seen["HOSTNAME"]) == ("/pods/u/main/work", "p")
    assert (seen["SLUICE_POD_UID"], seen["SLUICE_POD_DIR"]) == ("u", "/pods/u")
    named = {**POD, "spec": {**POD["spec"], "hostname": "h"}}
    own = {"env": [{"name": "PATH", "value": "/mine"}, {"name": "SLUICE_POD_UID", "value": "another"}]}
    seen = environment(named, await variables(**own), "/home")
    assert (seen["PATH"], seen["HOSTNAME"], seen["SLUICE_POD_UID"]) == ("/mine", "h", "u")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "n"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['a.b/c']", "y"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", "it's"),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1"),
    ],
)
def test_the_downward_api(path: str, value: str) -> None:
    assert field(path, POD, HOST) == value


def test_an_unknown_field_of_the_downward_api_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec\.x"):
        field("spec.x", POD, HOST)


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.cpu", "divisor": "0"}, "2"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "requests.cpu", "divisor": "100m"}, "3"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "requests.memory", "divisor": "1Gi"}, "1"),
        ({"resource": "requests.ephemeral-storage"}, "0"),
        ({"resource": "limits.ephemeral-storage"}, "0"),
        ({"resource": "limits.cpu", "containerName": "bare"}, "4"),
        ({"resource": "requests.cpu", "containerName": "bare"}, "0"),
        ({"resource": "requests.cpu", "containerName": "first"}, "3"),
    ],
)
def test_resources_as_variables_are_rounded_up(reference: Json, value: str) -> None:
    assert resource_field(reference, POD, CONTAINERS[0], HOST) == value


@pytest.mark.parametrize(
    ("reference", "message"),
    [({"resource": "limits.cpu", "containerName": "none"}, "container none not found"), ({"resource": "x.cpu"}, "x")],
)
def test_missing_resources_are_refused(reference: Json, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resource_field(reference, POD, CONTAINERS[0], HOST)


async def test_references_expand_only_declared_variables() -> None:
    """Variables that the container runtime adds are not expanded, such as $(HOME)."""
    container = {"command": ["$(HOME) $(PATH) $(HOSTNAME) $(A) $$(A)"], "env": [{"name": "A", "value": "$(HOME)1"}]}
    seen = await variables(**container)
    assert seen == {"A": "$(HOME)1"}
    assert arguments(container, seen) == ["$(HOME) $(PATH) $(HOSTNAME) $(HOME)1 $(A)"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $(B) $(", "$A ${A} $(B) $("),
        ("$(A) $(A $$(A $$$", "1 $(A $(A $$"),
        ("$(" * 50_000, "$(" * 50_000),  # looked for to the end only once
        ("x$(A)$(A)y", "x11y"),
        ("$$", "$"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


async def from_big(kind: str, namespace: str, name: str) -> dict[str, str] | None:
    return {"A": "x" * 1_000_000}


@pytest.mark.parametrize(
    "container",
    [
        {
            "env": [{"name": "E0", "value": "xx"}]
            + [{"name": f"E{i}", "value": f"$(E{i - 1})" * 2} for i in range(1, 64)]
        },
        {"env": [{"name": f"E{i}", "value": "x" * 100_000} for i in range(100)]},
        {"envFrom": [{"prefix": f"E{i}", "configMapRef": {"name": "big"}} for i in range(10)]},
    ],
    ids=["doubled", "many", "from a ConfigMap"],
)
async def test_variables_beyond_the_size_limit_of_a_program_are_refused(
    container: dict[str, Any],
) -> None:
    pod = {"metadata": {"name": "pod", "namespace": "default", "uid": "1"}, "spec": {}}
    with pytest.raises(StartError, match=TOO_LONG):
        await declared(pod, container, HOST, from_big)


async def test_a_zero_byte_is_refused_before_a_program_is_started_with_it() -> None:
    pod = {"metadata": {"name": "pod", "namespace": "default", "uid": "1"}, "spec": {}}
    with pytest.raises(StartError, match="the variable A has a zero byte"):
        await declared(pod, {"env": [{"name": "A", "value": "a\0b"}]}, HOST, from_big)
    with pytest.raises(StartError, match="an argument has a zero byte"):
        arguments({"command": ["echo"], "args": ["a\0b"]}, {})

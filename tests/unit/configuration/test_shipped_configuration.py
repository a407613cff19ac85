"""The shipped configuration and its JSON schema agree with the loader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_manager.configuration import KueueConfig, load, loads
from queue_manager.configuration.config_as_yaml import as_tree, as_yaml
from queue_manager.configuration.config_field_types import ConfigModel, fields_of, no_effect_reason
from queue_manager.configuration.json_schema import render, schema

CONFIG = Path(__file__).parents[3] / "config"
SHIPPED = CONFIG / "kueue_config.yaml"
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
HEAD_V1BETA1 = HEAD.replace("v1beta2", "v1beta1")
OFF = re.compile(r"^( *)#(?! \S|$)", re.MULTILINE)


def everything_on() -> str:
    """The shipped file with every commented-out setting enabled."""
    return OFF.sub(r"\1", SHIPPED.read_text().partition("apiVersion:")[2].join(["apiVersion:", ""]))


def working(section: ConfigModel, path: str = "") -> Iterator[str]:
    """The paths of all fields that have an effect."""
    for name, field in fields_of(type(section), "v1beta2").items():
        if not no_effect_reason(field):
            attribute = next(key for key, found in type(section).model_fields.items() if found is field)
            value = getattr(section, attribute)
            if isinstance(value, ConfigModel):
                yield from working(value, f"{path}{name}.")
            else:
                yield f"{path}{name}"


def paths(tree: Any, path: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from paths(value, f"{path}{name}.")
        yield f"{path}{name}"


def test_the_shipped_file_loads_to_exactly_the_defaults() -> None:
    config = load(SHIPPED)
    assert config == KueueConfig()
    assert config.ignored == ()


def test_an_empty_file_means_the_defaults() -> None:
    assert loads("") == KueueConfig()


def test_the_shipped_file_shows_every_field_that_has_an_effect() -> None:
    shown = set(paths(yaml.safe_load(everything_on())))
    assert sorted(set(working(KueueConfig())) - shown) == []


def test_the_commented_out_settings_of_the_shipped_file_are_valid() -> None:
    config = loads(everything_on())
    assert config.ignored == ()
    assert config.resources.transformations[0].input == "example.com/gpu-7g"
    assert config.wait_for_pods_ready is not None
    assert config.wait_for_pods_ready.requeuing_strategy.backoff_limit_count == 5


def test_the_schema_is_up_to_date() -> None:
    """`make crds` writes it."""
    assert (CONFIG / "kueue_config.schema.json").read_text() == render()


@pytest.mark.parametrize(("version", "branch"), [("v1beta1", "then"), ("v1beta2", "else")])
def test_the_schema_knows_the_fields_that_the_loader_knows(version: str, branch: str) -> None:
    known = {*fields_of(KueueConfig, version), "apiVersion", "kind"}
    assert ("queueVisibility" in known) == (version == "v1beta1")
    assert set(schema()[branch]["properties"]) == known
    assert ("enable" in schema()[branch]["properties"]["waitForPodsReady"]["properties"]) == (version == "v1beta1")


def test_a_default_in_the_schema_is_the_effective_one() -> None:
    tree = as_tree(KueueConfig())

    def check(node: Any, value: Any) -> int:
        children = node.get("properties", {})
        found = 0
        for name, child in children.items():
            # An absent section is enabled, one that only lacks the field is not.
            if isinstance(value, dict) and name in value and name != "localQueueMetrics":
                found += check(child, value[name])
                if "default" in child and child["type"] != ["object", "null"]:
                    assert child["default"] == value[name], name
                    found += 1
        return found

    assert check(schema()["else"], tree) > 30


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD_V1BETA1,
        HEAD_V1BETA1 + "waitForPodsReady: {enable: true, timeout: 90s}\n",
        HEAD_V1BETA1 + "queueVisibility: {}\nfairSharing: {enable: true}\n",
        HEAD + "featureGates: {DisableWaitForPodsReady: true}\n",
        HEAD + "namespace: other\nclientConnection: {qps: 0.5}\n",
        everything_on(),
    ],
    ids=["empty", "v1beta1", "v1beta1 waiting", "v1beta1 fields", "not waiting", "other namespace", "everything"],
)
def test_the_effective_configuration_as_yaml_loads_to_itself(text: str) -> None:
    config = loads(text)
    again = loads(as_yaml(config))
    gates = {**config.feature_gates, **({} if config.wait_for_pods_ready else {"DisableWaitForPodsReady": True})}
    visible = config.visibility_server or KueueConfig().visibility_server
    assert again == config.model_copy(update={"feature_gates": gates, "visibility_server": visible})


def test_fields_of_the_older_version_are_not_printed() -> None:
    """The printed file is v1beta2, which does not have them."""
    config = loads(HEAD_V1BETA1 + "integrations: {podOptions: {podSelector: {}}}\n")
    assert "podOptions" not in as_yaml(config)
    assert loads(as_yaml(config)).integrations.pod_options is None


def test_names_on_the_wire_are_those_of_the_api() -> None:
    assert {"managedJobsNamespaceSelector", "waitForPodsReady", "multiKueue", "pprofBindAddress"} <= set(
        fields_of(KueueConfig)
    )


def test_the_schema_file_is_json_of_draft_7() -> None:
    assert json.loads((CONFIG / "kueue_config.schema.json").read_text())["$schema"].endswith("draft-07/schema#")

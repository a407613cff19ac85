"""The effective configuration as a tree and as YAML: what an admin would have to write to get it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import yaml

from job_controller.json_tree import Json
from queue_manager.configuration import durations
from queue_manager.configuration.decode import wire_name
from queue_manager.configuration.features import DISABLE_WAIT_FOR_PODS_READY
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.selector import LabelSelector
from queue_manager.configuration.versions import GROUP, KIND, V1BETA2


def as_tree(config: KueueConfig) -> Json:
    """Every field with its effective value, in wire form; fields that are off or unset are left out."""
    return {"apiVersion": f"{GROUP}/{V1BETA2}", "kind": KIND, **_section(config)}


def as_yaml(config: KueueConfig) -> str:
    """As a v1beta2 file that loads to the same configuration, whatever version the original was in."""
    tree = as_tree(config)
    if config.wait_for_pods_ready is None:
        # Absence means on in this version; there is no other way to say off.
        tree["featureGates"] = {**tree.get("featureGates", {}), DISABLE_WAIT_FOR_PODS_READY: True}
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120)


def _section(section: Any) -> dict[str, Any]:
    values = {}
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if field.metadata.get("doc") and value is not None:
            values[wire_name(field.name)] = plain(value)
    return values


def plain(value: Any) -> Any:
    """A value in wire form."""
    match value:
        case timedelta():
            return durations.render(value)
        case LabelSelector():
            return value.tree()
        case tuple():
            return [plain(item) for item in value]
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case float() if value.is_integer():
            return int(value)
        case _ if dataclasses.is_dataclass(value):
            return _section(value)
        case _:
            return value

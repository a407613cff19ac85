"""The effective configuration as a tree and as YAML: a file with every field, which loads to the same configuration."""

from __future__ import annotations

import yaml

from job_controller.json_tree import Json
from queue_manager.configuration.config_field_types import V1BETA2
from queue_manager.configuration.feature_gates import DISABLE_WAIT_FOR_PODS_READY
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.version_defaults import GROUP, KIND


def as_tree(config: KueueConfig) -> Json:
    """Every field with its effective value, in the form of the file; fields that are off or unset are left out."""
    fields = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"apiVersion": f"{GROUP}/{V1BETA2}", "kind": KIND, **fields}


def as_loadable_tree(config: KueueConfig) -> Json:
    """The tree of a v1beta2 file that loads to this configuration, also if the original file was v1beta1.

    The visibility API is an exception: v1beta1 does not have it, and v1beta2 cannot switch it off.
    """
    tree = as_tree(config)
    if config.wait_for_pods_ready is None:
        # In v1beta2 an absent section is on; only this gate switches it off.
        tree["featureGates"] = {**tree.get("featureGates", {}), DISABLE_WAIT_FOR_PODS_READY: True}
    return tree


def as_yaml(config: KueueConfig) -> str:
    """The text of `as_loadable_tree`."""
    return yaml.safe_dump(as_loadable_tree(config), sort_keys=False, allow_unicode=True, width=120)

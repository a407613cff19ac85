"""Whether the configuration of a cluster's Kueue decides anything that an installation without it would not."""

from __future__ import annotations

from typing import Any

from job_controller.json_tree import Json
from queue_manager.configuration import ConfigurationError, KueueConfig, loads
from queue_manager.configuration.config_map import KEY

STOCK_CLIENT = {"qps": 50.0, "burst": 100}  # clientConnection of Kueue's own manifests
WITHOUT_EFFECT = {"integrations": {"frameworks"}, "controller": {"group_kind_concurrency"}}


def text_of(config_map: Json | None) -> str:
    """Return the text of the configuration in Kueue's ConfigMap, "" without one."""
    return str(((config_map or {}).get("data") or {}).get(KEY) or "")


def has_own_settings(text: str) -> bool:
    """Whether a configuration differs in a field with effect from the defaults and from Kueue's own manifests.

    One that cannot be read counts: its mistakes are to be corrected rather than forgotten.
    """
    if not text:
        return False
    try:
        return _effective(loads(text)) != _effective(KueueConfig())
    except ConfigurationError:
        return True


def _effective(config: KueueConfig) -> dict[str, Any]:
    fields: dict[str, Any] = config.model_dump(exclude=WITHOUT_EFFECT)
    if fields["client_connection"] == STOCK_CLIENT:
        fields["client_connection"] = KueueConfig().client_connection.model_dump()
    return fields
